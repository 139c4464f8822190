"""What a filter says about one column: which keys, whether NULL, and patterns that keys match (pure).

A condition selects a record if it is TRUE, as in SQL: NULL and FALSE are the same to it. So a constraint is the set of
values for which a condition is TRUE. Sets of keys are exact. Patterns that look at a text's end or inside are no ranges
of keys; what is said of them here is true, and may be less than everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from tocsin.filters.domains import TEXT_END, Key, end_of_prefix
from tocsin.filters.ranges import (
    NOTHING,
    Ranges,
    contains,
    difference,
    intersection,
    is_point,
    is_subset,
    pieces,
    union,
)


@dataclass(frozen=True, slots=True, order=True)
class Pattern:
    """A text ends with `text`, or has it anywhere; or does not."""

    text: str
    anywhere: bool
    negated: bool = False

    def matches(self, key: str) -> bool:
        return (self.text in key if self.anywhere else key.endswith(self.text)) != self.negated

    def implies(self, other: Pattern) -> bool:
        """Whether each text that this one matches is known to match the other one."""
        if self.negated != other.negated:
            return False
        return other.requires(self) if self.negated else self.requires(other)

    def excludes(self, other: Pattern) -> bool:
        """Whether no text is known to match both."""
        if self.negated and other.negated:
            return False
        if self.negated or other.negated:
            denied, required = (self, other) if self.negated else (other, self)
            return required.requires(denied)
        if self.anywhere or other.anywhere:
            return False
        return not (self.text.endswith(other.text) or other.text.endswith(self.text))

    def requires(self, other: Pattern) -> bool:
        """Whether what has the text of this one, where it has to be, has that of the other one."""
        if other.anywhere:
            return other.text in self.text
        return not self.anywhere and self.text.endswith(other.text)


@dataclass(frozen=True, slots=True)
class Constraint:
    """The values of one column for which a condition is TRUE."""

    ranges: Ranges
    null: bool = False
    patterns: frozenset[Pattern] = frozenset()

    @property
    def is_empty(self) -> bool:
        return not self.ranges and not self.null

    def admits(self, key: Key | None) -> bool:
        if key is None:
            return self.null
        return contains(self.ranges, key) and all(pattern.matches(key) for pattern in self.patterns)

    def meet(self, *others: Constraint) -> Constraint:
        """The values that all have. Many at once take much less than one after the other."""
        ranges = reduce(intersection, (one.ranges for one in others), self.ranges)
        null = self.null and all(one.null for one in others)
        patterns = reduce(_together, (one.patterns for one in others), self.patterns)
        return _in_form(ranges, null, patterns, self.patterns if ranges == self.ranges else frozenset())

    def join(self, other: Constraint) -> Constraint:
        """The values of either, and perhaps more: patterns are kept if both have them."""
        return constraint(union(self.ranges, other.ranges), self.null or other.null, self.patterns & other.patterns)

    def joins_exactly(self, other: Constraint) -> bool:
        """Whether a join of the two holds nothing more than they do."""
        return self.patterns == other.patterns

    def minus(self, other: Constraint) -> Constraint:
        """The values that the other one lacks. It must have no patterns that this one does not imply."""
        return _in_form(difference(self.ranges, other.ranges), self.null and not other.null, self.patterns)

    def implies(self, other: Constraint) -> bool:
        """Whether the other one is known to have all values of this one."""
        return (
            other.null >= self.null
            and is_subset(self.ranges, other.ranges)
            and (not other.patterns or self.implies_patterns(other.patterns))
        )

    def implies_patterns(self, patterns: frozenset[Pattern]) -> bool:
        if not patterns or self.null:
            return not patterns
        if points := points_of(self.ranges):
            return all(pattern.matches(point) for pattern in patterns for point in points)
        prefix = common_prefix(self.ranges)
        return all(
            any(own.implies(pattern) for own in self.patterns)
            or (pattern.anywhere and not pattern.negated and pattern.text in prefix)
            for pattern in patterns - self.patterns
        )


def constraint(ranges: Ranges, null: bool = False, patterns: frozenset[Pattern] = frozenset()) -> Constraint:
    """In the form that equal constraints share: without what patterns exclude, and patterns that say nothing."""
    return _in_form(ranges, null, reduce(_together, (frozenset((one,)) for one in patterns), frozenset()))


#: No text matches all: each of the patterns excludes the other one.
_NO_TEXT = frozenset((Pattern("a", anywhere=False), Pattern("b", anywhere=False)))


def _together(some: frozenset[Pattern], others: frozenset[Pattern]) -> frozenset[Pattern]:
    """Of patterns that are all needed, and others of which that is true too: those that are needed of all."""
    if some is _NO_TEXT or others is _NO_TEXT:
        return _NO_TEXT
    old, new = some - others, others - some
    if not new or not old:
        return some | others
    if any(one.excludes(other) for one in old for other in new):
        return _NO_TEXT
    needless = {one for one in old if any(other.implies(one) for other in new)}
    needless |= {one for one in new if any(other.implies(one) for other in old)}
    return (some | others) - needless


def _in_form(
    ranges: Ranges, null: bool, patterns: frozenset[Pattern], tried: frozenset[Pattern] = frozenset()
) -> Constraint:
    """Of patterns that are all needed, as far as they alone can tell. Single texts match those that were `tried`."""
    if not patterns:
        return Constraint(ranges, null)
    if patterns is _NO_TEXT:
        return Constraint(NOTHING)
    kept: list[Key] = []
    untried = patterns - tried
    for begin, end in pieces(ranges):
        if not is_point(begin, end) or all(pattern.matches(begin) for pattern in untried):
            kept += (begin, end)
    if not kept or points_of(tuple(kept)) is not None:
        return Constraint(tuple(kept))
    prefix = common_prefix(tuple(kept))
    said = {one for one in patterns if one.anywhere and one.text in prefix}
    if any(one.negated for one in said):
        return Constraint(NOTHING)
    return Constraint(tuple(kept), null=False, patterns=patterns - said)


def points_of(ranges: Ranges) -> list[Key] | None:
    """All keys, if each range is a single one."""
    if ranges and all(is_point(begin, end) for begin, end in pieces(ranges)):
        return list(ranges[::2])
    return None


def prefix_of(ranges: Ranges) -> str | None:
    """The prefix, if the ranges hold exactly the texts that begin with one."""
    if len(ranges) == 2 and isinstance(ranges[0], str) and ranges[0] and end_of_prefix(ranges[0]) == ranges[1]:
        return ranges[0]
    return None


def common_prefix(ranges: Ranges) -> str:
    """A text that all texts in the ranges begin with.

    >>> common_prefix(("abc", "abd"))
    'abc'
    """
    if not ranges or ranges[-1] is TEXT_END:
        return ""
    first, end = ranges[0], ranges[-1]
    shared = next((at for at, (one, other) in enumerate(zip(first, end, strict=False)) if one != other), len(first))
    longer: str = first[: shared + 1]
    return longer if len(longer) > shared and end_of_prefix(longer) >= end else longer[:shared]
