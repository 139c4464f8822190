"""Parameters that brokers fill in: checks that a broker has filled in those that the channel has now (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tocsin.errors import FilledOtherwise, InvalidValue
from tocsin.model.catalogue import Channel, FilledBy, ParameterValue


def check_filled(channel: Channel, filled: Iterable[str]) -> None:
    """Raises FilledOtherwise if `filled` differs: the broker remembers another channel of that name."""
    wanted = channel.filled
    if {name.lower() for name in filled} != {name.lower() for name in wanted}:
        shown = ", ".join(f"{name} IS {source}" for name, source in wanted.items()) or "none"
        raise FilledOtherwise(
            f"{channel.name}: name in `filled` the parameters that were filled in for the subscriber: {shown}", wanted
        )


def check_class(channel: Channel, values: Sequence[ParameterValue], permission: str) -> None:
    """Raises InvalidValue if a parameter that is `IS CLASS` has a value other than `permission`."""
    for parameter, value in zip(channel.parameters, values, strict=True):
        if parameter.filled_by is FilledBy.CLASS and value != permission:
            raise InvalidValue(
                f"{channel.name}: {parameter.name} is the permission class, {permission!r}, not {value!r}"
            )
