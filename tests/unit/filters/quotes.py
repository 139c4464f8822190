"""A schema of stock quotes, and filters and rows of it."""

from __future__ import annotations

from typing import Any

from tocsin.filters.filter import Filter
from tocsin.filters.language import parse
from tocsin.filters.normal_form import Row
from tocsin.filters.rows import RowEncoder
from tocsin.model.schema import Column, ColumnType, Schema

QUOTES = Schema(
    (
        Column("symbol", ColumnType.STRING, nullable=False),
        Column("name", ColumnType.STRING),
        Column("close", ColumnType.DOUBLE),
        Column("volume", ColumnType.BIGINT),
        Column("halted", ColumnType.BOOLEAN),
        Column("at", ColumnType.TIMESTAMP),
        Column("day", ColumnType.DATE),
        Column("user", ColumnType.INT),
    )
)
_ENCODE = RowEncoder(QUOTES)


def filter_of(text: str) -> Filter:
    return parse(text, QUOTES)


def row_of(**values: Any) -> Row:
    return _ENCODE({"symbol": "YHOO", **values})
