"""Who is sent what of a history with snapshots."""

from __future__ import annotations

from tocsin.model.position import Phase
from tocsin.model.results import ResultKind, next_phase

_HISTORY = (
    ResultKind.RESULT,
    ResultKind.SNAPSHOT_BEGIN,
    ResultKind.SNAPSHOT,
    ResultKind.SNAPSHOT,
    ResultKind.SNAPSHOT_END,
    ResultKind.RESULT,
)


def _sent(phase: Phase, history: tuple[ResultKind, ...], begin: int = 0) -> list[int]:
    """The indexes of the results that a subscriber is sent who begins in this phase at one of them."""
    sent = []
    for at, kind in enumerate(history[begin:], begin):
        phase, is_sent = next_phase(phase, kind)
        if is_sent:
            sent.append(at)
    return sent


def test_who_waits_gets_one_snapshot_and_then_what_is_new() -> None:
    """Nothing before it, all of it with its end, and nothing of the next one."""
    assert _sent(Phase.AHEAD, _HISTORY + _HISTORY) == [2, 3, 4, 5, 6, 11]


def test_who_shares_the_subscription_gets_only_what_is_new() -> None:
    """However many snapshots others get."""
    assert _sent(Phase.NEW, _HISTORY + _HISTORY) == [0, 5, 6, 11]


def test_who_comes_in_the_middle_of_anothers_snapshot_waits_for_a_whole_one() -> None:
    """Who goes on in the middle of their own gets the rest of it."""
    assert _sent(Phase.AHEAD, _HISTORY + _HISTORY, begin=3) == [8, 9, 10, 11]
    assert _sent(Phase.WITHIN, _HISTORY + _HISTORY, begin=3) == [3, 4, 5, 6, 11]
