"""Round trips between brokers and subscribers: measured ones, and estimates from their coordinates (pure).

Nothing is stored: brokers report everything again when the coordinator has begun anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import median

from tocsin.coordinates.coordinate import Coordinate, estimate_ms
from tocsin.protocol.pings import MAX_PEERS


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """From one broker to another. `answered` is false if the last ping was not answered: then nothing was measured, and
    the estimate says nothing either."""

    source: str
    destination: str
    measured_ms: float | None = None
    measured_at_s: float | None = None
    estimated_ms: float | None = None
    answered: bool = True

    @property
    def error(self) -> float | None:
        """How far off the estimate is, relative to what was measured."""
        if self.measured_ms is None or self.estimated_ms is None:
            return None
        return abs(self.estimated_ms - self.measured_ms) / self.measured_ms


class RoundTrips:
    def __init__(self) -> None:
        self._coordinates: dict[str, Coordinate] = {}
        #: From each broker to its peers: what was measured last, and when.
        self._measured: dict[str, dict[str, tuple[float | None, float]]] = {}
        #: The brokers, in an order that has nothing to do with their names, and where each stands in it.
        self._ring: list[tuple[str, str]] = []
        self._numbers: dict[str, int] = {}
        #: The peers of those that have asked since the brokers changed, with their versions.
        self._peers: dict[str, tuple[dict[str, str], str]] = {}

    # Brokers

    def know(self, brokers: Mapping[str, str]) -> None:
        """These are the brokers that can be measured now, by name, with their addresses."""
        self._ring = sorted(brokers.items(), key=lambda one: hashlib.sha256(one[0].encode()).digest())
        self._numbers = {name: number for number, (name, _) in enumerate(self._ring)}
        self._peers = {}

    def forget(self, broker: str) -> None:
        self._coordinates.pop(broker, None)
        self._measured.pop(broker, None)
        for peers in self._measured.values():
            peers.pop(broker, None)

    def peers_of(self, broker: str, seen: str = "") -> tuple[dict[str, str], str] | None:
        """The brokers that this one measures, with their addresses, and a version that changes with them; None if that
        is the version which the broker has `seen`. With many brokers they are some, at distances that grow by a factor
        in a random order: from anyone to anyone it is a few steps."""
        if (known := self._peers.get(broker)) is None:
            known = self._peers[broker] = self._choose_peers(broker)
        return None if known[1] == seen else known

    def _choose_peers(self, broker: str) -> tuple[dict[str, str], str]:
        count, at = len(self._ring), self._numbers.get(broker, 0)
        growing = (round(count ** (number / MAX_PEERS)) for number in range(MAX_PEERS))
        steps = islice(dict.fromkeys([*growing, *range(1, count)]), MAX_PEERS)
        peers = dict(sorted(self._ring[(at + step) % count] for step in steps if step < count))
        return peers, hashlib.sha256(repr(peers).encode()).hexdigest()[:16]

    def reported(
        self, now_s: float, broker: str, coordinate: Coordinate | None, measured_ms: Mapping[str, float | None]
    ) -> None:
        """A broker's report. Peers that are not known are left out."""
        if coordinate is not None:
            self._coordinates[broker] = coordinate
        known = self._measured.setdefault(broker, {})
        for peer, round_trip_ms in measured_ms.items():
            if peer in self._numbers and peer != broker:
                known[peer] = (round_trip_ms, now_s)

    def coordinate_of(self, broker: str) -> Coordinate | None:
        return self._coordinates.get(broker)

    def between(self, source: str, destination: str) -> RoundTrip:
        measured_ms, at_s = self._measured.get(source, {}).get(destination, (None, None))
        here, there = self._coordinates.get(source), self._coordinates.get(destination)
        estimated_ms = None if here is None or there is None else estimate_ms(here, there)
        return RoundTrip(
            source, destination, measured_ms, at_s, estimated_ms, answered=at_s is None or measured_ms is not None
        )

    def all(self, brokers: Iterable[str], source: str = "") -> list[RoundTrip]:
        """Between each two brokers, or from one of them to the others; sorted."""
        names = sorted(brokers)
        return [self.between(one, other) for one in names if source in ("", one) for other in names if other != one]

    @property
    def median_error(self) -> float | None:
        """Of the estimates, over what was measured; None if nothing was."""
        pairs = (self.between(source, peer) for source, peers in self._measured.items() for peer in peers)
        errors = [error for one in pairs if (error := one.error) is not None]
        return median(errors) if errors else None
