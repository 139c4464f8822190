"""Covering and intersection, by example; property tests have the rest."""

from __future__ import annotations

import pytest

from tocsin.filters.covering import covers, intersects
from unit.filters.quotes import filter_of
from unit.filters.test_normal_form import BOMB, PORTFOLIO


@pytest.mark.parametrize(
    ("covering", "covered"),
    [
        ("TRUE", "volume > 5"),
        ("volume > 5", "volume > 6 AND symbol = 'A'"),
        ("volume IS NOT NULL", "volume > 5"),
        ("volume != 7", "volume BETWEEN 1 AND 5"),
        ("symbol LIKE 'A%'", "symbol IN ('AB', 'AC')"),
        ("symbol LIKE 'A%'", "symbol LIKE 'AB%'"),
        ("name LIKE '%b%'", "name LIKE '%abc'"),
        ("name LIKE '%b%'", "name LIKE 'abc%'"),
        ("name LIKE '%b'", "name IN ('ab', 'b')"),
        ("name NOT LIKE '%abc'", "name NOT LIKE '%b%'"),
        ("volume > 5 OR volume < 3", "volume > 9"),
        # Only both together cover it.
        ("volume < 5 AND symbol > 'A' OR close > 1 AND symbol > 'A' OR volume >= 5 AND close <= 1 AND symbol > 'A'",
         "symbol = 'B' AND volume > 0 AND close > 0"),
        ("volume < 5 OR symbol = 'A'", "volume < 9 AND symbol = 'A' OR volume < 3"),
        ("symbol LIKE 'S%' AND volume > 1", PORTFOLIO),
    ],
)  # fmt: skip
def test_covered(covering: str, covered: str) -> None:
    """And not the other way round; what is covered intersects."""
    wide, narrow = filter_of(covering), filter_of(covered)
    assert covers(wide, narrow)
    assert not covers(narrow, wide)
    assert intersects(wide, narrow)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("volume > 5", "close > 5"),
        ("volume > 5", "volume > 5 OR volume IS NULL AND close > 1"),
        ("symbol = 'A'", "symbol IN ('A', 'B')"),
        ("volume < 5 OR symbol = 'A'", "volume < 6"),
        ("name LIKE '%b'", "name LIKE '%b%'"),
    ],
)
def test_not_covered(one: str, other: str) -> None:
    """The second has something that the first has not."""
    assert not covers(filter_of(one), filter_of(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("volume > 5", "volume < 6"),
        ("volume IS NULL", "volume > 5"),
        ("symbol = 'A' AND volume > 5", "symbol = 'B' OR volume < 3"),
        ("symbol LIKE 'A%'", "symbol LIKE 'B%'"),
        ("name LIKE '%a'", "name LIKE '%b'"),
    ],
)
def test_what_can_not_match_both_does_not_intersect(one: str, other: str) -> None:
    """In either order."""
    assert not intersects(filter_of(one), filter_of(other))
    assert not intersects(filter_of(other), filter_of(one))


def test_a_filter_that_kept_its_tree_covers_itself_and_nothing_that_is_not_known() -> None:
    """Its alternatives are too wide to promise more."""
    bomb = filter_of(BOMB)
    assert not bomb.is_exact
    assert covers(bomb, filter_of(BOMB))
    assert not covers(bomb, filter_of("volume = 1000"))
    assert covers(filter_of("TRUE"), bomb)
    assert intersects(bomb, filter_of("volume = 1000"))
