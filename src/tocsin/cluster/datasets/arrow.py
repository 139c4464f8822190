"""Dataset schemas in the words of Arrow and of Spark SQL."""

from __future__ import annotations

import pyarrow as pa

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
