"""Constraints and patterns against trying texts."""

from __future__ import annotations

from functools import reduce
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from tocsin.filters.domains import TEXT_END, end_of_prefix
from tocsin.filters.predicates import Constraint, Pattern, common_prefix, constraint, prefix_of

ALL = ("", TEXT_END)
SHORT = ["".join(letters) for length in range(6) for letters in product("ab", repeat=length)]
PATTERNS = st.builds(Pattern, st.text("ab", min_size=1, max_size=2), st.booleans(), st.booleans())
CONSTRAINTS = st.builds(
    lambda prefix, patterns: constraint((prefix, end_of_prefix(prefix)) if prefix else ALL, patterns=patterns),
    st.text("ab", max_size=2),
    st.frozensets(PATTERNS, max_size=3),
)


def matched(one: Constraint) -> set[str]:
    return {text for text in SHORT if one.admits(text)}


@given(PATTERNS, PATTERNS)
def test_what_patterns_are_said_to_imply_or_exclude_is_so(one: Pattern, other: Pattern) -> None:
    """For every short text."""
    both = [(one.matches(text), other.matches(text)) for text in SHORT]
    assert not one.implies(other) or all(second or not first for first, second in both)
    assert not one.excludes(other) or not any(first and second for first, second in both)
    assert one.implies(one)


@given(CONSTRAINTS, CONSTRAINTS)
def test_constraints_meet_in_what_both_admit(one: Constraint, other: Constraint) -> None:
    """A join admits at least what either does, and what is said to imply, implies."""
    assert matched(one.meet(other)) == matched(one) & matched(other)
    assert matched(one.join(other)) >= matched(one) | matched(other)
    assert not one.implies(other) or matched(one) <= matched(other)


@given(st.lists(CONSTRAINTS, min_size=1, max_size=5))
def test_many_meet_at_once_as_they_do_one_after_the_other(constraints: list[Constraint]) -> None:
    """In the same form, which is that of their values and patterns together."""
    first, *others = constraints
    met = first.meet(*others)
    assert met == reduce(Constraint.meet, constraints)
    assert matched(met) == set.intersection(*map(matched, constraints))
    assert met == constraint(met.ranges, met.null, met.patterns)


def test_patterns_that_say_nothing_are_left_out() -> None:
    """So that equal constraints are equal."""
    ends, has = Pattern("abc", anywhere=False), Pattern("bc", anywhere=True)
    assert constraint(ALL, patterns=frozenset((ends, has))) == constraint(ALL, patterns=frozenset((ends,)))
    assert constraint(("abcd", "abce"), patterns=frozenset((has,))) == Constraint(("abcd", "abce"))
    assert constraint(("abc", "abc\0"), patterns=frozenset((ends, has))) == Constraint(("abc", "abc\0"))


def test_patterns_that_exclude_each_other_leave_nothing() -> None:
    """Two ends that differ, or something that is denied and needed."""
    ends, other = Pattern("abc", anywhere=False), Pattern("bd", anywhere=False)
    denied = Pattern("b", anywhere=True, negated=True)
    assert constraint(ALL, patterns=frozenset((ends, other))).is_empty
    assert constraint(ALL, patterns=frozenset((ends, denied))).is_empty
    assert constraint(("ab", "ac"), patterns=frozenset((denied,))).is_empty


def test_prefixes_are_known_from_ranges() -> None:
    """A range is a prefix, or has one, or has none."""
    assert prefix_of(("ab", "ac")) == "ab"
    assert prefix_of(("ab", "ad")) is None
    assert prefix_of((1, 2)) is None
    assert common_prefix(("abc", "abe")) == "ab"
    assert common_prefix(("a", "b")) == "a"
    assert common_prefix(("a", TEXT_END)) == ""
