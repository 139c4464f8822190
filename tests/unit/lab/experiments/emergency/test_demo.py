"""What the demonstration says, and how it judges."""

from __future__ import annotations

from array import array
from dataclasses import replace

import pytest
from rich.console import Console

from tocsin.lab.experiments.emergency.cityrun import CityRun
from tocsin.lab.experiments.emergency.demo import in_words, show_summary
from tocsin.lab.experiments.emergency.tally import Audit, Hold, Tally, audit, percentiles_s
from tocsin.model.position import Position
from tocsin.simulator.timeline import PlanRecord, Run, Sample, Totals

_CLEAN = Audit(expected=14, lost=0, doubled=0, reordered=0, misdelivered=0)


def city_run(found: Audit = _CLEAN, accepted: int = 10, silent: str = "") -> CityRun:
    """A run in which all went well, but for what is said."""
    tally = Tally(published=10, accepted=accepted)
    for name, channel in tally.channels.items():
        channel.notifications = 0 if name == silent else 2
        channel.delays_s = array("f", [1.0, 3.0])
        channel.examples = [{"message": "Fire in Old Town, severity 3. Keep away.", "metres": 12.3}]
    plan = PlanRecord(60.0, "migration", "ldm", "cov 0.70 is above 0.15", 54, 0.7, 0.14, 9.0, 5.0, 1.1)
    totals = Totals(**{**dict.fromkeys(Totals.__slots__, 0), "migrations": 54})
    run = Run("city", "nearest/ldm", 1, 60, "nearest", "ldm", "", 0.15, 0, 0.5, 0, (), (), (), (plan,), totals)
    return CityRun(run, tally, found, speed_up=6.0, overruns=0, failed_moves=0)


def test_success() -> None:
    """All records accepted, every channel heard, everybody handed what they should be: that is success."""
    assert not city_run().failures
    assert city_run().to_json()["succeeded"] is True
    assert city_run().to_json()["notifications"] == 14


@pytest.mark.parametrize("kind", ["lost", "doubled", "reordered", "misdelivered"])
def test_any_wrong_notification_is_a_failure(kind: str) -> None:
    """One notification too few, too many or in the wrong place shows in the verdict."""
    counts = {"expected": 14, "lost": 0, "doubled": 0, "reordered": 0, "misdelivered": 0, kind: 1}
    assert city_run(Audit(**counts)).failures == [f"1 notifications {kind}"]


def test_a_subscription_that_ends_while_it_is_held_is_a_failure() -> None:
    assert city_run(replace(_CLEAN, ended=2)).failures == ["2 subscriptions ended while somebody held them"]


def test_other_failures() -> None:
    """So does a record that was not accepted, and a channel that told nobody anything."""
    assert city_run(accepted=9).failures == ["9 of 10 records were accepted"]
    assert city_run(silent="EmergenciesNearMe").failures == ["no notification came from EmergenciesNearMe"]


def test_a_broker_that_dies_by_itself_is_a_failure() -> None:
    """Even if nobody missed anything."""
    sample = Sample(1.0, (1, 0), (1.0, 0.0), (1.0, 0.0), (0.0, 0.0), (0.0, 0.0), (1, 0), 0, (True, False))
    clean = city_run()
    found = replace(clean, run=replace(clean.run, brokers=("a", "b"), samples=(sample,)))
    assert found.failures == ["b fell silent without an order"]


@pytest.mark.parametrize(
    ("received", "found"),
    [
        ([1, 2, 3], Audit(3, 0, 0, 0, 0)),
        ([1, 3], Audit(3, 1, 0, 0, 0)),
        ([1, 2, 2, 3], Audit(3, 0, 1, 0, 0)),
        ([1, 3, 2], Audit(3, 0, 0, 1, 0)),
        ([1, 2, 3, 9], Audit(3, 0, 0, 0, 1)),
        ([], Audit(3, 3, 0, 0, 0)),
    ],
)
def test_audit(received: list[int], found: Audit) -> None:
    """What somebody was handed against all results of the subscription since it was theirs."""
    assert audit([Hold("ann", "C", Position(7, 0), array("q", received))], {7: [-1, 0, 1, 2, 3], 8: [1]}) == found


def test_audit_of_what_was_given_up() -> None:
    """Nothing may be missing before the last that was handed out; what came after may have been too late."""
    given_up = Hold("ann", "C", Position(7, 0), array("q", [1, 3]), is_given_up=True)
    assert audit([given_up], {7: [1, 2, 3, 4, 5]}) == Audit(3, 1, 0, 0, 0)
    at_once = Hold("ann", "C", Position(7, 0), is_given_up=True)
    assert audit([at_once], {7: [1, 2]}) == Audit(0, 0, 0, 0, 0)


def test_what_came_before_we_knew_counts() -> None:
    """A result that came before the answer to the subscription is neither lost nor unexpected."""
    hold = Hold("ann", "C")
    hold.take(Position(7, 5))
    hold.begin_after(Position(7, 5))
    assert audit([hold], {7: [5, 6]}) == Audit(2, 1, 0, 0, 0)
    assert hold.position == Position(7, 5)


def test_percentiles() -> None:
    """One value is every percentile; of no values there are none."""
    assert percentiles_s(array("f")) is None
    assert percentiles_s(array("f", [2.0])) == {"p50": 2.0, "p95": 2.0, "p99": 2.0, "max": 2.0}


def test_in_words() -> None:
    """A notification is one short line, with distances in whole metres."""
    payload = {"message": "Flood in Harbour, severity 2. Keep away.", "shelter": "Mill 3", "shelter_metres": 99.6}
    assert in_words(payload) == "Flood in Harbour, severity 2; shelter: Mill 3, 100 m from you"


def test_summary() -> None:
    """People are told how many, how fast, who was moved and why, and that nothing was lost."""
    console = Console(record=True, width=160)
    show_summary(city_run(), console)
    text = " ".join(console.export_text().split())
    for words in (
        "EmergenciesNearMe Fire in Old Town, severity 3, 12 m away",
        "10 reports published, 10 accepted; 14 notifications",
        "migration by ldm: 54 people moved, cov 0.70 → 0.14 expected (cov 0.70 is above 0.15)",
        "14 expected, 0 lost, 0 doubled, 0 out of order, 0 for somebody else; 54 moves",
    ):
        assert words in text
