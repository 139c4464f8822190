"""Three kills of the real cluster under load. `make chaos` has thirty, and planted bugs beside them."""

from __future__ import annotations

import json

import pytest

from chaos.harness import Kill, Moment, run
from chaos.process import Target

KILLS = [
    Kill(Moment.ROWS_COMMITTED, Target.DRIVER, after_s=0.5, late_s=0.0, patient=True),
    Kill(Moment.STARTING, Target.ALL, after_s=1.5, late_s=0.0, patient=False),
    Kill(Moment.ACKNOWLEDGED, Target.JAVA, after_s=0.5, late_s=0.0, patient=False),
]


@pytest.mark.spark
@pytest.mark.system
def test_three_kills_lose_and_double_nothing() -> None:
    """Killed after a commit, while starting, and by the loss of its Java process; every record and result counts."""
    report = run("short", KILLS)
    figures = json.dumps(report.to_json(), indent=2)
    assert not report.violations, figures
    assert sum(report.kills.values()) == len(KILLS)
    # A run in which nothing happened would find nothing wrong either.
    assert report.outcomes["ok"] > 500, figures
    assert report.results_expected > 3000, figures
