"""Which brokers a subscriber measures, and when, and where in the network it is therefore (pure).

It measures its own broker and a few others: all of them after it has connected, then one every five seconds, then more
and more seldom while nothing changes. What contradicts earlier measurements is measured again at once; if it is so
again, the network has changed, and everything is measured anew.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from tocsin.coordinates.coordinate import Coordinate, check_round_trip_ms
from tocsin.coordinates.leaves import locate
from tocsin.coordinates.located import Located
from tocsin.coordinates.vivaldi import FILTERED_SAMPLES
from tocsin.model.chance import Chance
from tocsin.protocol.pings import PingAnswer

#: Its own broker and five others.
MAX_BROKERS = 6
EVERY_S = 5.0
SELDOM_S = 60.0
#: A round trip that differs by more than both contradicts the earlier ones.
_CONTRADICTS = 0.5
_CONTRADICTS_MS = 20.0
#: Round trips that differ by no more than one of these are not told anew.
_SAME = 0.1
_SAME_MS = 2.0


@dataclass(frozen=True, slots=True)
class Ping:
    """Measure this broker. Its answer should name other brokers if it `wants_peers`."""

    broker: str
    url: str
    wants_peers: bool


@dataclass(slots=True)
class _Measured:
    url: str
    coordinate: Coordinate | None = None
    samples_ms: deque[float] = field(default_factory=lambda: deque(maxlen=FILTERED_SAMPLES))
    #: The last round trip contradicted the earlier ones.
    is_doubtful: bool = False

    @property
    def usual_ms(self) -> float:
        return median(self.samples_ms)

    def is_contradicted_by(self, round_trip_ms: float) -> bool:
        if not self.samples_ms:
            return False
        off_ms = abs(round_trip_ms - self.usual_ms)
        return off_ms > _CONTRADICTS_MS and off_ms > _CONTRADICTS * self.usual_ms


class Measuring:
    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._own = ""
        self._brokers: dict[str, _Measured] = {}
        #: Those to be measured now, in this order.
        self._queue: deque[str] = deque()
        #: Those that are measured one by one later.
        self._turns: deque[str] = deque()
        self._every_s = EVERY_S
        self._due_s = math.inf
        self._located: Located | None = None

    def connected(self, broker: str, url: str) -> None:
        """There is a new connection, perhaps from another network: everything is measured anew."""
        self._own = broker
        self._brokers = {broker: _Measured(url)}
        self._queue, self._turns = deque([broker]), deque()
        self._every_s, self._due_s = EVERY_S, math.inf
        self._located = None

    def next(self, now_s: float) -> Ping | None:
        """What to measure now; None if that has time."""
        if not self._queue and now_s >= self._due_s:
            if not self._turns:
                self._turns.extend(self._brokers)
            self._queue.append(self._turns.popleft())
        if not self._queue:
            return None
        broker = self._queue.popleft()
        return Ping(broker, self._brokers[broker].url, wants_peers=broker == self._own)

    @property
    def due_s(self) -> float:
        """When something is to be measured next; infinite if never, as before it has connected."""
        return -math.inf if self._queue else self._due_s

    def answered(self, ping: Ping, answer: PingAnswer, round_trip_ms: float, now_s: float) -> Located | None:
        """Returns where it is now, if that is news. Raises InvalidValue if that is no round trip."""
        check_round_trip_ms(round_trip_ms)
        one = self._brokers.get(ping.broker)
        if one is None or one.url != ping.url:
            return None  # Connected elsewhere meanwhile.
        one.coordinate = answer.coordinate
        if ping.wants_peers:
            self._take_peers(answer.peers, one.url)
        if one.is_contradicted_by(round_trip_ms):
            self._doubt(ping.broker, one, round_trip_ms)
        else:
            one.is_doubtful = False
            one.samples_ms.append(round_trip_ms)
        return self._news(now_s)

    def failed(self, ping: Ping, now_s: float) -> Located | None:
        """It did not answer. It is asked again in its turn; what was measured before counts no longer."""
        one = self._brokers.get(ping.broker)
        if one is None or one.url != ping.url:
            return None
        one.samples_ms.clear()
        return self._news(now_s)

    def _take_peers(self, peers: Mapping[str, str], own_url: str) -> None:
        """Choose some to measure beside the own broker. The token goes to no address that is less secret than ours."""
        needs_tls = own_url.startswith("https:")
        usable = {
            name: url
            for name, url in sorted(peers.items())
            if name != self._own and url.startswith("https:" if needs_tls else ("http:", "https:"))
        }
        for name in [one for one in self._brokers if one != self._own]:
            if usable.get(name) != self._brokers[name].url:
                del self._brokers[name]
        fresh = [name for name in usable if name not in self._brokers]
        while fresh and len(self._brokers) < MAX_BROKERS:
            name = fresh.pop(self._chance.randrange(len(fresh)))
            self._brokers[name] = _Measured(usable[name])
            self._queue.append(name)
        self._queue = deque(name for name in self._queue if name in self._brokers)
        self._turns = deque(name for name in self._turns if name in self._brokers)

    def _doubt(self, broker: str, one: _Measured, round_trip_ms: float) -> None:
        if not one.is_doubtful:
            one.is_doubtful = True
            self._queue.appendleft(broker)
            return
        one.is_doubtful = False
        for other in self._brokers.values():
            other.samples_ms.clear()
        one.samples_ms.append(round_trip_ms)
        self._queue = deque(name for name in self._brokers if name != broker)

    def _news(self, now_s: float) -> Located | None:
        if self._queue:
            return None
        located = self._locate()
        is_news = located is not None and not _is_about(located, self._located)
        if is_news:
            self._located, self._every_s = located, EVERY_S
        elif not self._turns:
            self._every_s = min(SELDOM_S, 2 * self._every_s)
        # With one broker alone there is nothing to choose from; others may come.
        self._due_s = now_s + (self._every_s if len(self._brokers) > 1 else SELDOM_S)
        return located if is_news else None

    def _locate(self) -> Located | None:
        """From one round trip alone nothing follows."""
        known = {name: one for name, one in self._brokers.items() if one.samples_ms and one.coordinate is not None}
        if len(known) < 2:
            return None
        anchors = [(one.coordinate, one.usual_ms) for one in known.values() if one.coordinate is not None]
        coordinate = locate(anchors, self._chance)
        return Located(coordinate.rounded(), {name: round(one.usual_ms, 3) for name, one in known.items()})


def _is_about(one: Located, other: Located | None) -> bool:
    if other is None or one.round_trips_ms.keys() != other.round_trips_ms.keys():
        return False
    return all(
        abs(round_trip_ms - before_ms) <= max(_SAME_MS, _SAME * before_ms)
        for round_trip_ms, before_ms in zip(
            one.round_trips_ms.values(), (other.round_trips_ms[name] for name in one.round_trips_ms), strict=True
        )
    )
