"""Ranges against sets of whole numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.filters.ranges import Ranges, contains, difference, intersection, is_subset, union

NUMBERS = range(-1, 9)
RANGES = st.sets(st.integers(0, 7)).map(
    lambda bounds: tuple(sorted(bounds)) if len(bounds) % 2 == 0 else tuple(sorted(bounds))[1:]
)


def members(ranges: Ranges) -> set[int]:
    return {number for number in NUMBERS if contains(ranges, number)}


@given(RANGES, RANGES)
def test_the_algebra_is_that_of_sets(one: Ranges, other: Ranges) -> None:
    """Union, intersection, difference, and whether one holds the other."""
    assert members(union(one, other)) == members(one) | members(other)
    assert members(intersection(one, other)) == members(one) & members(other)
    assert members(difference(one, other)) == members(one) - members(other)
    assert is_subset(one, other) == (members(one) <= members(other))


@given(RANGES, RANGES)
def test_the_same_set_is_the_same_tuple(one: Ranges, other: Ranges) -> None:
    """However it came about: bounds only rise, so ranges that touch are one."""
    for made in (union(one, other), intersection(one, other), difference(one, other)):
        assert list(made) == sorted(set(made))
    assert union(difference(one, other), intersection(one, other)) == one
