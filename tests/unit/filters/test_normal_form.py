"""The normal form is small, says the same, and stays within its bounds."""

from __future__ import annotations

import time

import pytest

from tocsin.errors import StatementError
from tocsin.filters.normal_form import MAX_ALTERNATIVES
from unit.filters.quotes import filter_of, row_of


def test_alternatives_that_differ_in_one_column_are_one() -> None:
    """OR on one column makes no alternatives."""
    assert len(filter_of("symbol = 'A' OR symbol = 'B' OR symbol LIKE 'C%'").alternatives) == 1
    split = filter_of("symbol = 'A' AND volume < 5 OR symbol = 'A' AND volume >= 5 OR symbol = 'A' AND volume IS NULL")
    assert split.text == "symbol = 'A'"


def test_alternatives_that_others_cover_are_left_out() -> None:
    """They add nothing."""
    assert filter_of("volume > 50 OR symbol = 'A' AND volume > 70").text == "volume > 50"


def test_a_condition_for_all_records_is_true() -> None:
    """However it is spelled."""
    assert filter_of("volume IS NULL OR NOT volume IS NULL").text == "TRUE"
    assert filter_of("close < 5 OR close >= 5 OR close IS NULL").text == "TRUE"


#: A hundred stocks, each with a limit of its own.
PORTFOLIO = " OR ".join(f"symbol = 'S{at}' AND volume > {at + 1}" for at in range(100))
#: Each line doubles the alternatives: 2^40 of them.
BOMB = " AND ".join(f"(volume != {at} OR close != {at} OR name != 'n{at}')" for at in range(40))


def test_a_filter_with_many_alternatives_keeps_its_tree() -> None:
    """It matches exactly; its alternatives are wider, and say what can be said in one."""
    one = filter_of(PORTFOLIO)
    assert not one.is_exact
    assert len(one.alternatives) == 1
    assert one.matches(row_of(symbol="S7", volume=9))
    assert not one.matches(row_of(symbol="S7", volume=8))
    assert one.alternatives[0].matches(row_of(symbol="S7", volume=8))
    assert not one.alternatives[0].matches(row_of(symbol="T7", volume=8))
    assert filter_of(one.text) == one


def test_a_filter_bomb_is_read_in_a_moment() -> None:
    """2^40 alternatives are never made, and the filter matches what it says."""
    began = time.process_time()
    one = filter_of(BOMB)
    assert time.process_time() - began < 2
    assert len(one.alternatives) <= MAX_ALTERNATIVES
    assert filter_of(one.text) == one
    assert one.matches(row_of(volume=100))
    assert one.matches(row_of(volume=5, close=6.0))
    assert not one.matches(row_of(volume=5, close=5.0, name="n5"))
    assert not one.matches(row_of())


def test_a_filter_bomb_that_can_not_match_is_refused_where_that_shows() -> None:
    """Plain conditions are met first, so that they leave little to multiply."""
    with pytest.raises(StatementError, match="no record can match"):
        filter_of(f"({BOMB}) AND volume = 5 AND close = 5 AND name = 'n5'")
    assert filter_of(f"({BOMB}) AND volume = 5 AND close = 5").text == "name != 'n5' AND close = 5.0 AND volume = 5"
