"""Statements about many rows, each in the form that its database is fast with.

SQLite takes lists of single values. PostgreSQL would plan anew for each length of such a list; it takes an array as one
value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY

_Value = TypeVar("_Value", int, str, bytes)

#: SQLite takes at most 32,766 variables in one statement.
_CHUNK: Final = 5_000


def in_chunks(values: Sequence[_Value]) -> Iterator[Sequence[_Value]]:
    """Chunks as large as one statement allows."""
    for start in range(0, len(values), _CHUNK):
        yield values[start : start + _CHUNK]


def among(
    connection: sa.Connection, column: sa.ColumnElement[Any], values: Sequence[int | str | bytes]
) -> sa.ColumnElement[bool]:
    """The column has one of these values, of which there may be a chunk."""
    if connection.dialect.name == "sqlite":
        return column.in_(values)
    return column == sa.any_(sa.literal(list(values), ARRAY(column.type)))


def without_nul(text: str) -> str:
    """A text that no user has chosen, such as Spark's error about a value: PostgreSQL's texts hold no NUL."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def insert_many(connection: sa.Connection, table: sa.Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows given in column order, bypassing SQLAlchemy's work on each row, which would double the time."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql(str(table.insert().compile(dialect=connection.dialect)), list(rows))
        return
    names = ", ".join(column.name for column in table.columns)
    arrays = ", ".join(f"%s::{column.type.compile(connection.dialect)}[]" for column in table.columns)
    columns = tuple(list(values) for values in zip(*rows, strict=True))
    connection.exec_driver_sql(f"INSERT INTO {table.name} ({names}) SELECT * FROM unnest({arrays})", columns)
