"""The covering set: the widest of many, kept up to date."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest

from tocsin.filters import siblings
from tocsin.filters.covering import covers
from tocsin.filters.covering_set import CoveringChange, CoveringSet
from tocsin.filters.filter import Filter
from tocsin.filters.language import parse
from tocsin.model.schema import Column, ColumnType, Schema
from unit.filters.quotes import QUOTES, filter_of


def texts(some: Iterable[Filter]) -> list[str]:
    return sorted(one.text for one in some)


def test_a_wider_filter_takes_the_place_of_those_it_covers() -> None:
    """And gives it back when it leaves: those come first, so that nothing is uncovered in between."""
    some = CoveringSet(QUOTES)
    narrow = [filter_of("volume > 5"), filter_of("volume > 7"), filter_of("symbol = 'A'")]
    for one in narrow:
        some.add(one)
    assert texts(some) == ["symbol = 'A'", "volume >= 6"]
    change = some.add(filter_of("TRUE"))
    assert (texts(change.entered), texts(change.left)) == (["TRUE"], ["symbol = 'A'", "volume >= 6"])
    assert some.add(filter_of("volume > 3")) == CoveringChange()
    change = some.remove(filter_of("TRUE"))
    assert (texts(change.entered), texts(change.left)) == (["symbol = 'A'", "volume >= 4"], ["TRUE"])


def test_a_filter_stays_as_long_as_somebody_holds_it() -> None:
    """It is counted; one too few is an error of the caller."""
    some = CoveringSet(QUOTES)
    one = filter_of("volume > 5")
    some.add(one)
    assert some.add(one) == some.remove(one) == CoveringChange()
    assert texts(some.remove(one).left) == ["volume >= 6"]
    with pytest.raises(KeyError):
        some.remove(one)


def test_filters_that_mean_the_same_are_in_it_once() -> None:
    """The first one stands for both, until it leaves."""
    one = filter_of("volume < 5 AND close < 1 OR volume < 3 AND close < 9")
    other = filter_of("volume BETWEEN 3 AND 4 AND close < 1 OR volume < 3 AND close < 9")
    assert one != other
    some = CoveringSet(QUOTES)
    for each in (one, other):
        some.add(each)
    assert texts(some) == [one.text]
    some.remove(one)
    assert texts(some) == [other.text]


def test_a_filter_for_a_word_is_not_compared_with_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their ranges are the same, but each looks at few that have its letters: a thousand words take about ten times as
    long as a hundred."""
    compared: list[Filter] = []

    def counting(covering: Filter, covered: Filter) -> bool:
        compared.append(covering)
        return covers(covering, covered)

    monkeypatch.setattr(siblings, "covers", counting)
    some, chance = CoveringSet(QUOTES), random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(1_000)]
    for word in words:
        some.add(filter_of(f"name LIKE '%{word}%'"))
    assert len(compared) < 10_000
    narrower = filter_of(f"name LIKE '%x{words[500]}y%'")
    assert some.add(narrower) == CoveringChange()
    assert texts(some.add(filter_of(f"name LIKE '%{words[7][1:6]}%'")).left) == [f"name LIKE '%{words[7]}%'"]


def test_a_filter_of_another_schema_is_refused() -> None:
    """Its columns have other numbers."""
    other = parse("volume > 5", Schema((Column("volume", ColumnType.BIGINT),)))
    with pytest.raises(ValueError, match="another schema"):
        CoveringSet(QUOTES).add(other)


def drawn_filters(chance: random.Random, count: int) -> list[Filter]:
    """Chains, antichains and what lies between; more than a loop looks at, so that numpy does."""
    made = []
    for _ in range(count):
        low = chance.randrange(200)
        made.append(
            filter_of(
                chance.choice(
                    [
                        f"volume > {low}",
                        f"symbol = 'S{low % 5}' AND volume > {low}",
                        f"close BETWEEN {low} AND {low + chance.choice([5, 5, 5, 20])}",
                        f"symbol > 'S{low % 7}' AND close < {low}",
                        f"name LIKE '{'ab'[low % 2]}{low % 9}%'",
                        f"volume IS NULL OR volume < {low}",
                    ]
                )
            )
        )
    return made


def test_it_is_what_comparing_each_with_each_gives() -> None:
    """While hundreds of filters come and go, in any order."""
    chance = random.Random(3)
    filters = drawn_filters(chance, 400)
    some = CoveringSet(QUOTES)
    held: list[Filter] = []
    upstream: dict[str, Filter] = {}
    for step, one in enumerate([*filters, *[None] * len(filters)]):
        if one is not None:
            held.append(one)
            change = some.add(one)
        else:
            change = some.remove(held.pop(chance.randrange(len(held))))
        for each in change.left:
            del upstream[each.text]
        upstream |= {each.text: each for each in change.entered}
        if step % 50 == 0:
            unique = list({each.text: each for each in held}.values())
            widest = [each for each in unique if not any(covers(other, each) for other in unique if other is not each)]
            assert texts(some) == sorted(upstream) == texts(widest)
    assert not len(some)
    assert not some.filter_count


@pytest.mark.parametrize("others", [3, 40])
def test_alternatives_that_leave_nothing_out_of_a_column_cover_what_does_not_speak_of_it(others: int) -> None:
    """Among few others and among many, which are searched by their bounds."""
    wide = filter_of("close > 3 AND volume IS NULL OR close > 2 AND volume < 5 OR close > 1 AND volume >= 5")
    text = filter_of("close > 2 AND symbol < 'M' OR close > 1 AND symbol >= 'M'")
    narrow = filter_of("close > 4")
    for covering in (wide, text):
        assert covers(covering, narrow)
        some = CoveringSet(QUOTES)
        for number in range(others):
            some.add(filter_of(f"`user` = {number}"))
        some.add(covering)
        assert some.add(narrow) == CoveringChange()
        some = CoveringSet(QUOTES)
        for number in range(others):
            some.add(filter_of(f"`user` = {number}"))
        some.add(narrow)
        assert some.add(covering).left == (narrow,)
