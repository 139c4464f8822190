"""Positions: where in a backend subscription's history a result stands."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

#: A sequence packs the number of a results commit and a row, so positions need no counter per subscription. 14 bits
#: of row and 39 of number keep it below 2**53, which JavaScript can hold. A commit with more rows than one number has
#: room for takes several.
ROW_BITS = 14
ROWS_PER_NUMBER = 1 << ROW_BITS
MAX_NUMBER = (1 << 39) - 1
MAX_SEQUENCE = (1 << 53) - 1
MAX_EPOCH = (1 << 53) - 1

#: All subscribers of a subscription name the same positions; brokers parse most of them more than once.
_REMEMBERED = 4096

_WRITTEN = re.compile(r"([0-9]{1,16})([-~*])([0-9]{1,16})")


class Phase(IntEnum):
    """Which results of a history a subscriber is sent next: it waits for a snapshot to begin, is within one, or gets
    what is new. The same sequence of the history lies further on in a later phase."""

    AHEAD = 2
    WITHIN = 1
    NEW = 0


_SIGNS = {"*": Phase.AHEAD, "~": Phase.WITHIN, "-": Phase.NEW}
_SIGN_OF = {phase: sign for sign, phase in _SIGNS.items()}
#: Phases follow each other on one line of numbers, so that comparing sequences tells which is further on.
_PHASE_LENGTH = MAX_SEQUENCE + 1


class Position(NamedTuple):
    """`sequence` grows with every result of a backend subscription; `epoch` changes when its history starts anew.

    A subscriber's position also says in which phase it is. Then `sequence` is `reached` of both.

    >>> Position.parse("7-4194305") == Position(epoch=7, sequence=4194305)
    True
    >>> Position.parse("7*9") < Position.parse("7~8") < Position.parse("7-7")
    True
    """

    epoch: int
    sequence: int

    def __str__(self) -> str:
        return position_text(self.epoch, self.sequence)

    @property
    def phase(self) -> Phase:
        return phase_of(self.sequence)

    @property
    def in_history(self) -> int:
        """The sequence of the result in its subscription's history, whatever the phase."""
        return in_history(self.sequence)

    @staticmethod
    @lru_cache(_REMEMBERED)
    def at(epoch: int, sequence: int) -> Position:
        """The same as the class; one object stands for positions that are named again and again."""
        return Position(epoch, sequence)

    @staticmethod
    @lru_cache(_REMEMBERED)
    def parse(text: str) -> Position:
        """Raises ValueError if `text` is not a position, or one that can never occur."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            # Messages and logs repeat the text, so it is cut short.
            raise ValueError(f"not a position: {text[:40]!r}; expected EPOCH-SEQUENCE, such as 7-4194305")
        epoch, sequence = int(written[1]), int(written[3])
        if epoch > MAX_EPOCH or sequence > MAX_SEQUENCE:
            raise ValueError(f"not a position: {text!r}; both numbers are below 2**53, such as 7-4194305")
        return Position.at(epoch, reached(sequence, _SIGNS[written[2]]))


def position_text(epoch: int, sequence: int) -> str:
    """A position as text, where no Position is at hand.

    >>> position_text(7, 4194305), position_text(7, reached(4194305, Phase.WITHIN))
    ('7-4194305', '7~4194305')
    """
    if sequence >= 0:
        return f"{epoch}-{sequence}"
    return f"{epoch}{_SIGN_OF[phase_of(sequence)]}{in_history(sequence)}"


def reached(sequence: int, phase: Phase) -> int:
    """A sequence of the history and a phase as one number, which is negative before and within a snapshot."""
    return sequence - phase * _PHASE_LENGTH


def phase_of(sequence: int) -> Phase:
    """
    >>> phase_of(reached(5, Phase.AHEAD)).name, phase_of(reached(MAX_SEQUENCE, Phase.WITHIN)).name, phase_of(0).name
    ('AHEAD', 'WITHIN', 'NEW')
    """
    return Phase(-(sequence // _PHASE_LENGTH))


def in_history(sequence: int) -> int:
    """
    >>> in_history(reached(5, Phase.AHEAD)), in_history(5)
    (5, 5)
    """
    return sequence % _PHASE_LENGTH


def sequence_of(number: int, row: int) -> int:
    """The sequence of row number `row` (from 0) under the number `number` of a results commit. Rows that don't fit
    there continue under the next number.

    >>> sequence_of(7, ROWS_PER_NUMBER) == sequence_of(8, 0)
    True
    """
    return (number << ROW_BITS) + row


def end_of(number: int) -> int:
    """The highest sequence that a result under `number` can have.

    >>> commit_of(end_of(7)), commit_of(end_of(7) + 1)
    (7, 8)
    """
    return sequence_of(number, ROWS_PER_NUMBER - 1)


def commit_of(sequence: int) -> int:
    """The number of the results commit that a sequence belongs to."""
    return sequence >> ROW_BITS
