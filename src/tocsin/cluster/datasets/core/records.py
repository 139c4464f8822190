"""Why a record was refused, from a feed or in an INSERT (pure).

Spark decides, for millions of records at once, *which* records don't fit the schema. This module words the reasons for
those few, so that a dead letter says what is wrong, where, and what is allowed.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocsin.errors import InvalidValue
from tocsin.model.catalogue import Dataset
from tocsin.model.schema import NUMBERS, Column, ColumnType, Schema
from tocsin.model.times import parse_date, parse_time

_MAX_QUOTED_CHARS = 60
_NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_PAIR = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}")
_RANGES = {ColumnType.INT: 31, ColumnType.BIGINT: 63}
_WORDS = {
    ColumnType.STRING: "a string",
    ColumnType.BOOLEAN: "true or false",
    ColumnType.INT: "a whole number of 32 bits",
    ColumnType.BIGINT: "a whole number of 64 bits",
    ColumnType.DOUBLE: "a finite number",
}
#: The parsers of these types say themselves what is wrong.
_TIMES: dict[ColumnType, Callable[[object], object]] = {ColumnType.TIMESTAMP: parse_time, ColumnType.DATE: parse_date}


def reason_for_rejection(schema: Schema, raw: bytes, max_record_bytes: int) -> str:
    """What is wrong with the record `raw`, for a person.

    >>> from tocsin.model.schema import Column
    >>> schema = Schema((Column("id", ColumnType.STRING, nullable=False), Column("n", ColumnType.INT)), ("id",))
    >>> reason_for_rejection(schema, b'{"id": "a", "n": "many"}', 1000)
    'n: expected a whole number of 32 bits, got "many"'
    >>> reason_for_rejection(schema, b'{"n": 1}', 1000)
    'id: missing; every record needs it'
    >>> reason_for_rejection(schema, b'{"id": "a"}{"id": "b"}', 1000)
    'text follows the record, from character 12 on; a line holds one record'
    """
    try:
        return _reason_for_rejection(schema, raw, max_record_bytes)
    except Exception as exc:  # noqa: BLE001 - the record is rejected already, and no record may stop the others
        return f"does not fit the schema, and can't be told why: {type(exc).__name__}"


def _reason_for_rejection(schema: Schema, raw: bytes, max_record_bytes: int) -> str:
    if len(raw) > max_record_bytes:
        return f"record of {len(raw)} bytes; at most {max_record_bytes} are allowed"
    try:
        record = json.loads(raw)
    except UnicodeDecodeError as exc:
        return f"not UTF-8 at byte {exc.start}"
    except RecursionError:
        return "not JSON: nested too deeply"
    except json.JSONDecodeError as exc:
        if exc.msg == "Extra data":
            return f"text follows the record, from character {exc.pos + 1} on; a line holds one record"
        spelled = r"; \x… stands for a byte that isn't UTF-8" if rb"\x" in raw else ""
        return f"not JSON: {exc}{spelled}"
    except ValueError:  # Python reads no longer ones.
        return f"a whole number in it has more than {sys.get_int_max_str_digits()} digits; no column takes it"
    if (half := find_half_pair(raw)) is not None:
        return f"{half} is half of a character; write both halves, as JSON does, or the character itself"
    if not isinstance(record, dict):
        return f'expected a JSON object, got {_quote(record)}; a record is written {{"{schema.names[0]}": ...}}'
    return misfit(schema, record) or "does not fit the schema"


def find_half_pair(raw: bytes) -> str | None:
    r"""The first half of a surrogate pair in a JSON text, as it is written there; None if there is none.

    >>> find_half_pair(rb'{"id": "\ud83d\ude00 \\ud83d \uD83D"}'), find_half_pair(rb'"\ud83d\ude00"')
    ('\\uD83D', None)
    """
    if not _SURROGATE.search(raw):
        return None
    found = _SURROGATE.search(_PAIR.sub(b"", raw.replace(rb"\\", b"")))
    return None if found is None else found[0].decode()


def misfit(schema: Schema, record: Mapping[str, Any]) -> str | None:
    """The first thing in a decoded record that does not fit the schema, or None. JSON's names are case-sensitive."""
    reasons = (_reason_for_column(column, record.get(column.name), record) for column in schema)
    return next((reason for reason in reasons if reason is not None), None)


def records_of(dataset: Dataset, columns: Sequence[str] | None, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """One record for each row, with the dataset's spelling of column names. Without a list of columns, each row has all
    of them. Raises InvalidValue for the first row that does not fit."""
    names: list[str] = []
    for given in columns or dataset.schema.names:
        if (column := dataset.schema.find(given)) is None:
            known = ", ".join(dataset.schema.names)
            raise InvalidValue(f"dataset {dataset.name} has no column {given}; it has {known}")
        names.append(column.name)
    records = []
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            remedy = f"name the columns: INSERT INTO {dataset.name} ({names[0]}, ...) VALUES ..."
            raise InvalidValue(
                f"row {number} has {len(row)} values for {len(names)} columns ({', '.join(names)}); {remedy}"
            )
        records.append(dict(zip(names, row, strict=True)))
        if (reason := misfit(dataset.schema, records[-1])) is not None:
            raise InvalidValue(f"row {number}: {reason}; nothing was inserted")
    return records


def _reason_for_column(column: Column, value: Any, record: Mapping[str, Any]) -> str | None:
    if value is None:
        if column.nullable:
            return None
        alike = [name for name in record if name.lower() == column.name.lower() and name != column.name]
        return f"{column.name}: missing; every record needs it" + (f", and {alike[0]} is another name" if alike else "")
    if column.type in _TIMES:
        try:
            _TIMES[column.type](value)
        except ValueError as reason:
            return f"{column.name}: {reason}; got {_quote(value)}"
        return None
    if _fits(column.type, value):
        return None
    is_quoted = isinstance(value, str) and column.type in NUMBERS and _NUMBER.fullmatch(value)
    remedy = "; write it without quotes" if is_quoted else ""
    return f"{column.name}: expected {_WORDS[column.type]}, got {_quote(value)}{remedy}"


def _fits(kind: ColumnType, value: Any) -> bool:
    match kind:
        case ColumnType.STRING:
            return True
        case ColumnType.BOOLEAN:
            return isinstance(value, bool)
        case ColumnType.INT | ColumnType.BIGINT:
            limit = 1 << _RANGES[kind]
            return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit
        case ColumnType.DOUBLE:
            return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)
        case _:
            raise AssertionError(f"{kind} has a parser")


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # A whole number beyond all DOUBLEs.
        return False


def _quote(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _MAX_QUOTED_CHARS else text[:_MAX_QUOTED_CHARS] + "…"
