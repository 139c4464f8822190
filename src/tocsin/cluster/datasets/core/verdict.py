"""Whether ingestion accepts a record, and the values that its row gets, without Spark (pure).

Spark decides for tables, with the next micro-batch. Whoever can't wait for it asks here. The verdict is the same, or
there is none: what Spark's parser does with rare texts is left to Spark. Tests compare both.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from enum import Enum, auto
from typing import Annotated, Any, Final

import msgspec

from tocsin.cluster.datasets.core.records import find_half_pair
from tocsin.model.schema import ColumnType, Schema
from tocsin.model.times import parse_date, parse_time

Value = str | bool | int | float | datetime | date | None
#: A row's values, in the order of the schema's columns.
Values = tuple[Value, ...]


class Verdict(Enum):
    """What is said of a record that gives no row here."""

    REJECTED = auto()
    #: Ingestion decides.
    UNDECIDED = auto()


_LONG_LINE: Final = 256
#: Spark's parser refuses numbers of more than 1,000 characters, names of more than 50,000, and more than 1,000 levels.
_BEYOND_LIMITS: Final = re.compile(rb'[-+.0-9Ee]{900}|"[^"]{40000}')
_MAX_BRACKETS: Final = 400
#: Longer numbers, and those with a fraction, are written anew when they become a string.
_PLAIN_NUMBER: Final = re.compile(rb"0|-?[1-9][0-9]{0,17}")
_WORDS: Final = {b"true": "true", b"false": "false"}

_TYPES: Final[dict[ColumnType, Any]] = {
    ColumnType.STRING: str,
    ColumnType.BOOLEAN: bool,
    ColumnType.INT: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 31)],
    ColumnType.BIGINT: Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    ColumnType.DOUBLE: float,
    ColumnType.TIMESTAMP: str,
    ColumnType.DATE: str,
}
_TIMES: Final[dict[ColumnType, Callable[[object], Value]]] = {
    ColumnType.TIMESTAMP: parse_time,
    ColumnType.DATE: parse_date,
}


class RecordReader:
    """Reads the records of one schema.

    >>> from tocsin.model.schema import Column
    >>> read = RecordReader(Schema((Column("id", ColumnType.STRING), Column("n", ColumnType.INT))), 1000)
    >>> read(b'{"n": 5, "id": "a"}')
    ('a', 5)
    >>> read(b'{"id": "a", "n": "many"}'), read(b'{"id": 1.10}')
    (<Verdict.REJECTED: 1>, <Verdict.UNDECIDED: 2>)
    """

    def __init__(self, schema: Schema, max_record_bytes: int) -> None:
        self._max_record_bytes = max_record_bytes
        columns = list(enumerate(schema))
        self._required = [at for at, column in columns if not column.nullable]
        self._times = [(at, _TIMES[column.type]) for at, column in columns if column.type in _TIMES]
        self._strings = [at for at, column in columns if column.type is ColumnType.STRING]
        typed: list[tuple[str, Any, Any]] = [(f"c{at}", _TYPES[column.type] | None, None) for at, column in columns]
        self._decode = _decoder(typed, schema)
        # Any value can become a string, and Spark reads times as strings first. A second look leaves them as they are
        # written.
        for at in (*self._strings, *(at for at, _ in self._times)):
            typed[at] = (f"c{at}", msgspec.Raw, msgspec.Raw(b"null"))
        self._decode_loosely = _decoder(typed, schema)

    def __call__(self, line: bytes) -> Values | Verdict:
        """`line` is UTF-8, without the line break at its end, and not blank."""
        if len(line) > self._max_record_bytes:
            return Verdict.REJECTED
        if len(line) > _LONG_LINE and _is_beyond_limits(line):
            return Verdict.UNDECIDED
        if find_half_pair(line) is not None:
            return Verdict.REJECTED
        try:
            values = msgspec.structs.astuple(self._decode(line))
        except msgspec.ValidationError:
            loose = self._look_again(line)
            if isinstance(loose, Verdict):
                return loose
            values = loose
        except msgspec.DecodeError:
            return Verdict.REJECTED
        except RecursionError:
            return Verdict.UNDECIDED
        if any(values[at] is None for at in self._required):
            return Verdict.REJECTED
        if not self._times:
            return values
        with_times = list(values)
        try:
            for at, parse in self._times:
                if (value := with_times[at]) is not None:
                    with_times[at] = parse(value)
        except ValueError:
            return Verdict.REJECTED
        return tuple(with_times)

    def _look_again(self, line: bytes) -> Values | Verdict:
        """A value did not fit its column. Among the columns of strings and times, another one for the same name may."""
        try:
            values = list(msgspec.structs.astuple(self._decode_loosely(line)))
        except msgspec.ValidationError:
            return Verdict.REJECTED
        except msgspec.DecodeError:
            return Verdict.REJECTED
        for at in self._strings:
            text = _as_string(bytes(values[at]))
            if isinstance(text, Verdict):
                return text
            values[at] = text
        for at, _ in self._times:
            raw = bytes(values[at])
            if raw != b"null" and not raw.startswith(b'"'):
                return Verdict.REJECTED
            values[at] = msgspec.json.decode(raw, type=str | None)
        return tuple(values)


def _decoder(typed: list[tuple[str, Any, Any]], schema: Schema) -> Callable[[bytes], msgspec.Struct]:
    names = dict(zip((name for name, _, _ in typed), schema.names, strict=True))
    return msgspec.json.Decoder(msgspec.defstruct("Record", typed, rename=names)).decode


def _is_beyond_limits(line: bytes) -> bool:
    return line.count(b"[") + line.count(b"{") > _MAX_BRACKETS or _BEYOND_LIMITS.search(line) is not None


def _as_string(raw: bytes) -> str | Verdict | None:
    """The value of a STRING column for which a record has the JSON text `raw`."""
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    if raw == b"null":
        return None
    if raw in _WORDS:
        return _WORDS[raw]
    return raw.decode() if _PLAIN_NUMBER.fullmatch(raw) else Verdict.UNDECIDED
