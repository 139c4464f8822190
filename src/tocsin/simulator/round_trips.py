"""Simulated round trips: between sites, and from each subscriber to its site (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tocsin.broker.core.peers import Peers
from tocsin.client.core.measuring import Measuring
from tocsin.coordinates.located import Located
from tocsin.errors import InvalidValue
from tocsin.protocol.pings import PingAnswer
from tocsin.simulator.chance import Dice, stream
from tocsin.simulator.scenario import Sites


class Measurable(Protocol):
    """A broker, as pings see it."""

    number: int
    name: str
    url: str
    is_up: bool
    peers: Peers


class SimulatedRoundTrips:
    """Brokers are at the sites in turn; the seed says at which each subscriber is, and how far from it."""

    def __init__(self, sites: Sites, subscribers: int, seed: int) -> None:
        chance = stream(seed, "sites")
        self._between_ms = sites.round_trips_ms
        self._jitter = sites.jitter
        self._site_of = chance.integers(len(sites.round_trips_ms), size=subscribers)
        self._access_ms = chance.uniform(*sites.access_ms, subscribers)
        self._dice = Dice(seed, "pings")

    def of(self, subscriber: int, broker: int) -> float:
        """The true round trip, which a ping takes at least."""
        return self._between_ms[int(self._site_of[subscriber])][self._site(broker)] + float(self._access_ms[subscriber])

    def measure_peer(self, broker: Measurable, others: Mapping[str, Measurable]) -> None:
        """What a broker does once a second."""
        if (chosen := broker.peers.next()) is None:
            return
        peer = others[chosen[0]]
        if peer.is_up:
            taken_ms = self._taken_ms(self._between_ms[self._site(broker.number)][self._site(peer.number)])
            broker.peers.measured(peer.name, peer.peers.coordinate, taken_ms)
        else:
            broker.peers.failed(peer.name)

    def look_around(self, subscriber: int, first: Measurable, others: Mapping[str, Measurable]) -> Located | None:
        """What a subscriber does before it is placed: it measures a broker, and some that this one names."""
        measuring = Measuring(self._dice)
        measuring.connected(first.name, first.url)
        located: Located | None = None
        while (ping := measuring.next(0.0)) is not None:
            broker = others[ping.broker]
            if not broker.is_up:
                located = measuring.failed(ping, 0.0) or located
                continue
            answer = PingAnswer(broker.name, broker.peers.coordinate, dict(broker.peers.urls))
            try:
                located = measuring.answered(ping, answer, self._taken_ms(self.of(subscriber, broker.number)), 0.0)
            except InvalidValue:  # It took longer than counts.
                located = measuring.failed(ping, 0.0) or located
        return located

    def _site(self, broker: int) -> int:
        return broker % len(self._between_ms)

    def _taken_ms(self, true_ms: float) -> float:
        """Nothing is faster than the network, and some pings wait."""
        return true_ms * (1 + self._jitter * self._dice.random())
