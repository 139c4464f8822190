"""What the demonstration counts and how it judges."""

from __future__ import annotations

import pytest
from rich.console import Console

from tocsin.experiments.emergency.audience import in_words
from tocsin.experiments.emergency.demo import show_summary
from tocsin.experiments.emergency.tally import Audit, Tally, audit

_FLOODS = ("ann", "EmergenciesOfType(etype => 'flood')")


def tally(**changes: int) -> Tally:
    """A demonstration in which all went well, but for `changes`."""
    counted = Tally(published=10, accepted=10)
    for channel in counted.channels.values():
        channel.notifications = 2
    counted.audit = Audit(expected=14, lost=0, doubled=0, reordered=0, misdelivered=0)
    for name, value in changes.items():
        setattr(counted, name, value)
    return counted


def test_success() -> None:
    """All records accepted, every channel heard, everybody handed what they should be: that is success."""
    assert tally().succeeded
    assert tally().to_json()["notifications"] == 14


@pytest.mark.parametrize("kind", ["lost", "doubled", "reordered", "misdelivered"])
def test_any_wrong_notification_is_a_failure(kind: str) -> None:
    """One notification too few, too many or in the wrong place shows in the verdict."""
    counts = {"expected": 14, "lost": 0, "doubled": 0, "reordered": 0, "misdelivered": 0, kind: 1}
    counted = tally()
    counted.audit = Audit(**counts)
    assert not counted.succeeded


def test_other_failures() -> None:
    """So does a record that was not accepted, a silent channel, and an audit that was never made."""
    assert not tally(accepted=9).succeeded
    silent = tally()
    silent.channels["EmergenciesNearMe"].notifications = 0
    assert not silent.succeeded
    unaudited = tally()
    unaudited.audit = None
    assert not unaudited.succeeded


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
    """Each kind of wrong is told apart."""
    assert audit({_FLOODS: received}, {_FLOODS[1]: [1, 2, 3]}) == found


def test_audit_of_nothing() -> None:
    """Who holds a subscription without results should have been handed none."""
    assert audit({_FLOODS: []}, {}) == Audit(0, 0, 0, 0, 0)
    assert audit({_FLOODS: [5]}, {}) == Audit(0, 0, 0, 0, 1)


def test_summary_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    """The end is a table and a verdict in words."""
    counted = tally()
    counted.channels["EmergenciesNearMe"].examples.append({"message": "Flood in Harbour. Stay away.", "metres": 12.0})
    show_summary(counted, Console(highlight=False, soft_wrap=True, width=200))
    shown = capsys.readouterr().out
    assert "Flood in Harbour, 12 m away" in shown
    assert "14 expected, 0 lost, 0 doubled" in shown


def test_shelter_in_words() -> None:
    """A notification that names a shelter says how far it is."""
    payload = {"message": "Fire in Station. Leave.", "shelter": "School", "shelter_metres": 99.6}
    assert in_words(payload) == "Fire in Station; shelter: School, 100 m from you"
