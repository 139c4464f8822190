"""Filters against a second opinion, against Spark, and against trying every record."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tocsin.errors import StatementError
from tocsin.filters.covering import covers, intersects
from tocsin.filters.covering_set import CoveringSet
from tocsin.filters.filter import Filter
from tocsin.filters.index import FilterIndex
from tocsin.filters.language import parse
from tocsin.filters.rows import RowEncoder
from tocsin.model.schema import Column, ColumnType, Schema
from worlds.drawn_filters import SCHEMA, Condition, conditions, drawn, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENCODE = RowEncoder(SCHEMA)
MANY_RECORDS = st.lists(records(), min_size=1, max_size=8)


def parsed(condition: Condition) -> Filter | None:
    """None if it is refused because nothing can match it; no other reason is there."""
    try:
        return parse(condition.text, SCHEMA)
    except StatementError as refused:
        if "no record can match" not in refused.message:
            raise
        return None


@given(conditions(), MANY_RECORDS)
def test_a_filter_matches_where_its_condition_is_true(condition: Condition, some: list[dict[str, Any]]) -> None:
    """Not where it is NULL or FALSE; what is refused because nothing matches it, nothing matches."""
    found = parsed(condition)
    for record in some:
        matches = found is not None and found.matches(ENCODE(record))
        assert matches == (condition.truth(record) is True)


@given(conditions(depth=4))
def test_the_canonical_text_gives_the_same_filter_again(condition: Condition) -> None:
    """Letter by letter, and in all that is known of it."""
    found = parsed(condition)
    assume(found is not None)
    assert found is not None
    again = parse(found.text, SCHEMA)
    assert (again, again.alternatives, again.tree) == (found, found.alternatives, found.tree)


@given(st.lists(conditions(), min_size=1, max_size=12), MANY_RECORDS, st.data())
def test_the_index_finds_what_matches(some: list[Condition], rows: list[dict[str, Any]], data: st.DataObject) -> None:
    """Each filter once, whatever the others are; after removals, those that are left."""
    filters = {name: one for name, condition in enumerate(some) if (one := parsed(condition)) is not None}
    index: FilterIndex[int] = FilterIndex(SCHEMA)
    for name, one in filters.items():
        index.add(name, one)
    for _ in range(2):
        for record in rows:
            row = ENCODE(record)
            assert sorted(index.matching(row)) == [name for name, one in filters.items() if one.matches(row)]
        for name in data.draw(st.sets(st.sampled_from(sorted(filters)))) if filters else ():
            index.remove(name)
            del filters[name]
    assert sorted(index) == sorted(filters)


@given(conditions(), conditions(), MANY_RECORDS)
def test_covering_and_intersection_are_sound(one: Condition, other: Condition, some: list[dict[str, Any]]) -> None:
    """No record matches the covered filter alone, and none matches both of two that don't intersect."""
    first, second = parsed(one), parsed(other)
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    for row in map(ENCODE, some):
        assert not (covers(first, second) and second.matches(row) and not first.matches(row))
        assert intersects(first, second) or not (first.matches(row) and second.matches(row))


SMALL = Schema(
    (Column("f", ColumnType.BOOLEAN), Column("g", ColumnType.BOOLEAN, nullable=False), Column("h", ColumnType.BOOLEAN))
)
#: Every row of three columns with two values, of which two can be NULL.
ALL_ROWS = list(product([None, 0, 1], [0, 1], [None, 0, 1]))


@given(conditions(SMALL.columns, depth=4), conditions(SMALL.columns, depth=4))
def test_covering_and_intersection_are_complete_on_a_small_domain(one: Condition, other: Condition) -> None:
    """Where every record can be tried, the answers are those of trying them all."""
    first, second = (_parsed_small(condition) for condition in (one, other))
    assume(first is not None and second is not None)
    assert first is not None
    assert second is not None
    matched, also = ([each.matches(row) for row in ALL_ROWS] for each in (first, second))
    assert covers(first, second) == all(m or not a for m, a in zip(matched, also, strict=True))
    assert intersects(first, second) == any(m and a for m, a in zip(matched, also, strict=True))


def _parsed_small(condition: Condition) -> Filter | None:
    try:
        found = parse(condition.text, SMALL)
    except StatementError:
        names = SMALL.names
        assert not any(
            condition.truth({name: None if key is None else bool(key) for name, key in zip(names, row, strict=True)})
            for row in ALL_ROWS
        ), "refused, and yet a record matches"
        return None
    return found


