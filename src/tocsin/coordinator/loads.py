"""Loads: sessions become what each broker carries, and that becomes a view that policies decide on (pure).

With data rates λ of backend subscriptions, a broker's incoming load is the sum of λ over the distinct ones it holds,
its outgoing load the sum over all its subscribers' holds. Both are kept up to date session by session.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tocsin.coordinator.records import Point, SessionRecord, SubscriptionKey
from tocsin.protocol.coordination import BrokerState

_NOTHING: Mapping[SubscriptionKey, int] = MappingProxyType({})


def rate_of(_subscription: SubscriptionKey) -> float:
    """λ of a backend subscription. Nobody reports rates yet, so all weigh the same; this is the one place to change."""
    return 1.0


@dataclass(frozen=True, slots=True)
class Load:
    incoming: float = 0.0
    outgoing: float = 0.0

    @property
    def total(self) -> float:
        return self.incoming + self.outgoing


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker as policies see it. `held` counts its holds by subscription; read-only, true until the next event.

    What was placed a moment ago and has not arrived yet counts in `connections` and `reserved`.
    """

    name: str
    place: Point | None = None
    capacity: float = 1.0
    state: BrokerState = BrokerState.ACTIVE
    connections: int = 0
    load: Load = Load()
    reserved: float = 0.0
    held: Mapping[SubscriptionKey, int] = field(default_factory=lambda: _NOTHING)

    @property
    def score(self) -> float:
        """Load for its capacity."""
        return (self.load.total + self.reserved) / self.capacity

    @property
    def crowd(self) -> float:
        """Connections for its capacity."""
        return self.connections / self.capacity

    def added(self, subscriptions: Iterable[SubscriptionKey]) -> float:
        """How much a subscriber with these would add: once outgoing, and incoming for what is not held yet."""
        return sum(rate_of(key) * (1 if key in self.held else 2) for key in subscriptions)

    def resulting_score(self, subscriptions: Iterable[SubscriptionKey]) -> float:
        return self.score + self.added(subscriptions) / self.capacity


@dataclass(frozen=True, slots=True)
class NetworkView:
    """The brokers, by name, and the one that was chosen last."""

    brokers: tuple[BrokerView, ...]
    last_placed: str = ""


class Loads:
    """Loads and numbers of subscribers by broker, kept current as sessions change."""

    def __init__(self) -> None:
        self._held: dict[str, dict[SubscriptionKey, int]] = {}
        self._incoming: dict[str, float] = {}
        self._outgoing: dict[str, float] = {}
        self._subscribers: dict[str, int] = {}

    def replace(self, before: SessionRecord | None, after: SessionRecord | None) -> None:
        """A session is not `before` any more but `after`; None: it was not, or is no more."""
        if before is not None and after is not None and before.owner == after.owner:
            if before.subscriptions is after.subscriptions:
                return
            # Only what differs: most changes are of positions alone.
            old = [held.key for held in before.subscriptions]
            new = [held.key for held in after.subscriptions]
            if old == new:
                return
        if before is not None and before.owner:
            self._remove(before)
        if after is not None and after.owner:
            self._add(after)

    def of(self, broker: str) -> Load:
        return Load(self._incoming.get(broker, 0.0), self._outgoing.get(broker, 0.0))

    def held(self, broker: str) -> Mapping[SubscriptionKey, int]:
        return MappingProxyType(self._held[broker]) if broker in self._held else _NOTHING

    def subscribers(self, broker: str) -> int:
        return self._subscribers.get(broker, 0)

    @property
    def all_subscribers(self) -> int:
        return sum(self._subscribers.values())

    def _add(self, session: SessionRecord) -> None:
        owner = session.owner
        held = self._held.setdefault(owner, {})
        incoming, outgoing = self._incoming.get(owner, 0.0), self._outgoing.get(owner, 0.0)
        for one in session.subscriptions:
            rate = rate_of(one.key)
            count = held.get(one.key, 0)
            held[one.key] = count + 1
            outgoing += rate
            if not count:
                incoming += rate
        self._incoming[owner], self._outgoing[owner] = incoming, outgoing
        self._subscribers[owner] = self._subscribers.get(owner, 0) + 1

    def _remove(self, session: SessionRecord) -> None:
        owner = session.owner
        held = self._held[owner]
        for one in session.subscriptions:
            rate = rate_of(one.key)
            held[one.key] -= 1
            self._outgoing[owner] -= rate
            if not held[one.key]:
                del held[one.key]
                self._incoming[owner] -= rate
        self._subscribers[owner] -= 1
        if not self._subscribers[owner]:
            # Nothing is left, nor anything left over by rounding.
            del self._held[owner], self._incoming[owner], self._outgoing[owner], self._subscribers[owner]
