"""The preset city-million with a two-hundredth of its subscribers: a tenth would take most of a minute."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tocsin.lab.experiments import million
from tocsin.lab.experiments.million import NAME, find_all, probe_run, write_report
from tocsin.lab.experiments.youth import Youth
from tocsin.simulator.timeline import Run

pytestmark = pytest.mark.shell


@pytest.fixture(scope="module")
def run() -> Run:
    return probe_run()


def test_a_small_city_million_keeps_what_the_large_one_promises(run: Run) -> None:
    """All hundred brokers take part, one dies and comes back, everybody finds a broker, and loads become even."""
    assert [one.id for one in find_all(run) if not one.holds] == []
    assert run.totals.failures == 1
    assert len(run.brokers) == 100
    assert run.totals.logouts > 100
    assert run.totals.unsubscribes > 100
    assert run.totals.deliveries > 500_000


def test_people_who_are_lost_and_loads_that_stay_uneven_are_found(run: Run) -> None:
    dead = run.brokers.index("broker-045")
    lost = [replace(one, subscribers=(0,) * 99 + (1,)) if one.time_s > 1200 else one for one in run.samples]
    stuck = [
        replace(one, subscribers=tuple(9 if at == dead else 50 for at in range(100))) if one.time_s > 1200 else one
        for one in run.samples
    ]
    for samples in (lost, stuck):
        found = {one.id: one.holds for one in find_all(replace(run, samples=tuple(samples)))}
        assert not found["who-lost-a-broker-finds-another"]
    uneven = [replace(one, scores=(9e6,) + (1.0,) * 99) for one in run.samples]
    assert not find_all(replace(run, samples=tuple(uneven)))[1].holds
    assert not find_all(replace(run, plans=()))[1].holds


def test_its_report(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has the counts and pictures; the file for machines has the run, and who made it."""
    monkeypatch.setattr(million, "YOUTH", Youth(("model",)))
    write_report(run, "tocsin experiment million --out DIR", tmp_path)
    assert f"| deliveries | {run.totals.deliveries:,} |" in (tmp_path / "report.md").read_text()
    document = json.loads((tmp_path / "claims.json").read_text())
    assert document["runs"][0]["scenario"] == NAME
    assert document["made_by"]["fingerprint"]
