"""Domains: all values of a column type in one order, as keys, and keys as literals (pure).

Keys of STRING are the texts themselves: Python orders them by code point, which is the order of their UTF-8 bytes. All
other keys are whole numbers in the order of the values: for DOUBLE that is Spark's, in which -0.0 equals 0.0 and NaN
comes after Infinity. So each condition on a column is a set of half-open ranges of keys, whatever its type, and no
gap is hidden between two neighbours.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

from tocsin.filters.tokens import quoted
from tocsin.model.schema import ColumnType
from tocsin.model.times import FIRST_YEAR, LAST_YEAR

#: An int; for STRING a str. `Any`, because both are compared with their own kind only, and with `TEXT_END`.
Key: TypeAlias = Any

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_DOUBLE: Final = struct.Struct("<d")
_BITS: Final = struct.Struct("<q")
pack_double: Final = _DOUBLE.pack
unpack_bits: Final = _BITS.unpack
#: The bits of -0.0, as a signed number. Below zero the bits of doubles fall where the values rise.
NEGATIVE_ZERO: Final = -(1 << 63)
_INFINITY: Final = 0x7FF << 52
_NAN: Final = _INFINITY + 1
_LAST_CHARACTER: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


class _TextEnd:
    """Beyond every text."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False

    def __le__(self, other: object) -> bool:
        return other is self

    def __gt__(self, other: object) -> bool:
        return other is not self

    def __ge__(self, other: object) -> bool:
        return True

    def __repr__(self) -> str:
        return "TEXT_END"

    def __reduce__(self) -> str:
        return "TEXT_END"


TEXT_END: Final = _TextEnd()


@dataclass(frozen=True, slots=True)
class Domain:
    """The keys of one column type: from `first`, and before `end`."""

    type: ColumnType
    first: Key
    end: Key
    #: The literal of a key, or None if it has none: Infinity, or a time that no record may have.
    literal: Callable[[Key], str | None]

    def is_full(self, ranges: tuple[Key, ...]) -> bool:
        return ranges == (self.first, self.end)

    def cuts_at(self, value: Any) -> tuple[Key, Key]:
        """The first key that is not below a value, and the first that is above it.

        A number of any kind may be compared with numbers, as Spark compares them: whole numbers with an exact
        fraction exactly, and with a DOUBLE as DOUBLEs.
        """
        match self.type:
            case ColumnType.INT | ColumnType.BIGINT:
                below, above = _whole_cuts(value)
                return min(max(below, self.first), self.end), min(max(above, self.first), self.end)
            case ColumnType.DOUBLE:
                key = double_key(float(value))
            case ColumnType.STRING:
                key = value
            case ColumnType.BOOLEAN:
                key = int(value)
            case ColumnType.TIMESTAMP:
                key = time_key(value)
            case ColumnType.DATE:
                key = value.toordinal()
        return key, after(key)


def after(key: Key) -> Key:
    """The next key: no other one lies between."""
    return key + "\0" if isinstance(key, str) else key + 1


def before(key: Key) -> Key | None:
    """The key that this one is next after; most texts are next after none."""
    if isinstance(key, str):
        return key[:-1] if key.endswith("\0") else None
    return key - 1


def end_of_prefix(prefix: str) -> Key:
    """The first text beyond all that begin with a prefix.

    >>> end_of_prefix("ab")
    'ac'
    """
    stem = prefix.rstrip(chr(_LAST_CHARACTER))
    if not stem:
        return TEXT_END
    following = ord(stem[-1]) + 1
    return stem[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def double_key(value: float) -> int:
    """
    >>> double_key(-0.0) == double_key(0.0) < double_key(5e-324) < double_key(math.inf) < double_key(math.nan)
    True
    """
    if value != value:  # noqa: PLR0124 - how a NaN is known
        return _NAN
    bits: int = unpack_bits(pack_double(value))[0]
    return bits if bits >= 0 else NEGATIVE_ZERO - bits


def time_key(value: datetime) -> int:
    """Microseconds since 1970, as Spark counts them."""
    return (value - _EPOCH) // _MICROSECOND


def _whole_cuts(value: Decimal | float) -> tuple[int, int]:
    if isinstance(value, float):
        return _first(lambda whole: float(whole) >= value), _first(lambda whole: float(whole) > value)
    return math.ceil(value), math.floor(value) + 1


def _first(is_beyond: Callable[[int], bool]) -> int:
    """The first whole number of 64 bits for which this holds; it holds for all after that too."""
    low, high = -(1 << 63), 1 << 63
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_beyond(middle) else (middle + 1, high)
    return low


def _double_literal(key: int) -> str | None:
    if abs(key) >= _INFINITY:
        return None
    value: float = _DOUBLE.unpack(_BITS.pack(abs(key)))[0]
    return repr(value if key >= 0 else -value)


def _time_literal(key: int) -> str | None:
    try:
        moment = _EPOCH + key * _MICROSECOND
    except OverflowError:
        return None
    if not FIRST_YEAR <= moment.year <= LAST_YEAR:
        return None
    return f"TIMESTAMP '{moment.replace(tzinfo=None).isoformat()}Z'"


def _date_literal(key: int) -> str | None:
    if not date.min.toordinal() <= key <= date.max.toordinal():
        return None
    day = date.fromordinal(key)
    return f"DATE '{day.isoformat()}'" if FIRST_YEAR <= day.year <= LAST_YEAR else None


def _boolean_literal(key: int) -> str:
    return "TRUE" if key else "FALSE"


def _signed(bits: int) -> tuple[int, int]:
    return -(1 << bits - 1), 1 << bits - 1


DOMAINS: Final = {
    ColumnType.STRING: Domain(ColumnType.STRING, "", TEXT_END, quoted),
    ColumnType.BOOLEAN: Domain(ColumnType.BOOLEAN, 0, 2, _boolean_literal),
    ColumnType.INT: Domain(ColumnType.INT, *_signed(32), str),
    ColumnType.BIGINT: Domain(ColumnType.BIGINT, *_signed(64), str),
    ColumnType.DOUBLE: Domain(ColumnType.DOUBLE, -_INFINITY, _NAN + 1, _double_literal),
    # The results of a channel may hold times that no record may.
    ColumnType.TIMESTAMP: Domain(ColumnType.TIMESTAMP, *_signed(64), _time_literal),
    ColumnType.DATE: Domain(ColumnType.DATE, *_signed(32), _date_literal),
}
