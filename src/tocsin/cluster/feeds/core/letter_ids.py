"""The names of dead letters (pure).

A letter's name is the position of its frame in the landing log and its line there, `4096:2`. Letters of channels have a
position below zero. One record may have several, from different channels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tocsin.errors import InvalidValue

#: The limits of the tables' columns.
_MAX_POSITION = (1 << 63) - 1
_MAX_LINE = (1 << 31) - 1


@dataclass(frozen=True, slots=True, order=True)
class LetterId:
    position: int
    line: int

    @staticmethod
    def parse(text: str) -> LetterId:
        """
        >>> LetterId.parse("4096:2")
        LetterId(position=4096, line=2)
        """
        numbers = _numbers(text, r"(-?\d{1,19}):(\d{1,10})")
        if numbers is None or abs(numbers[0]) > _MAX_POSITION or numbers[1] > _MAX_LINE:
            raise InvalidValue(f"{text[:100]!r} is no dead letter's name; expected POSITION:LINE, such as 4096:2")
        return LetterId(*numbers)

    def __str__(self) -> str:
        return f"{self.position}:{self.line}"

    @property
    def is_of_channel(self) -> bool:
        """The record is in the dataset, but a channel could not be run for it."""
        return self.position < 0


@dataclass(frozen=True, slots=True)
class LetterCursor:
    """Where a page of letters ended, newest first: at the letters of this commit and id, of which there may be several.
    `seen` of them have been listed."""

    sequence: int
    last: LetterId
    seen: int

    @staticmethod
    def parse(text: str) -> LetterCursor:
        numbers = _numbers(text, r"(\d{1,19}):(-?\d{1,19}):(\d{1,10}):(\d{1,10})")
        if numbers is None or max(numbers[0], abs(numbers[1])) > _MAX_POSITION or max(numbers[2:]) > _MAX_LINE:
            raise InvalidValue(f"after: {text[:100]!r} is not the `next` of a page of dead letters")
        return LetterCursor(numbers[0], LetterId(*numbers[1:3]), numbers[3])

    def __str__(self) -> str:
        return f"{self.sequence}:{self.last}:{self.seen}"


def lines_by_position(letters: Iterable[LetterId]) -> dict[int, list[int]]:
    """
    >>> lines_by_position([LetterId(7, 2), LetterId(4, 1), LetterId(7, 1)])
    {4: [1], 7: [1, 2]}
    """
    found: dict[int, list[int]] = {}
    for one in sorted(set(letters)):
        found.setdefault(one.position, []).append(one.line)
    return found


def _numbers(text: str, pattern: str) -> list[int] | None:
    # ASCII: digits of other scripts are not allowed in names.
    found = re.fullmatch(pattern, text, re.ASCII)
    return [int(part) for part in found.groups()] if found else None
