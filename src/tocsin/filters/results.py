"""The results of a source as filters see them: which columns can be compared, and why others can't (pure).

A broker sees a result as the JSON that Spark has written. Filters are allowed on columns whose JSON says exactly what
Spark would compare; a column of any other type is refused by name, with what to do about it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import msgspec

from tocsin.errors import InvalidValue
from tocsin.filters.filter import Filter
from tocsin.filters.language import parse
from tocsin.filters.normal_form import Row
from tocsin.filters.rows import RowEncoder
from tocsin.model.schema import Column, ColumnType, ResultColumn, Schema

#: Small whole numbers are compared as INT, as Spark does.
_COMPARED_AS: Final = {one.value: one for one in ColumnType} | {
    "TINYINT": ColumnType.INT,
    "SMALLINT": ColumnType.INT,
}
_CASTS: Final = {
    "DECIMAL": "cast it to DOUBLE or BIGINT",
    "FLOAT": "cast it to DOUBLE",
    "TIMESTAMP_NTZ": "cast it to TIMESTAMP",
}
_NO_CAST: Final = "select what is to be compared as a column of its own"

_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(frozen=True, slots=True)
class FilteredColumns:
    """The columns of one source. `refused` has those that can't be compared, by lower-case name, with the reason."""

    schema: Schema
    refused: Mapping[str, str]

    def parse(self, where: str) -> Filter:
        """Raises StatementError, which points at what is wrong."""
        return parse(where, self.schema, self.refused)


def filtered_columns(columns: Sequence[ResultColumn]) -> FilteredColumns:
    """
    >>> columns = filtered_columns([ResultColumn("id", "STRING"), ResultColumn("total", "DECIMAL(10,2)")])
    >>> columns.parse("id = 'x'").text
    "id = 'x'"
    >>> columns.parse("total > 5")
    Traceback (most recent call last):
    tocsin.errors.StatementError: total is DECIMAL(10,2), which filters don't compare; cast it to DOUBLE or BIGINT ...
    """
    kept = [Column(one.name, _COMPARED_AS[one.type]) for one in columns if one.type in _COMPARED_AS]
    refused = {one.name.lower(): _reason(one) for one in columns if one.type not in _COMPARED_AS}
    return FilteredColumns(Schema(tuple(kept)), MappingProxyType(refused))


def _reason(column: ResultColumn) -> str:
    family = column.type.partition("(")[0].partition("<")[0]
    shown = column.type if len(column.type) <= 40 else f"{family}…"
    return f"{column.name} is {shown}, which filters don't compare; {_CASTS.get(family, _NO_CAST)} in the channel"


class PayloadReader:
    """Makes rows of the payloads of one source.

    >>> read = PayloadReader(Schema((Column("severity", ColumnType.INT),)))
    >>> read(b'{"severity":3}'), read(b'{"severity":null}')
    ([3], [None])
    """

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._encode = RowEncoder(schema)

    def __call__(self, payload: bytes | msgspec.Raw) -> Row:
        """Raises InvalidValue if the payload does not have these columns, or values of other types: it is a result of
        another definition of the channel."""
        try:
            record = _decode(payload)
        except (msgspec.DecodeError, RecursionError) as exc:
            raise InvalidValue(f"not a payload: {exc}") from exc
        for name in self._names:
            if name not in record:
                raise InvalidValue(f"the payload has no {name}")
        return self._encode(record)
