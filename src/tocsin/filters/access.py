"""Access predicates: the part of an alternative by which a record finds it in a hash table (pure).

A record that matches `symbol = 'YHOO' AND volume > 5` has YHOO as its symbol; so the filter is kept under that value,
and records of other symbols never meet it. Prefixes, suffixes and pieces of texts are found like values, for each
length that filters have. A range from and to is found by cells: the smallest power of two that is wider than the range
divides the keys into cells, and the range lies in one or two of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from tocsin.filters.columns import FilterColumn
from tocsin.filters.domains import Key
from tocsin.filters.predicates import Constraint, points_of, prefix_of
from tocsin.filters.ranges import Ranges


class Access(IntEnum):
    POINT = 0
    PREFIX = 1
    SUFFIX = 2
    CELL = 3
    INSIDE = 4


#: What a kind of access costs a record, in filters that it could look at instead: points take one look-up, the others
#: one for each length or width there is, and the inside of a text one for each of its characters.
PENALTIES: Final = {Access.POINT: 0, Access.PREFIX: 8, Access.SUFFIX: 8, Access.CELL: 16, Access.INSIDE: 64}


class AccessKey(NamedTuple):
    """One entry of a hash table. `size` is a length, or a cell's width as a power of two; for points, 0."""

    kind: Access
    column: int
    size: int
    value: Key | None


@dataclass(frozen=True, slots=True)
class AccessOption:
    """A way to find an alternative: by any of the keys. A record has at most one of them."""

    column: int
    keys: tuple[AccessKey, ...]
    #: Whether a record that has one of the keys fulfils the column's whole constraint.
    is_exact: bool


def access_options(of: FilterColumn, constraint: Constraint) -> Iterator[AccessOption]:
    """The ways that one constraint offers. A range that is open at an end offers none: it holds half of all records."""
    column, ranges, null = of.number, constraint.ranges, constraint.null
    points = points_of(ranges)
    if points is not None or (null and not ranges):
        values = [*(points or ()), *([None] if null else ())]
        keys = tuple(AccessKey(Access.POINT, column, 0, value) for value in values)
        yield AccessOption(column, keys, is_exact=True)
        return
    if null or not ranges:
        return
    if (prefix := prefix_of(ranges)) is not None:
        key = AccessKey(Access.PREFIX, column, len(prefix), prefix)
        yield AccessOption(column, (key,), is_exact=not constraint.patterns)
    is_whole = len(constraint.patterns) == 1 and of.domain.is_full(ranges)
    for pattern in constraint.patterns:
        if not pattern.negated:
            kind = Access.INSIDE if pattern.anywhere else Access.SUFFIX
            key = AccessKey(kind, column, len(pattern.text), pattern.text)
            yield AccessOption(column, (key,), is_exact=is_whole)
    is_open = ranges[0] == of.domain.first or ranges[-1] == of.domain.end
    if not is_open and (span := closed_span(ranges)) is not None:
        yield AccessOption(column, tuple(_cells(column, *span)), is_exact=False)


def closed_span(ranges: Ranges) -> tuple[int, int] | None:
    """The first and the last key of the ranges, if keys are whole numbers."""
    if isinstance(ranges[0], str):
        return None
    return ranges[0], ranges[-1] - 1


def _cells(column: int, first: int, last: int) -> Iterator[AccessKey]:
    size = (last - first).bit_length()
    for cell in sorted({first >> size, last >> size}):
        yield AccessKey(Access.CELL, column, size, cell)
