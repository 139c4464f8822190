"""Parameter values: data, checked against a channel's declaration and normalised, so that equal subscriptions share.

Brokers fill some of them in; they may remember another channel of that name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isfinite

from tocsin.cluster.channels.compiler.advice import did_you_mean
from tocsin.errors import FilledOtherwise, InvalidValue
from tocsin.model.catalogue import Channel, FilledBy, Parameter, ParameterValue
from tocsin.model.schema import ColumnType
from tocsin.model.times import DATE_WORDS, FIRST_YEAR, LAST_YEAR, TIME_WORDS, parse_date, parse_time

MAX_STRING_LENGTH = 10_000
_YEARS = f"in the years {FIRST_YEAR} to {LAST_YEAR}"


def check_values(channel: Channel, values: Mapping[str, object] | Sequence[object]) -> tuple[ParameterValue, ...]:
    """The values in declared order and normal form. Raises InvalidValue, naming the parameter and what is allowed."""
    declared = channel.parameters
    if isinstance(values, Mapping):
        given = _by_name(channel, values)
    elif isinstance(values, str | bytes):
        raise InvalidValue(f"{channel.name}: parameter values must be an object or a list")
    else:
        if len(values) != len(declared):
            raise InvalidValue(f"{channel.name} takes {signature(channel)}: {len(declared)} values, not {len(values)}")
        given = list(values)
    return tuple(_check(channel, parameter, value) for parameter, value in zip(declared, given, strict=True))


def check_filled(channel: Channel, filled: Iterable[str]) -> None:
    """Raises FilledOtherwise if `filled` differs: the broker remembers another channel of that name."""
    wanted = channel.filled
    if {name.lower() for name in filled} != {name.lower() for name in wanted}:
        shown = ", ".join(f"{name} IS {source}" for name, source in wanted.items()) or "none"
        raise FilledOtherwise(
            f"{channel.name}: name in `filled` the parameters that were filled in for the subscriber: {shown}", wanted
        )


def check_class(channel: Channel, values: Sequence[ParameterValue], permission: str) -> None:
    """Raises FilledOtherwise if a parameter that is `IS CLASS` has a value other than `permission`: the broker may
    remember that it was `IS USER`."""
    for parameter, value in zip(channel.parameters, values, strict=True):
        if parameter.filled_by is FilledBy.CLASS and value != permission:
            raise FilledOtherwise(
                f"{channel.name}: {parameter.name} is the permission class, {permission!r}, not {str(value)[:60]!r}",
                channel.filled,
            )


def _by_name(channel: Channel, values: Mapping[str, object]) -> list[object]:
    given = {name.lower(): value for name, value in values.items()}
    for name in values:
        if name.lower() not in {parameter.name.lower() for parameter in channel.parameters}:
            close = did_you_mean(name, (parameter.name for parameter in channel.parameters))
            raise InvalidValue(f"{channel.name} has no parameter {name!r}; it takes {signature(channel)}{close}")
    if len(given) != len(values):
        raise InvalidValue(f"{channel.name}: a parameter is given twice")
    for parameter in channel.parameters:
        if parameter.name.lower() not in given:
            raise InvalidValue(f"{channel.name}: {parameter.name} is missing; it takes {signature(channel)}")
    return [given[parameter.name.lower()] for parameter in channel.parameters]


def signature(channel: Channel) -> str:
    return ", ".join(map(str, channel.parameters)) or "no parameters"


def _check(channel: Channel, parameter: Parameter, value: object) -> ParameterValue:
    try:
        normal = _NORMAL_FORMS[parameter.type](value)
        if parameter.maximum is not None and not 0 <= normal <= parameter.maximum:  # type: ignore[operator]
            raise ValueError
        return normal
    except (ValueError, OverflowError):
        shown = "NULL" if value is None else repr(value)[:60]
        wanted = _WANTED[parameter.type]
        if parameter.maximum is not None:
            kind = "a number" if parameter.type is ColumnType.DOUBLE else "a whole number"
            wanted = f"{kind} from 0 to {parameter.maximum}"
        raise InvalidValue(f"{channel.name}: {parameter.name} must be {wanted}, not {shown}") from None


def _string(value: object) -> str:
    if not isinstance(value, str) or len(value) > MAX_STRING_LENGTH:
        raise ValueError
    value.encode()  # Lone surrogates can't be stored; the error is a ValueError.
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


def _whole(value: object, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
        raise ValueError
    return value


def _double(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(number := float(value)):
        raise ValueError
    return number + 0.0  # -0.0 becomes 0.0: equal subscriptions share.


def _timestamp(value: object) -> str:
    return parse_time(value).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _date(value: object) -> str:
    return parse_date(value).isoformat()


_NORMAL_FORMS: dict[ColumnType, Callable[[object], ParameterValue]] = {
    ColumnType.STRING: _string,
    ColumnType.BOOLEAN: _boolean,
    ColumnType.INT: lambda value: _whole(value, 31),
    ColumnType.BIGINT: lambda value: _whole(value, 63),
    ColumnType.DOUBLE: _double,
    ColumnType.TIMESTAMP: _timestamp,
    ColumnType.DATE: _date,
}
_WANTED = {
    ColumnType.STRING: f"a string of at most {MAX_STRING_LENGTH:,} characters",
    ColumnType.BOOLEAN: "true or false",
    ColumnType.INT: f"a whole number from {-(2**31)} to {2**31 - 1}",
    ColumnType.BIGINT: f"a whole number from {-(2**63)} to {2**63 - 1}",
    ColumnType.DOUBLE: "a finite number",
    ColumnType.TIMESTAMP: f"{TIME_WORDS}, {_YEARS}",
    ColumnType.DATE: f"{DATE_WORDS}, {_YEARS}",
}
