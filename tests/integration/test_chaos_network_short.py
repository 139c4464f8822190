"""Four kills of a small network under load. `make chaos` has two dozen, 300 subscribers, and planted bugs too."""

from __future__ import annotations

import json

import pytest

from chaos.network.harness import run
from chaos.network.plans import BROKERS, CLUSTER, COORDINATOR, Kill, Scale

KILLS = [
    Kill((BROKERS[0],), after_s=1.0, down_s=3.0),
    Kill((COORDINATOR,), after_s=0.5, down_s=0.0),
    Kill((BROKERS[1],), after_s=0.5, down_s=0.0, patient=False),
    Kill((CLUSTER,), after_s=1.0, down_s=0.0),
]
SCALE = Scale(subscribers=40, processes=1, publish_every_s=0.1, act_every_s=5.0, away_s=3.0, rest_s=1.0)


@pytest.mark.spark
@pytest.mark.system
def test_four_kills_keep_no_notification_from_anybody() -> None:
    """A broker away for long, the coordinator, another broker and the cluster are killed; every notification counts."""
    report = run("short", KILLS, SCALE)
    figures = json.dumps(report.to_json(), indent=2)
    assert not report.violations, figures
    assert sum(report.kills.values()) == len(KILLS)
    # A run in which nothing happened would find nothing wrong either.
    assert report.records_acknowledged > 100, figures
    assert report.notifications > 200, figures
    assert report.lives > report.subscribers, figures
