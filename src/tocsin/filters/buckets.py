"""A bucket: what is kept under one access predicate, by the rest of its conditions (pure).

Nothing else to check: a list. One more bound on a column: lists in the order of the bounds, so that all that match
are a slice. Ranges on one or two columns: arrays of bounds, compared all at once where there are many.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

import numpy as np

from tocsin.filters.domains import Key
from tocsin.filters.normal_form import Row

Item = TypeVar("Item")

#: Below this many boxes a loop is faster than numpy's calls, which take about a microsecond each.
_FEW_BOXES: Final = 16


class Bound(NamedTuple):
    """One bound on a column: keys from `key` on; or, if it is an upper one, keys before it."""

    column: int
    is_upper: bool
    key: Key


class Box(NamedTuple):
    """Ranges on one or two columns with whole numbers as keys: column, first and last key."""

    ranges: tuple[tuple[int, int, int], ...]


#: What an access predicate leaves to be checked.
Rest: TypeAlias = Bound | Box | None


class Bucket(Generic[Item]):
    """Items, each under a number that grows from item to item, by which it is found again."""

    __slots__ = ("_boxes", "_sides", "_unchecked", "size")

    def __init__(self) -> None:
        self.size = 0
        self._unchecked: _Unchecked[Item] | None = None
        self._sides: dict[tuple[int, bool], _Side[Item]] | None = None
        self._boxes: dict[tuple[int, ...], _Boxes[Item]] | None = None

    def add(self, number: int, item: Item, rest: Rest) -> None:
        self.size += 1
        match rest:
            case None:
                if self._unchecked is None:
                    self._unchecked = _Unchecked()
                self._unchecked.add(number, item)
            case Bound(column, is_upper, key):
                self._sides = {} if self._sides is None else self._sides
                side = self._sides.get((column, is_upper))
                if side is None:
                    side = self._sides[column, is_upper] = _Side(is_text=isinstance(key, str))
                side.add(number, item, key)
            case Box(ranges):
                self._boxes = {} if self._boxes is None else self._boxes
                columns = tuple(column for column, _, _ in ranges)
                if columns not in self._boxes:
                    self._boxes[columns] = _Boxes(columns)
                self._boxes[columns].add(number, item, ranges)

    def remove(self, number: int, rest: Rest) -> None:
        self.size -= 1
        match rest:
            case None:
                assert self._unchecked is not None
                self._unchecked.remove(number)
                if not self._unchecked.items:
                    self._unchecked = None
            case Bound(column, is_upper, key):
                assert self._sides is not None
                side = self._sides[column, is_upper]
                side.remove(number, key)
                if not side.items:
                    del self._sides[column, is_upper]
            case Box(ranges):
                assert self._boxes is not None
                columns = tuple(column for column, _, _ in ranges)
                self._boxes[columns].remove(number)
                if not self._boxes[columns].items:
                    del self._boxes[columns]

    def collect(self, row: Row, found: list[Item]) -> list[Item]:
        """What was found, and all items whose rest a row fulfils; in the same list, or in a new one.

        Slices come first: the first one is the list that the others are added to, and is not copied twice.
        """
        if self._sides:
            for (column, is_upper), side in self._sides.items():
                if (key := row[column]) is not None:
                    at = bisect_right(side.bounds, key)
                    items = side.items[at:] if is_upper else side.items[:at]
                    if found:
                        found += items
                    else:
                        found = items
        if self._unchecked is not None:
            found += self._unchecked.items
        if self._boxes:
            for boxes in self._boxes.values():
                boxes.collect(row, found)
        return found


class _Unchecked(Generic[Item]):
    __slots__ = ("_numbers", "items")

    def __init__(self) -> None:
        self._numbers = array("q")
        self.items: list[Item] = []

    def add(self, number: int, item: Item) -> None:
        self._numbers.append(number)
        self.items.append(item)

    def remove(self, number: int) -> None:
        at = bisect_left(self._numbers, number)
        del self._numbers[at], self.items[at]


class _Side(Generic[Item]):
    """Items in the order of their bounds; among equal bounds, of their numbers."""

    __slots__ = ("_numbers", "bounds", "items")

    def __init__(self, *, is_text: bool) -> None:
        # Whole numbers take a fifth of the memory in an array.
        self.bounds: Any = [] if is_text else array("q")
        self._numbers = array("q")
        self.items: list[Item] = []

    def add(self, number: int, item: Item, key: Key) -> None:
        at = bisect_right(self.bounds, key)
        self.bounds.insert(at, key)
        self._numbers.insert(at, number)
        self.items.insert(at, item)

    def remove(self, number: int, key: Key) -> None:
        first, end = bisect_left(self.bounds, key), bisect_right(self.bounds, key)
        at = bisect_left(self._numbers, number, first, end)
        del self.bounds[at], self._numbers[at], self.items[at]


class _Boxes(Generic[Item]):
    __slots__ = ("_columns", "_firsts", "_lasts", "_numbers", "items")

    def __init__(self, columns: Sequence[int]) -> None:
        self._columns = columns
        self._firsts = [array("q") for _ in columns]
        self._lasts = [array("q") for _ in columns]
        self._numbers = array("q")
        self.items: list[Item] = []

    def add(self, number: int, item: Item, ranges: Sequence[tuple[int, int, int]]) -> None:
        self._numbers.append(number)
        self.items.append(item)
        for at, (_, first, last) in enumerate(ranges):
            self._firsts[at].append(first)
            self._lasts[at].append(last)

    def remove(self, number: int) -> None:
        at = bisect_left(self._numbers, number)
        del self._numbers[at], self.items[at]
        for bounds in (*self._firsts, *self._lasts):
            del bounds[at]

    def collect(self, row: Row, found: list[Item]) -> None:
        keys = [key for column in self._columns if (key := row[column]) is not None]
        if len(keys) < len(self._columns):
            return
        dimensions = list(zip(keys, self._firsts, self._lasts, strict=True))
        if len(self.items) < _FEW_BOXES:
            for at, item in enumerate(self.items):
                if all(firsts[at] <= key <= lasts[at] for key, firsts, lasts in dimensions):
                    found.append(item)
            return
        inside: Any = True
        for key, firsts, lasts in dimensions:
            # Views of the arrays, which are gone before an array grows.
            inside &= (np.frombuffer(firsts, np.int64) <= key) & (np.frombuffer(lasts, np.int64) >= key)
        found += [self.items[at] for at in np.flatnonzero(inside).tolist()]
