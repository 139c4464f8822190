"""The load of each broker, from its sessions, and the view of it that policies decide on (pure).

With data rates λ of backend subscriptions, a broker's incoming load is the sum of λ over the distinct ones it holds,
its outgoing load the sum over the holds of its connected subscribers. Each change of a session updates both; when rates
change, they are summed anew.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tocsin.balancing.views import Load
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.registry.records import SessionRecord
from tocsin.protocol.subscription_keys import KeyText

_NOTHING: Mapping[KeyText, int] = MappingProxyType({})


@dataclass(slots=True)
class _Carried:
    """The load of one broker. `version` is that of the rates which the sums were made with."""

    held: dict[KeyText, int] = field(default_factory=dict)
    #: Only the connected holders.
    sent: dict[KeyText, int] = field(default_factory=dict)
    subscribers: int = 0
    incoming: float = 0.0
    outgoing: float = 0.0
    version: int = 0


class Loads:
    """Loads and numbers of subscribers by broker, kept current as sessions change. The rates of subscriptions that
    nobody holds any more are forgotten."""

    def __init__(self, rates: Rates) -> None:
        self._rates = rates
        self._carried: dict[str, _Carried] = {}
        #: How many brokers fetch each subscription.
        self._fetched_by: dict[KeyText, int] = {}

    def replace(self, before: SessionRecord | None, after: SessionRecord | None) -> None:
        """A session has changed from `before` to `after`; None: it did not exist, or has ended."""
        if before is not None and after is not None and _weighs_the_same(before, after):
            return
        # The new holds are added before the old ones are removed, so that those in both keep a holder throughout.
        if after is not None and after.owner:
            self._add(after)
        if before is not None and before.owner:
            self._remove(before)

    def of(self, broker: str) -> Load:
        carried = self._current(broker)
        return Load(carried.incoming, carried.outgoing) if carried else Load()

    def forecast(self, broker: str) -> tuple[float, float] | None:
        """The load that was expected for the last window with the broker's present subscribers, and the one that came;
        None if nothing was expected."""
        carried = self._carried.get(broker)
        return self._rates.forecast(carried.held, carried.sent) if carried else (0.0, 0.0)

    def held(self, broker: str) -> Mapping[KeyText, int]:
        carried = self._carried.get(broker)
        return MappingProxyType(carried.held) if carried else _NOTHING

    def subscribers(self, broker: str) -> int:
        carried = self._carried.get(broker)
        return carried.subscribers if carried else 0

    @property
    def owners(self) -> Collection[str]:
        """Brokers that keep sessions, also brokers that are gone."""
        return self._carried.keys()

    @property
    def all_subscribers(self) -> int:
        return sum(one.subscribers for one in self._carried.values())

    def _current(self, broker: str) -> _Carried | None:
        """The broker's load, with the current rates. The sums are counted anew only when somebody asks for them."""
        carried = self._carried.get(broker)
        if carried is not None and carried.version != self._rates.version:
            carried.incoming = self._rates.sum_of(carried.held)
            carried.outgoing = self._rates.weighed(carried.sent)
            carried.version = self._rates.version
        return carried

    def _add(self, session: SessionRecord) -> None:
        carried = self._carried.get(session.owner)
        if carried is None:
            carried = self._carried[session.owner] = _Carried(version=self._rates.version)
        held, sent, rate_of, is_connected = carried.held, carried.sent, self._rates.of, session.connected
        for one in session.subscriptions:
            key = one.key
            count = held.get(key, 0)
            held[key] = count + 1
            if count:
                rate = rate_of(key)
            else:
                brokers = self._fetched_by.get(key, 0)
                self._fetched_by[key] = brokers + 1
                if not brokers:
                    self._rates.hold(key)
                rate = rate_of(key)
                carried.incoming += rate
            if is_connected:
                sent[key] = sent.get(key, 0) + 1
                carried.outgoing += rate
        carried.subscribers += 1

    def _remove(self, session: SessionRecord) -> None:
        carried = self._carried[session.owner]
        held, sent, rate_of, is_connected = carried.held, carried.sent, self._rates.of, session.connected
        for one in session.subscriptions:
            key = one.key
            rate = rate_of(key)
            if _is_last(held, key):
                carried.incoming -= rate
                if _is_last(self._fetched_by, key):
                    self._rates.forget(key)
            if is_connected:
                _is_last(sent, key)
                carried.outgoing -= rate
        carried.subscribers -= 1
        if not carried.subscribers:
            # The sums start again at zero, without rounding errors.
            del self._carried[session.owner]


def _weighs_the_same(before: SessionRecord, after: SessionRecord) -> bool:
    """Most changes are of positions alone."""
    if before.owner != after.owner or before.connected != after.connected:
        return False
    if before.subscriptions is after.subscriptions:
        return True
    return [held.key for held in before.subscriptions] == [held.key for held in after.subscriptions]


def _is_last(counts: dict[KeyText, int], key: KeyText) -> bool:
    """Subtract one from the count; returns whether that was the last."""
    count = counts[key] - 1
    if count:
        counts[key] = count
        return False
    del counts[key]
    return True
