"""Rows: the values of a record as keys, in the order of the schema's columns; NULL is None (pure).

A record is encoded once and matched against many filters. It has been accepted before: what does not fit its column
is an error here, not a verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any, Final

from tocsin.errors import InvalidValue
from tocsin.filters.domains import DOMAINS, NEGATIVE_ZERO, Domain, Key, double_key, pack_double, time_key, unpack_bits
from tocsin.filters.normal_form import Row
from tocsin.model.schema import Column, ColumnType, Schema

#: As Spark writes them in JSON.
_NOT_FINITE: Final = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_TIMES: Final = DOMAINS[ColumnType.TIMESTAMP]
_DAYS: Final = DOMAINS[ColumnType.DATE]


class RowEncoder:
    """Makes rows of records of one schema: of decoded JSON, or with `datetime` and `date` for times.

    >>> encode = RowEncoder(Schema((Column("symbol", ColumnType.STRING), Column("volume", ColumnType.BIGINT))))
    >>> encode({"symbol": "YHOO", "volume": 5, "other": 1}), encode({})
    (['YHOO', 5], [None, None])
    """

    def __init__(self, schema: Schema) -> None:
        self._names = schema.names
        self._columns = schema.columns
        # Doubles are most of what sensors and markets send; they are encoded without a call for each.
        numbered = list(enumerate(schema))
        self._doubles = [at for at, column in numbered if column.type is ColumnType.DOUBLE]
        self._others = [(at, _KEYS[one.type]) for at, one in numbered if one.type is not ColumnType.DOUBLE]

    def __call__(self, record: Mapping[str, Any]) -> Row:
        """Raises InvalidValue if a value does not fit its column."""
        get = record.get
        row: list[Any] = [get(name) for name in self._names]
        at = 0
        try:
            for at, key_of in self._others:
                if (value := row[at]) is not None:
                    row[at] = key_of(value)
            for at in self._doubles:
                value = row[at]
                if type(value) is float and value == value:  # noqa: PLR0124 - not NaN
                    (bits,) = unpack_bits(pack_double(value))
                    row[at] = bits if bits >= 0 else NEGATIVE_ZERO - bits
                elif value is not None:
                    row[at] = _double(value)
        except (KeyError, ValueError, TypeError, OverflowError):
            raise InvalidValue(_misfit(self._columns[at], get(self._names[at]))) from None
        return row


def _misfit(column: Column, value: object) -> str:
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # Python shows neither very long numbers nor what is nested very deeply.
        shown = f"a value of type {type(value).__name__}"
    return f"{column.name}: expected {column.type}, got {shown if len(shown) <= 60 else shown[:60] + '…'}"


def _string(value: object) -> str:
    if type(value) is not str:
        raise TypeError
    return value


def _boolean(value: object) -> int:
    if type(value) is not bool:
        raise TypeError
    return int(value)


def _whole(type_: ColumnType) -> Callable[[object], int]:
    first, end = DOMAINS[type_].first, DOMAINS[type_].end

    def key(value: object) -> int:
        if type(value) is not int or not first <= value < end:
            raise TypeError
        return value

    return key


def _double(value: object) -> int:
    if type(value) is float:
        return double_key(value)
    if type(value) is int:
        return double_key(float(value))
    return double_key(_NOT_FINITE[str(value)])


def _beyond(text: object, domain: Domain) -> int | None:
    """Years that have no four digits, as Spark writes them, lie beyond all that filters can name: one key does for all
    later ones, and one for all earlier ones."""
    if not isinstance(text, str):
        return None
    if text.startswith("+"):
        return int(domain.end) - 1
    return int(domain.first) if text.startswith(("-", "0000")) else None


def _time(value: object) -> int:
    if (key := _beyond(value, _TIMES)) is not None:
        return key
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(moment, datetime) or moment.tzinfo is None:
        raise TypeError
    return time_key(moment.astimezone(UTC))


def _day(value: object) -> int:
    if (key := _beyond(value, _DAYS)) is not None:
        return key
    day = date.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(day, date) or isinstance(day, datetime):
        raise TypeError
    return day.toordinal()


_KEYS: Final[dict[ColumnType, Callable[[Any], Key]]] = {
    ColumnType.STRING: _string,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.INT: _whole(ColumnType.INT),
    ColumnType.BIGINT: _whole(ColumnType.BIGINT),
    ColumnType.DOUBLE: _double,
    ColumnType.TIMESTAMP: _time,
    ColumnType.DATE: _day,
}
