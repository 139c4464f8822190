"""Primary keys of reference datasets: each key has one row, whichever way rows come."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from tocsin.cluster.datasets.arrow import ARROW_TYPES, wire_values
from tocsin.cluster.datasets.keyed import keys_of
from tocsin.model.schema import ColumnType, Schema
from tocsin.model.times import parse_date, parse_time


def repeats(taken: pa.Table, rows: pa.Table, key: Sequence[str]) -> dict[int, str]:
    """The `rows`, by index, whose key is in `taken` or in an earlier row, each with a reason."""
    seen: set[Hashable] = set(keys_of(taken, key))
    found: dict[int, str] = {}
    for at, value in enumerate(keys_of(rows, key)):
        if value in seen:
            named = {name: wire_values(rows.column(name).slice(at, 1))[0] for name in key}
            found[at] = f"a row with the key {json.dumps(named)} exists; DELETE it first, or LOAD all rows anew"
        seen.add(value)
    return found


def key_columns(schema: Schema, records: Sequence[Mapping[str, Any]]) -> pa.Table:
    """The keys of records that fit the schema, as they will be stored."""
    columns = {}
    for name in schema.primary_key:
        column = schema.find(name)
        assert column is not None, "the parser allows columns of the dataset only"
        values = [_stored(record.get(name), column.type) for record in records]
        columns[name] = pa.array(values, ARROW_TYPES[column.type])
    return pa.table(columns)


def _stored(value: Any, type_: ColumnType) -> Any:
    match type_:
        case ColumnType.STRING:
            return value if isinstance(value, str) else json.dumps(value)
        case ColumnType.TIMESTAMP:
            return parse_time(value)
        case ColumnType.DATE:
            return parse_date(value)
        case _:
            return value
