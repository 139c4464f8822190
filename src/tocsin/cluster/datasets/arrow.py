"""Dataset schemas as Arrow and Spark SQL write them."""

from __future__ import annotations

from math import isfinite, isnan
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.schema import ColumnType, Schema

ARROW_TYPES: dict[ColumnType, pa.DataType] = {
    ColumnType.STRING: pa.string(),
    ColumnType.BOOLEAN: pa.bool_(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.TIMESTAMP: pa.timestamp("us", tz="UTC"),
    ColumnType.DATE: pa.date32(),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    """The dataset's columns as they are stored, without `_seq`.

    All but the key are nullable in storage, whatever the schema says, so that columns can be added later;
    records are checked when they come in.
    """
    return pa.schema([pa.field(column.name, ARROW_TYPES[column.type]) for column in schema])


def ddl(schema: Schema) -> str:
    """The columns as Spark's DDL.

    >>> from tocsin.model.schema import Column
    >>> ddl(Schema((Column("id", ColumnType.STRING), Column("n", ColumnType.INT))))
    '`id` STRING, `n` INT'
    """
    return ", ".join(f"`{column.name}` {column.type}" for column in schema)


def wire_values(column: pa.ChunkedArray) -> list[Any]:
    """A column's values as JSON carries them in results. Times (in UTC with microseconds), dates, and numbers that JSON
    has no form for become strings.

    >>> wire_values(pa.chunked_array([pa.array([1_700_000_000_000_000, None], pa.timestamp("us", tz="UTC"))]))
    ['2023-11-14T22:13:20.000000Z', None]
    """
    if pa.types.is_timestamp(column.type):
        text = pc.replace_substring(column.cast(pa.string()), pattern=" ", replacement="T", max_replacements=1)
        return list(text.to_pylist())
    if pa.types.is_date(column.type):
        return list(column.cast(pa.string()).to_pylist())
    values = list(column.to_pylist())
    if pa.types.is_floating(column.type) and not pc.all(pc.is_finite(column), min_count=0).as_py():
        return [_spell_out(value) for value in values]
    return values


def _spell_out(value: float | None) -> float | str | None:
    if value is None or isfinite(value):
        return value
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
