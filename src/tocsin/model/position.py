"""Positions: where in a backend subscription's history a result stands."""

from __future__ import annotations

import re
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

_WRITTEN = re.compile(r"([0-9]{1,16})-([0-9]{1,16})")


class Position(NamedTuple):
    """`sequence` grows with every result of a backend subscription; `epoch` changes when its history starts anew.

    >>> Position.parse("7-4194305") == Position(epoch=7, sequence=4194305)
    True
    """

    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.sequence}"

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
        position = Position.at(int(written[1]), int(written[2]))
        if position.epoch > MAX_EPOCH or position.sequence > MAX_SEQUENCE:
            raise ValueError(f"not a position: {text!r}; both numbers are below 2**53, such as 7-4194305")
        return position


def position_text(epoch: int, sequence: int) -> str:
    """A position as text, where no Position is at hand.

    >>> position_text(7, 4194305) == str(Position(7, 4194305))
    True
    """
    return f"{epoch}-{sequence}"


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
