"""Sets of keys as sorted half-open ranges, and their algebra (pure).

A set is a tuple (begin, end, begin, end …), in which each bound is above the one before: the same set is always the
same tuple. A key is inside if an odd number of bounds are not above it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import TypeAlias

from tocsin.filters.domains import Key, after

Ranges: TypeAlias = tuple[Key, ...]

NOTHING: Ranges = ()


def ranges_of(begin: Key, end: Key) -> Ranges:
    return (begin, end) if begin < end else NOTHING


def contains(ranges: Ranges, key: Key) -> bool:
    return bisect_right(ranges, key) & 1 == 1


def union(one: Ranges, other: Ranges) -> Ranges:
    """
    >>> union((1, 3), (3, 5))
    (1, 5)
    """
    return _combined(one, other, lambda a, b: a or b)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    """
    >>> intersection((1, 5, 7, 9), (4, 8))
    (4, 5, 7, 8)
    """
    if len(one) == 2 == len(other):
        return ranges_of(max(one[0], other[0]), min(one[1], other[1]))
    return _combined(one, other, lambda a, b: a and b)


def difference(one: Ranges, other: Ranges) -> Ranges:
    """
    >>> difference((1, 9), (3, 4))
    (1, 3, 4, 9)
    """
    return _combined(one, other, lambda a, b: a and not b)


def is_subset(one: Ranges, other: Ranges) -> bool:
    if one == other:  # Many alternatives share a long list.
        return True
    for begin, end in pieces(one):
        at = bisect_right(other, begin)
        if at & 1 == 0 or other[at] < end:
            return False
    return True


def pieces(ranges: Ranges) -> Iterator[tuple[Key, Key]]:
    """Begin and end of each range."""
    bounds = iter(ranges)
    return zip(bounds, bounds, strict=True)


def is_point(begin: Key, end: Key) -> bool:
    return bool(end == after(begin))


def _combined(one: Ranges, other: Ranges, wanted: Callable[[bool, bool], bool]) -> Ranges:
    combined: list[Key] = []
    at, there = 0, 0
    while at < len(one) or there < len(other):
        is_first = there == len(other) or (at < len(one) and one[at] <= other[there])
        bound = one[at] if is_first else other[there]
        at += at < len(one) and one[at] == bound
        there += there < len(other) and other[there] == bound
        if wanted(at & 1 == 1, there & 1 == 1) != (len(combined) & 1 == 1):
            combined.append(bound)
    return tuple(combined)
