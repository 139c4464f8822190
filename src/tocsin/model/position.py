"""Positions: where in a backend subscription's history a result stands."""

from __future__ import annotations

from dataclasses import dataclass

#: A sequence packs the results commit and the row within it, so positions need no counter per
#: subscription. 22 bits of row and 31 of commit keep it below 2**53, which JavaScript can hold.
ROW_BITS = 22
MAX_ROWS_PER_COMMIT = 1 << ROW_BITS


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """`sequence` grows with every result of a backend subscription; `epoch` changes when its history starts anew.

    >>> Position.parse("7-4194305") == Position(epoch=7, sequence=4194305)
    True
    """

    epoch: int
    sequence: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.sequence}"

    @staticmethod
    def parse(text: str) -> Position:
        epoch, dash, sequence = text.partition("-")
        if not (dash and epoch.isdecimal() and sequence.isdecimal()):
            raise ValueError(f"not a position: {text!r}; expected EPOCH-SEQUENCE, such as 7-4194305")
        return Position(int(epoch), int(sequence))


def sequence_of(commit: int, row: int) -> int:
    """The sequence of row number `row` (from 0) in results commit number `commit`."""
    return commit << ROW_BITS | row


def end_of(commit: int) -> int:
    """The highest sequence that a result of commit number `commit` can have.

    >>> commit_of(end_of(7)), commit_of(end_of(7) + 1)
    (7, 8)
    """
    return sequence_of(commit, MAX_ROWS_PER_COMMIT - 1)


def commit_of(sequence: int) -> int:
    """The results commit that a sequence lies in."""
    return sequence >> ROW_BITS
