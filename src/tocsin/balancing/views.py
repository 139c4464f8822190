"""The network as placement policies see it (pure values)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from tocsin.coordinates.coordinate import Coordinate
from tocsin.model.location import Location
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.subscription_keys import KeyText

_NOTHING: Mapping[KeyText, int] = MappingProxyType({})


def _all_alike(_subscription: KeyText) -> float:
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

    Subscribers that were placed a moment ago and have not arrived yet count in `connections` and `reserved`.
    """

    name: str
    location: Location | None = None
    capacity: float = 1.0
    state: BrokerState = BrokerState.ACTIVE
    connections: int = 0
    load: Load = Load()
    reserved: float = 0.0
    held: Mapping[KeyText, int] = field(default_factory=lambda: _NOTHING)
    rate_of: Callable[[KeyText], float] = _all_alike
    coordinate: Coordinate | None = None

    @property
    def score(self) -> float:
        """Load divided by capacity."""
        return (self.load.total + self.reserved) / self.capacity

    @property
    def crowd(self) -> float:
        """Connections divided by capacity."""
        return self.connections / self.capacity

    def added(self, subscriptions: Iterable[KeyText]) -> float:
        """The load that a subscriber with these would add: all of them outgoing, and incoming those not held yet."""
        return sum(self.rate_of(key) * (1 if key in self.held else 2) for key in subscriptions)

    def resulting_score(self, subscriptions: Iterable[KeyText]) -> float:
        return self.score + self.added(subscriptions) / self.capacity


@dataclass(frozen=True, slots=True)
class NetworkView:
    """The brokers, by name, and the one that was chosen last."""

    brokers: tuple[BrokerView, ...]
    last_placed: str = ""
