"""The broker's peers: which one to measure next, and the broker's own coordinate that follows (pure).

The coordinator names the peers. Subscribers' measurements never change a broker's coordinate: mobile ones would make
all coordinates unsteady.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice

from tocsin.coordinates.coordinate import Coordinate
from tocsin.coordinates.vivaldi import Vivaldi
from tocsin.model.chance import Chance
from tocsin.protocol.pings import MAX_PEERS
from tocsin.protocol.subscribers import is_name


@dataclass(frozen=True, slots=True)
class Measured:
    """The broker's coordinate, and the round trips to peers since the last report; None: the peer did not answer."""

    coordinate: Coordinate | None
    round_trips_ms: Mapping[str, float | None]


class Peers:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._vivaldi = Vivaldi(chance)
        self._urls: Mapping[str, str] = {}
        self._names: tuple[str, ...] = ()
        self._fresh_ms: dict[str, float | None] = {}
        #: The coordinate that the coordinator knows.
        self._reported: Coordinate | None = None
        #: The version of `urls`, as the coordinator gave it.
        self.seen = ""

    @property
    def coordinate(self) -> Coordinate:
        """As others may know it."""
        return self._vivaldi.coordinate.rounded()

    @property
    def urls(self) -> Mapping[str, str]:
        """The peers' addresses, by name."""
        return self._urls

    def learn(self, urls: Mapping[str, str], version: str) -> None:
        """Peers come and go. What was measured to those that are gone is forgotten. More than a heartbeat has room for
        are left out."""
        known = islice(((name, url) for name, url in sorted(urls.items()) if is_name(name)), MAX_PEERS)
        self._urls, self.seen = dict(known), version
        self._names = tuple(self._urls)
        self._vivaldi.keep_only(self._names)
        self._fresh_ms = {name: one for name, one in self._fresh_ms.items() if name in self._urls}

    def next(self) -> tuple[str, str] | None:
        """The name and address of the one to measure now: any, all equally likely."""
        if not self._names:
            return None
        name = self._names[self._chance.randrange(len(self._names))]
        return name, self._urls[name]

    def measured(self, peer: str, coordinate: Coordinate, round_trip_ms: float) -> None:
        """Raises InvalidValue and changes nothing if that is no round trip."""
        if peer in self._urls:
            self._fresh_ms[peer] = round(self._vivaldi.measured(peer, coordinate, round_trip_ms), 3)

    def failed(self, peer: str) -> None:
        """It did not answer. Its coordinate would estimate a round trip all the same, so the coordinator is told."""
        if peer in self._urls:
            self._fresh_ms[peer] = None

    def unreported(self) -> Measured:
        """What the coordinator does not know yet."""
        coordinate = self.coordinate
        return Measured(coordinate if coordinate != self._reported else None, dict(self._fresh_ms))

    def reported(self, measured: Measured) -> None:
        """The coordinator knows this; what was measured since goes with the next report."""
        self._reported = measured.coordinate or self._reported
        for peer, round_trip_ms in measured.round_trips_ms.items():
            if peer in self._fresh_ms and self._fresh_ms[peer] == round_trip_ms:
                del self._fresh_ms[peer]

    def untold(self) -> None:
        """The coordinator knows nothing any more: it has begun anew."""
        self._reported, self.seen = None, ""
