"""Keys of reference datasets come once."""

from __future__ import annotations

import pyarrow as pa

from tocsin.cluster.datasets.reference_keys import key_columns, repeats
from tocsin.model.schema import Column, ColumnType, Schema

SCHEMA = Schema(
    (Column("id", ColumnType.STRING), Column("at", ColumnType.TIMESTAMP), Column("n", ColumnType.INT)), ("id", "at")
)
NOON, LATER = "2026-01-02T12:00:00Z", "2026-01-02T14:00:00+01:00"


def test_a_key_that_is_taken_or_comes_twice_is_found() -> None:
    """However its values are written: a time is the same in every offset, and a number is stored as a text."""
    taken = key_columns(SCHEMA, [{"id": "5", "at": NOON}])
    rows = [{"id": 5, "at": "2026-01-02T13:00:00+01:00"}, {"id": "6", "at": NOON}, {"id": "5", "at": LATER}]
    found = repeats(taken, key_columns(SCHEMA, [*rows, rows[1]]), SCHEMA.primary_key)
    assert sorted(found) == [0, 3]
    assert found[0].startswith('a row with the key {"id": "5", "at": "2026-01-02T12:00:00.000000Z"} exists; DELETE it')


def test_keys_that_are_free_are_free() -> None:
    """An empty table takes all."""
    rows = key_columns(SCHEMA, [{"id": "a", "at": NOON}, {"id": "b", "at": NOON}])
    assert repeats(rows.slice(0, 0), rows, SCHEMA.primary_key) == {}
    assert rows.schema.types == [pa.string(), pa.timestamp("us", tz="UTC")]
