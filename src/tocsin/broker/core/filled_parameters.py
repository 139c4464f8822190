"""Parameters that the broker fills in from the connected user: those of each channel, as far as is known (pure).

The cluster decides: each acquisition names the parameters that were filled in. If the channel has other ones by now, or
they were not known yet, the refusal names them. So nothing has to be asked beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.errors import Forbidden
from tocsin.model.catalogue import FilledBy
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Channels that are remembered; a forgotten one costs a refusal and a second call.
_MAX_CHANNELS = 10_000


class Filling:
    def __init__(self) -> None:
        self._channels: dict[str, Mapping[str, str]] = {}

    def learn(self, channel: str, filled: Mapping[str, str]) -> None:
        """The cluster says which of a channel's parameters are filled in, and with what."""
        if dict(filled) == self._channels.pop(channel.lower(), {}) == {}:
            return
        if len(self._channels) >= _MAX_CHANNELS:
            del self._channels[next(iter(self._channels))]
        self._channels[channel.lower()] = dict(filled)

    def fill(self, key: SubscriptionKey, user: str) -> SubscriptionKey:
        """`key` with the parameters filled in for `user`. Raises Forbidden if it names somebody else.

        >>> filling = Filling()
        >>> filling.learn("NearMe", {"user_id": "USER"})
        >>> filling.fill(SubscriptionKey.of("NearMe", {}, ""), "eve").parameters
        '{"user_id":"eve"}'
        >>> filling.fill(SubscriptionKey.of("NearMe", {"user_id": "bob"}, ""), "eve")
        Traceback (most recent call last):
        tocsin.errors.Forbidden: NearMe: user_id is your own name, 'eve'; leave it out
        """
        filled = self._channels.get(key.channel.lower()) if self._channels else None
        if not filled and not key.filled:
            return key
        values = {name: value for name, value in key.parameter_values().items() if name.lower() not in key.filled}
        for name, source in (filled or {}).items():
            own = user if source == FilledBy.USER else key.permission
            given = [spelt for spelt in values if spelt.lower() == name.lower()]
            if any(values[spelt] != own for spelt in given):
                what = "name" if source == FilledBy.USER else "permission class"
                raise Forbidden(f"{key.channel}: {name} is your own {what}, {own!r}; leave it out")
            for spelt in given:
                del values[spelt]
            values[name] = own
        return SubscriptionKey.of(key.channel, values, key.permission, filled or ())