NUMBERS = Schema((Column("i", ColumnType.INT), Column("j", ColumnType.INT, nullable=False)))
RANGES = st.tuples(st.integers(0, 5), st.integers(0, 5)).map(sorted)


@st.composite
def boxes(draw: st.DrawFn) -> str:
    """One to three boxes, some with NULL, some without a side."""
    some = []
    for _ in range(draw(st.integers(1, 3))):
        sides = [
            f"{name} BETWEEN {low} AND {high}" for name in "ij" for low, high in [draw(RANGES)] if draw(st.booleans())
        ]
        null = draw(st.sampled_from(["", "i IS NULL AND ", "i IS NOT NULL AND "]))
        some.append(f"({null}{' AND '.join(sides) or 'TRUE'})")
    return " OR ".join(some)


@given(boxes(), boxes())
def test_covering_is_complete_for_unions_of_boxes(one: str, other: str) -> None:
    """A box that several others cover together is covered, NULL included."""
    try:
        first, second = parse(one, NUMBERS), parse(other, NUMBERS)
    except StatementError:
        assume(False)
    rows = list(product([None, *range(-1, 8)], range(-1, 8)))
    assert covers(first, second) == all(first.matches(row) or not second.matches(row) for row in rows)


class CoveringSetMachine(RuleBasedStateMachine):
    """A covering set beside a list of its filters."""

    def __init__(self) -> None:
        super().__init__()
        self.covering = CoveringSet(NUMBERS)
        self.all: list[Filter] = []
        self.told: dict[str, Filter] = {}

    @rule(text=boxes() | st.sampled_from(["TRUE", "i > 2", "j < 3", "i IS NULL"]))
    def add(self, text: str) -> None:
        try:
            added = parse(text, NUMBERS)
        except StatementError:
            return
        self.all.append(added)
        self._follow(self.covering.add(added))

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        if self.all:
            self._follow(self.covering.remove(self.all.pop(data.draw(st.integers(0, len(self.all) - 1)))))

    def _follow(self, change: Any) -> None:
        for one in change.left:
            del self.told[one.text]
        for one in change.entered:
            assert one.text not in self.told
            self.told[one.text] = one

    @invariant()
    def it_is_what_comparing_each_with_each_gives(self) -> None:
        unique = list({one.text: one for one in self.all}.values())
        roots = list(self.covering)
        assert {one.text for one in roots} == set(self.told)
        # Of filters that mean the same, one is in it.
        assert all(any(covers(root, one) for root in roots) for one in unique)
        assert not any(covers(root, other) for root in roots for other in roots if other is not root)
        assert {one.text for one in roots} <= {one.text for one in unique}
        assert self.covering.filter_count == len(unique)


TestCoveringSet = CoveringSetMachine.TestCase
TestCoveringSet.settings = settings(max_examples=60, stateful_step_count=30)


def test_filters_match_what_sparks_where_selects(spark: SparkSession) -> None:
    """Many filters on many records in one query: as typed, and in canonical form."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = drawn(records(), 100)
    columns = [column.name for column in SCHEMA]
    ddl = ", ".join(f"{column.name} {column.type}" for column in SCHEMA)
    frame = spark.createDataFrame([tuple(one[name] for name in columns) for one in rows], ddl).coalesce(1)
    some = drawn(conditions(), 150)
    texts = [one.text for one in some]
    # Spark looks long lists up in a set.
    texts += [f"d IN ({', '.join(map(str, range(12)))})", "i NOT IN (1, 2.5, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)"]
    filters = [parsed(Condition(text, lambda _: None)) for text in texts]
    selected = [F.coalesce(F.expr(text), F.lit(False)).alias(f"t{at}") for at, text in enumerate(texts)]
    selected += [
        F.coalesce(F.expr(one.text), F.lit(False)).alias(f"c{at}") for at, one in enumerate(filters) if one is not None
    ]
    answers = frame.select(*selected).collect()
    assert sum(one is not None for one in filters) > 100
    wrong = []
    for record, answer in zip(rows, answers, strict=True):
        row = ENCODE(record)
        for at, one in enumerate(filters):
            matches = one is not None and one.matches(row)
            if matches != answer[f"t{at}"] or (one is not None and matches != answer[f"c{at}"]):
                wrong.append((texts[at], record, matches))
    assert not wrong
