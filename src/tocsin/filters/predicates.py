"""What a filter says about one column: which keys, whether NULL, and patterns that keys match (pure).

A condition selects a record if it is TRUE, as in SQL: NULL and FALSE are the same to it. So a constraint is the set of
values for which a condition is TRUE. Sets of keys are exact. Patterns that look at a text's end or inside are no ranges
of keys; what is said of them here is true, and may be less than everything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
        if self.negated or other.negated:
            return (
                self.negated and other.negated and replace(other, negated=False).implies(replace(self, negated=False))
            )
        if other.anywhere:
            return other.text in self.text
        return not self.anywhere and self.text.endswith(other.text)

    def excludes(self, other: Pattern) -> bool:
        """Whether no text is known to match both."""
        if self.negated and other.negated:
            return False
        if self.negated or other.negated:
            denied, required = (self, other) if self.negated else (other, self)
            return required.implies(replace(denied, negated=False))
        if self.anywhere or other.anywhere:
            return False
        return not (self.text.endswith(other.text) or other.text.endswith(self.text))


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

    def meet(self, other: Constraint) -> Constraint:
        """The values of both."""
        return constraint(
            intersection(self.ranges, other.ranges), self.null and other.null, self.patterns | other.patterns
        )

    def join(self, other: Constraint) -> Constraint:
        """The values of either, and perhaps more: patterns are kept if both have them."""
        return constraint(union(self.ranges, other.ranges), self.null or other.null, self.patterns & other.patterns)

    def joins_exactly(self, other: Constraint) -> bool:
        """Whether a join of the two holds nothing more than they do."""
        return self.patterns == other.patterns

    def minus(self, other: Constraint) -> Constraint:
        """The values that the other one lacks. It must have no patterns that this one does not imply."""
        return constraint(difference(self.ranges, other.ranges), self.null and not other.null, self.patterns)

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
            for pattern in patterns
        )


def constraint(ranges: Ranges, null: bool = False, patterns: frozenset[Pattern] = frozenset()) -> Constraint:
    """In the form that equal constraints share: without what patterns exclude, and patterns that say nothing."""
    if not patterns:
        return Constraint(ranges, null)
    kept: list[Key] = []
    for begin, end in pieces(ranges):
        if not is_point(begin, end) or all(pattern.matches(begin) for pattern in patterns):
            kept += (begin, end)
    if not kept or points_of(tuple(kept)) is not None:
        return Constraint(tuple(kept))
    prefix = common_prefix(tuple(kept))
    needed: list[Pattern] = []
    for pattern in sorted(patterns):
        if pattern.anywhere and pattern.text in prefix:
            if pattern.negated:
                return Constraint(NOTHING)
            continue
        if any(pattern.excludes(other) for other in patterns):
            return Constraint(NOTHING)
        if not any(other.implies(pattern) for other in patterns if other != pattern):
            needed.append(pattern)
    return Constraint(tuple(kept), null=False, patterns=frozenset(needed))


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
