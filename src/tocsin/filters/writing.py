"""Filters as text: the same constraints are always the same text, and `language.parse` reads it back (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tocsin.filters.columns import FilterColumn, FilterColumns
from tocsin.filters.domains import Key, before
from tocsin.filters.normal_form import All, Alternative, Leaf, Node
from tocsin.filters.predicates import Constraint, Pattern, prefix_of
from tocsin.filters.ranges import Ranges, difference, is_point, pieces
from tocsin.filters.words import KEYWORDS, MAX_VALUES_IN_LIST, quoted_pattern
from tocsin.model.schema import ColumnType

#: A range of so few keys is listed if other ranges stand beside it: `IN (1, 2, 3, 9)`.
_LISTED_KEYS: Final = 16
#: People count in these: their neighbours are as short as they are.
_COUNTED: Final = (ColumnType.BOOLEAN, ColumnType.INT, ColumnType.BIGINT, ColumnType.DATE)


class Level(IntEnum):
    """How loosely a text binds; the looser needs parentheses inside of the tighter."""

    OR = 0
    AND = 1
    PREDICATE = 2


@dataclass(frozen=True, slots=True)
class Written:
    text: str
    level: Level = Level.PREDICATE
    predicates: int = 1
    #: How deep parentheses are inside of each other.
    depth: int = 0

    def inside(self, level: Level) -> Written:
        """In parentheses, if it binds more loosely."""
        if self.level >= level:
            return self
        return Written(f"({self.text})", Level.PREDICATE, self.predicates, self.depth + 1)


def write_node(node: Node, columns: FilterColumns) -> Written:
    if isinstance(node, Leaf):
        return _constraint(columns.in_order[node.column], node.constraint)
    level = Level.AND if isinstance(node, All) else Level.OR
    return _joined([write_node(child, columns) for child in node.nodes], level)


def write_alternatives(alternatives: Sequence[Alternative], columns: FilterColumns) -> Written:
    written = [
        _joined([_constraint(columns.in_order[at], constraint) for at, constraint in one.constraints], Level.AND)
        for one in alternatives
    ]
    return _joined(written, Level.OR)


def _joined(written: Sequence[Written], level: Level) -> Written:
    if len(written) == 1:
        return written[0]
    if not written:
        return Written("TRUE" if level is Level.AND else "FALSE")
    parts = [one.inside(level) for one in written]
    return Written(
        f" {level.name} ".join(one.text for one in parts),
        level,
        sum(one.predicates for one in parts),
        max(one.depth for one in parts),
    )


def _constraint(column: FilterColumn, constraint: Constraint) -> Written:
    name = _name(column.name)
    conditions = [_pattern(name, pattern) for pattern in sorted(constraint.patterns)]
    if not column.domain.is_full(constraint.ranges):
        if constraint.ranges:
            conditions.append(_ranges(name, column, constraint.ranges))
    elif not conditions and not constraint.null:
        conditions.append(Written(f"{name} IS NOT NULL"))
    met = _joined(conditions, Level.AND)
    if not constraint.null:
        return met
    is_null = Written(f"{name} IS NULL")
    return _joined([is_null, met], Level.OR) if conditions else is_null


def _ranges(name: str, column: FilterColumn, ranges: Ranges) -> Written:
    """As what is inside, or as what is not: whatever takes fewer predicates."""
    everything = (column.domain.first, column.domain.end)
    inside = _joined([*_pieces(name, column, ranges, negated=False)], Level.OR)
    outside = _joined([*_pieces(name, column, difference(everything, ranges), negated=True)], Level.AND)
    return min(inside, outside, key=lambda one: one.predicates)


def _pieces(name: str, column: FilterColumn, ranges: Ranges, *, negated: bool) -> Iterable[Written]:
    literals: list[str] = []
    written: list[Written] = []
    for begin, end in pieces(ranges):
        if listed := _listed(column, begin, end, most=_LISTED_KEYS if len(ranges) > 2 else 1):
            literals += listed
        else:
            written.append(_range(name, column, begin, end, negated=negated))
    if len(literals) == 1:
        yield Written(f"{name} {'!=' if negated else '='} {literals[0]}")
    else:
        for first in range(0, len(literals), MAX_VALUES_IN_LIST):
            some = ", ".join(literals[first : first + MAX_VALUES_IN_LIST])
            yield Written(f"{name} {'NOT ' if negated else ''}IN ({some})")
    yield from written


def _listed(column: FilterColumn, begin: Key, end: Key, *, most: int) -> list[str]:
    """The literals of all keys; none if they are too many, or one has no literal."""
    if is_point(begin, end):
        keys: Iterable[Key] = (begin,)
    elif isinstance(begin, str) or end - begin > most:
        return []
    else:
        keys = range(begin, end)
    literals = [column.domain.literal(key) for key in keys]
    return [literal for literal in literals if literal is not None] if None not in literals else []


def _range(name: str, column: FilterColumn, begin: Key, end: Key, *, negated: bool) -> Written:
    denied = "NOT " if negated else ""
    if (prefix := prefix_of((begin, end))) is not None:
        return Written(f"{name} {denied}LIKE {quoted_pattern(prefix, '', '%')}")
    low = None if begin == column.domain.first else _bound(column, ">=", begin, ">", before(begin))
    high = None if end == column.domain.end else _bound(column, "<", end, "<=", before(end))
    if low is not None and high is not None:
        if column.type in _COUNTED:
            return Written(
                f"{name} {denied}BETWEEN {column.domain.literal(begin)} AND {column.domain.literal(end - 1)}"
            )
        if low.startswith(">= ") and high.startswith("<= "):
            return Written(f"{name} {denied}BETWEEN {low[3:]} AND {high[3:]}")
        both = Written(f"{name} {low} AND {name} {high}", Level.AND, predicates=2)
        return Written(f"NOT ({both.text})", predicates=2, depth=1) if negated else both
    return Written(f"{denied}{name} {low or high}")


def _bound(column: FilterColumn, operator: str, key: Key, other_operator: str, other_key: Key | None) -> str:
    """The shorter of two ways to write a bound; zeros at the end don't count."""
    ways = [
        (len(literal.rstrip("0") or "0"), f"{sign} {literal}")
        for sign, at in ((operator, key), (other_operator, other_key))
        if at is not None and (literal := column.domain.literal(at)) is not None
    ]
    # Bounds come from literals, so one of the ways is there.
    return min(ways, key=lambda way: way[0])[1]


def _pattern(name: str, pattern: Pattern) -> Written:
    written = quoted_pattern(pattern.text, "%", "%" if pattern.anywhere else "")
    return Written(f"{name} {'NOT ' if pattern.negated else ''}LIKE {written}")


def _name(name: str) -> str:
    return f"`{name}`" if name.upper() in KEYWORDS else name
