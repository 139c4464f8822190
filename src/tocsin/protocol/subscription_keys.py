"""Subscription keys, which make two backend subscriptions the same, and their texts (pure)."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterable, Mapping
from typing import NewType

import msgspec

from tocsin.errors import InvalidValue
from tocsin.model.catalogue import ParameterValue
from tocsin.model.people import fingerprint

#: A subscription key as one text: the JSON of [channel, parameters, permission], with parameters in order. Equal texts
#: are the same subscription, and 1, 1.0 and true stay three values.
KeyText = NewType("KeyText", str)

#: Names of existing channels have at most 64 characters.
MAX_CHANNEL_LENGTH = 255
_MIN_INT, _MAX_INT = -(1 << 63), (1 << 63) - 1

#: Digits of a number in an error.
_MAX_SHOWN = 40

_encoder = msgspec.json.Encoder(order="sorted")


class SubscriptionKey(msgspec.Struct, frozen=True):
    """Two subscriptions with equal keys are the same, as far as this is known before the cluster has answered.

    `parameters` is JSON with sorted names: as Python values, 1, 1.0 and true would be equal.

    Brokers make and look up a key for each message: a struct does both in a third of a dataclass's time.
    """

    channel: str
    parameters: str
    permission: str
    #: The parameters that the broker filled in with the connected user, in lower case and sorted. A value that a user
    #: gave is never the same as one that was filled in, so that nobody gets another user's results by naming them.
    filled: tuple[str, ...] = ()

    @staticmethod
    def of(
        channel: str, parameters: Mapping[str, ParameterValue], permission: str, filled: Iterable[str] = ()
    ) -> SubscriptionKey:
        names = tuple(sorted(name.lower() for name in filled)) if filled else ()
        return SubscriptionKey(channel, _encode(parameters), permission, names)

    @staticmethod
    def folded(channel: str, parameters: Mapping[str, ParameterValue]) -> SubscriptionKey:
        """A key that tells a device's own subscriptions apart: case of names makes no difference, and 5 is 5.0; but
        true is not 1.

        >>> SubscriptionKey.folded("C", {"a": 5}) == SubscriptionKey.folded("c", {"A": 5.0})
        True
        """
        values = {name.lower(): _whole(value) for name, value in parameters.items()}
        return SubscriptionKey(channel.lower(), _encode(values), "")

    def stored(self) -> SubscriptionKey:
        """The key as it is stored and reported: it does not say which parameters were filled in; that is determined
        anew."""
        return SubscriptionKey(self.channel, self.parameters, self.permission) if self.filled else self

    def names_one_of(self, people: Collection[str]) -> bool:
        """Whether one of its values names one of these people, given as fingerprints of their names."""
        texts = (one for one in self.parameter_values().values() if isinstance(one, str))
        return any(fingerprint(one) in people for one in texts)

    def parameter_values(self) -> dict[str, ParameterValue]:
        values: dict[str, ParameterValue] = msgspec.json.decode(self.parameters)
        return values


def check_key(channel: str, parameters: Mapping[str, ParameterValue]) -> None:
    """Raises InvalidValue for what can't be stored and reported. Brokers check what subscribers ask for, and the
    coordinator what brokers report: if it took less than they do, one subscription would hold up a whole report.

    >>> check_key("C", {"x": 1e19})
    >>> check_key("C", {"x": 10**19})
    Traceback (most recent call last):
    tocsin.errors.InvalidValue: parameter x of channel C: 10000000000000000000 has over 64 bits; write it like 1e19
    """
    if len(channel) > MAX_CHANNEL_LENGTH:
        raise InvalidValue(f"channel: {len(channel)} characters, at most {MAX_CHANNEL_LENGTH} are allowed")
    for name, value in parameters.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidValue(f"parameter {name} of channel {channel}: {value} is not a finite number")
        if isinstance(value, int) and not _MIN_INT <= value <= _MAX_INT:
            raise InvalidValue(
                f"parameter {name} of channel {channel}: {_short(value)} has over 64 bits; write it like 1e19"
            )


def key_text(channel: str, parameters: Mapping[str, ParameterValue], permission: str) -> KeyText:
    """The key as text. Equal texts are one object: a hundred thousand sessions with the same subscription share it.

    >>> key_text("C", {"b": 1, "a": True}, "staff")
    '["C",{"a":true,"b":1},"staff"]'
    """
    return KeyText(sys.intern(_encode([channel, parameters, permission])))


def key_fields(text: KeyText) -> tuple[str, dict[str, ParameterValue], str]:
    """Channel, parameters and permission class."""
    channel, parameters, permission = msgspec.json.decode(text)
    return channel, parameters, permission


def channel_of(text: KeyText) -> str:
    """The channel alone, without reading the rest. Names of channels have no quotes.

    >>> channel_of(key_text("C", {"a": "b"}, ""))
    'C'
    """
    return text.split('"', 2)[1]


def _short(number: int) -> str:
    written = str(number)
    return written if len(written) <= _MAX_SHOWN else f"{written[:_MAX_SHOWN]}…"


def _encode(value: object) -> str:
    return _encoder.encode(value).decode()


def _whole(value: ParameterValue) -> ParameterValue:
    return int(value) if isinstance(value, float) and value.is_integer() else value
