"""The shape of records: column types, columns and dataset schemas."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

#: Each stored row carries the number of its commit under this name. Users can select it; they can't declare it.
SEQUENCE_COLUMN = "_seq"

#: Names that begin with this are reserved for Tocsin's own columns and relations.
RESERVED_PREFIX = "_"


class ColumnType(StrEnum):
    """The column types of datasets and channel parameters, spelled as in Spark SQL."""

    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    INT = "INT"
    BIGINT = "BIGINT"
    DOUBLE = "DOUBLE"
    TIMESTAMP = "TIMESTAMP"
    DATE = "DATE"


NUMBERS = (ColumnType.INT, ColumnType.BIGINT, ColumnType.DOUBLE)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a dataset."""

    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a channel's results. The type is as Spark SQL writes it, such as `DECIMAL(10,2)`: results may have
    types that columns of datasets can't have."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a dataset, in order, and the names of its primary key.

    Key columns are never nullable. Column names compare without regard to case, as in Spark SQL,
    and are stored as written.
    """

    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Column]:
        return iter(self.columns)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def required(self) -> tuple[str, ...]:
        """The columns that a record must give a value for."""
        return tuple(column.name for column in self.columns if not column.nullable)

    def find(self, name: str) -> Column | None:
        """The column called `name`, whatever its case, or None."""
        wanted = name.lower()
        return next((column for column in self.columns if column.name.lower() == wanted), None)

    def with_column(self, column: Column) -> Schema:
        return Schema((*self.columns, column), self.primary_key)
