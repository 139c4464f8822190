"""docs/reference/metrics.md tells of every series that the coordinator and brokers expose, and of no other."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.coordinator.metrics import Metrics as CoordinatorMetrics

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def broker() -> bytes:
    metrics = BrokerMetrics()
    metrics.watch(BrokerState("b", Limits(), random.Random(0)))
    metrics.pulls.labels("done").inc()
    metrics.closed.labels("4001").inc()
    metrics.pings.labels("measured").inc()
    return metrics.exposition()


def coordinator() -> bytes:
    metrics = CoordinatorMetrics()
    metrics.placements.labels("nearest").inc()
    metrics.tokens.labels("issued").inc()
    metrics.moved("done", 0.5)
    return metrics.render({}, 0, mass_outage=False)


@pytest.mark.parametrize(("title", "exposition"), [("Brokers", broker()), ("The coordinator", coordinator())])
def test_the_page_lists_every_series(title: str, exposition: bytes) -> None:
    """Each series is there with its kind, and no other is."""
    section = _PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    documented = dict(re.findall(r"^\| `(tocsin_\w+)` \| (\w+) \|", section, re.MULTILINE))
    exposed = {
        sample.name: family.type
        for family in text_string_to_metric_families(exposition.decode())
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    assert documented == exposed
