"""The keyed index: of each key the last row lives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.cluster.datasets import keyed
from tocsin.cluster.datasets.keyed import KeyedIndex, last_per_key

_SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("x", pa.int64())])

_row = st.tuples(st.integers(0, 8), st.sampled_from("pqr"), st.integers(0, 1000))
_batches = st.lists(st.lists(_row, max_size=12), max_size=25)


def _table(batch: list[tuple[int, str, int]]) -> pa.Table:
    columns = zip(*batch, strict=True) if batch else ([], [], [])
    return pa.table(
        [pa.array(list(column), field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )


@given(batches=_batches, key=st.sampled_from([("a",), ("a", "b")]))
@settings(max_examples=150, deadline=None)
def test_it_is_a_dictionary(batches: list[list[tuple[int, str, int]]], key: tuple[str, ...]) -> None:
    """Whatever comes, in whatever batches, the living rows are those a dictionary would hold."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keyed, "_MIN_ROWS_TO_COMPACT", 5)  # So that dead rows are dropped again and again.
        index = KeyedIndex(_SCHEMA, key)
        expected: dict[tuple[object, ...], tuple[int, str, int]] = {}
        for batch in batches:
            index.apply(_table(batch))
            expected.update({row[: len(key)]: row for row in batch})
            assert len(index) == len(expected)
            living = [tuple(row.values()) for row in index.snapshot().to_pylist()]
            assert sorted(living) == sorted(expected.values())


def test_a_snapshot_stays_as_it_was() -> None:
    """Later updates don't change a snapshot that was taken before."""
    index = KeyedIndex(_SCHEMA, ("a",))
    index.apply(_table([(1, "p", 1)]))
    before = index.snapshot()
    index.apply(_table([(1, "p", 2)]))
    assert before.column("x").to_pylist() == [1]
    assert index.snapshot().column("x").to_pylist() == [2]


def test_an_added_column_is_null_in_the_living_rows() -> None:
    """Rows from before the column have no value for it; rows after it do."""
    index = KeyedIndex(_SCHEMA, ("a",))
    index.apply(_table([(1, "p", 1), (2, "q", 2)]))
    index.add_column(pa.field("level", pa.int32()), at=3)
    grown = _SCHEMA.append(pa.field("level", pa.int32()))
    index.apply(pa.table([[2], ["q"], [3], pa.array([9], pa.int32())], schema=grown))
    assert {row["a"]: row["level"] for row in index.snapshot().to_pylist()} == {1: None, 2: 9}


def test_last_per_key_keeps_arrival_order() -> None:
    """Of rows in arrival order the last of each key is kept, in that order."""
    table = _table([(1, "p", 1), (2, "p", 2), (1, "p", 3), (3, "p", 4), (2, "p", 5)])
    assert last_per_key(table, ("a",)).column("x").to_pylist() == [3, 4, 5]
    unique = _table([(1, "p", 1), (2, "p", 2)])
    assert last_per_key(unique, ("a",)) is unique


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us", tz="UTC"), 253_402_300_800_000_000),
        (pa.timestamp("us", tz="UTC"), -(2**62)),
        (pa.date32(), 2_932_897),
    ],
)
def test_a_key_may_be_any_time(kind: pa.DataType, value: int) -> None:
    """Also one that Python has no value for, such as the year 10000: what Spark takes must not end ingestion."""
    rows = pa.table({"at": pa.array([value, 5, value], kind), "x": [1, 2, 3]})
    assert last_per_key(rows, ("at",))["x"].to_pylist() == [2, 3]
    index = KeyedIndex(rows.schema, ("at", "x"))
    index.apply(rows)
    index.apply(rows.slice(2))
    assert sorted(index.snapshot()["x"].to_pylist()) == [1, 2, 3]


def test_removed_keys_are_gone_and_can_come_again() -> None:
    """Those that are not there are left alone, and all others stay."""
    index = KeyedIndex(_SCHEMA, ("a",))
    index.apply(_table([(1, "p", 1), (2, "q", 2), (1, "p", 3)]))
    index.remove(_table([(1, "", 0), (9, "", 0)]))
    assert index.snapshot().column("x").to_pylist() == [2]
    index.apply(_table([(1, "p", 4), (2, "q", 5)]))
    assert sorted(index.snapshot().column("x").to_pylist()) == [4, 5]
