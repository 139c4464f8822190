"""The filter index: what is found, by which way, and at what cost."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter

import pytest

from tocsin.filters.access import Access, access_options
from tocsin.filters.columns import columns_of
from tocsin.filters.filter import Filter
from tocsin.filters.index import FilterIndex
from tocsin.filters.language import parse
from tocsin.filters.normal_form import Row
from tocsin.model.schema import Column, ColumnType, Schema
from unit.filters.quotes import QUOTES, filter_of, row_of


def index_of(*texts: str) -> FilterIndex[str]:
    index: FilterIndex[str] = FilterIndex(QUOTES)
    for text in texts:
        index.add(text, filter_of(text))
    return index


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("symbol = 'A'", {Access.POINT}),
        ("symbol IN ('A', 'B')", {Access.POINT}),
        ("volume IS NULL", {Access.POINT}),
        ("volume IS NULL OR volume = 5", {Access.POINT}),
        ("name LIKE 'a%'", {Access.PREFIX}),
        ("name LIKE '%a'", {Access.SUFFIX}),
        ("name LIKE '%a%'", {Access.INSIDE}),
        ("volume BETWEEN 5 AND 9", {Access.CELL}),
        ("close BETWEEN 5 AND 9", {Access.CELL}),
        ("at >= '2026-01-02T00:00:00Z' AND at < '2026-01-03T00:00:00Z'", {Access.CELL}),
        ("volume > 5", set()),
        ("name NOT LIKE '%a%'", set()),
        ("volume IS NOT NULL", set()),
        ("volume IS NULL OR volume > 5", set()),
    ],
)
def test_access_predicates(text: str, kinds: set[Access]) -> None:
    """What a record has to have is looked up; a bound to one side is not."""
    ((column, constraint),) = filter_of(text).alternatives[0].constraints
    options = list(access_options(columns_of(QUOTES).in_order[column], constraint))
    assert {key.kind for option in options for key in option.keys} == kinds


class _Counted(Filter):
    """A filter that must not be evaluated."""

    def matches(self, row: Row) -> bool:
        raise AssertionError("this filter was tried")


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("symbol = 'A' AND volume > 5", {"symbol": "A", "volume": 6}, {"symbol": "A", "volume": 5}),
        ("symbol = 'A' AND name >= 'b'", {"symbol": "A", "name": "b"}, {"symbol": "A", "name": "a"}),
        ("name LIKE '%bc'", {"name": "abc"}, {"name": "c"}),
        ("name LIKE '%b%'", {"name": "abbcb"}, {"name": "c"}),
        ("close BETWEEN 5 AND 9 AND volume < 7", {"close": 9.0, "volume": 6}, {"close": 9.1, "volume": 6}),
        ("volume IS NOT NULL", {"volume": 5}, {}),
        ("volume IS NULL", {}, {"volume": 5}),
        ("volume IN (1, 5, 9)", {"volume": 5}, {"volume": 6}),
        ("TRUE", {}, None),
    ],
)
def test_common_filters_are_found_without_being_tried(text: str, matching: dict, other: dict | None) -> None:
    """Each once."""
    index: FilterIndex[str] = FilterIndex(QUOTES)
    made = filter_of(text)
    index.add(text, _Counted(made.text, made.columns, made.alternatives))
    assert index.matching(row_of(**matching)) == [text]
    assert other is None or index.matching(row_of(**other)) == []


def test_a_filter_is_found_once_though_several_alternatives_match() -> None:
    index = index_of("symbol = 'A' OR volume > 5 OR close > 5", "volume > 5 OR name LIKE '%a%'")
    found = Counter(index.matching(row_of(symbol="A", volume=9, close=9.0, name="aaa")))
    assert list(found.values()) == [1, 1]


def test_what_is_removed_is_not_found_and_leaves_nothing_behind() -> None:
    """Whatever way it was kept."""
    texts = [
        "symbol = 'A'",
        "volume > 5",
        "close BETWEEN 1 AND 2",
        "name LIKE '%a%' AND volume != 5",
        "TRUE",
        "name > 'a'",
    ]
    index = index_of(*texts)
    row = row_of(symbol="A", volume=9, close=1.5, name="ab")
    assert sorted(index.matching(row)) == sorted(texts)
    for text in texts:
        index.remove(text)
        assert text not in index.matching(row)
    assert not len(index)
    assert not index._sure.is_used
    assert not index._candidates.is_used
    with pytest.raises(KeyError):
        index.remove("TRUE")


def test_a_name_has_one_filter() -> None:
    """A second one would never be removed."""
    index = index_of("TRUE")
    with pytest.raises(ValueError, match="TRUE has a filter already"):
        index.add("TRUE", filter_of("volume > 5"))


def test_a_filter_of_another_schema_is_refused() -> None:
    """Its columns have other numbers."""
    other = parse("volume > 5", Schema((Column("volume", ColumnType.BIGINT),)))
    with pytest.raises(ValueError, match="another schema"):
        FilterIndex(QUOTES).add("x", other)


def test_many_boxes_are_compared_at_once_and_right() -> None:
    """Ranges on two columns, with removals between."""
    chance = random.Random(5)
    boxes = {}
    index: FilterIndex[int] = FilterIndex(QUOTES)
    for name in range(500):
        x, y = chance.randrange(100), chance.randrange(100)
        boxes[name] = filter_of(f"volume BETWEEN {x} AND {x + 9} AND `user` BETWEEN {y} AND {y + 9}")
        index.add(name, boxes[name])
    for _ in range(200):
        row = row_of(volume=chance.randrange(110), user=chance.randrange(110))
        assert sorted(index.matching(row)) == [name for name, one in boxes.items() if one.matches(row)]
        gone = chance.choice(sorted(boxes))
        index.remove(gone)
        del boxes[gone]


def test_memory_grows_with_what_is_kept_and_not_with_what_was() -> None:
    """A filter of the commonest kind takes less than a kilobyte, and coming and going leaves nothing behind."""
    filters = [filter_of(f"symbol = 'S{at % 100}' AND volume > {at}") for at in range(2_000)]
    index: FilterIndex[int] = FilterIndex(QUOTES)
    sizes = []
    tracemalloc.start()
    try:
        for _ in range(4):
            for name, one in enumerate(filters):
                index.add(name, one)
            sizes.append(tracemalloc.get_traced_memory()[0])
            for name in range(len(filters)):
                index.remove(name)
    finally:
        tracemalloc.stop()
    assert sizes[0] / len(filters) < 1_000
    assert sizes[-1] < 1.1 * sizes[1]


def test_twenty_thousand_filters_are_not_tried_one_by_one() -> None:
    """A record of one symbol meets the filters of that symbol only."""
    index: FilterIndex[int] = FilterIndex(QUOTES)
    kept = {symbol: filter_of(f"symbol = 'S{symbol}' AND volume != 5 AND close != 5") for symbol in range(1_000)}
    tried: list[int] = []

    class Tried(Filter):
        def matches(self, row: Row) -> bool:
            tried.append(1)
            return super().matches(row)

    for name in range(20_000):
        one = kept[name % 1_000]
        index.add(name, Tried(one.text, one.columns, one.alternatives))
    assert len(index.matching(row_of(symbol="S7", volume=1, close=1.0))) == 20
    assert len(tried) == 20
