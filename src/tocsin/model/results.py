"""Kinds of results, and which of them a subscriber is sent.

A backend subscription has one history for all who share it. A snapshot stands in it between two windows: a beginning,
the rows that hold, an end. Each subscriber waits for the first snapshot after it has subscribed, is sent that one, and
from then on everything but snapshots.
"""

from __future__ import annotations

from enum import StrEnum

from tocsin.model.position import Phase


class ResultKind(StrEnum):
    """On the wire, a result without a kind is a RESULT."""

    RESULT = "result"
    #: Of channels WITH EXITS: a result no longer holds.
    EXIT = "exit"
    SNAPSHOT_BEGIN = "snapshot_begin"
    SNAPSHOT = "snapshot"
    SNAPSHOT_END = "snapshot_end"

    @property
    def has_row(self) -> bool:
        """Whether its payload is a row of the channel's query, which filters decide on."""
        return self in {ResultKind.RESULT, ResultKind.SNAPSHOT}


#: The phase of a subscriber who has been sent a result of this kind.
PHASE_AFTER = {
    ResultKind.RESULT: Phase.NEW,
    ResultKind.EXIT: Phase.NEW,
    ResultKind.SNAPSHOT_BEGIN: Phase.WITHIN,
    ResultKind.SNAPSHOT: Phase.WITHIN,
    ResultKind.SNAPSHOT_END: Phase.NEW,
}


def next_phase(phase: Phase, kind: ResultKind) -> tuple[Phase, bool]:
    """The phase after the next result of a history, and whether the subscriber is sent it.

    >>> next_phase(Phase.AHEAD, ResultKind.RESULT), next_phase(Phase.AHEAD, ResultKind.SNAPSHOT_BEGIN)
    ((<Phase.AHEAD: 2>, False), (<Phase.WITHIN: 1>, False))
    """
    match kind:
        case ResultKind.RESULT | ResultKind.EXIT:
            return phase, phase is Phase.NEW
        case ResultKind.SNAPSHOT_BEGIN:
            return (Phase.WITHIN if phase is Phase.AHEAD else phase), False
        case ResultKind.SNAPSHOT:
            return phase, phase is Phase.WITHIN
        case ResultKind.SNAPSHOT_END:
            return (Phase.NEW if phase is Phase.WITHIN else phase), phase is Phase.WITHIN
