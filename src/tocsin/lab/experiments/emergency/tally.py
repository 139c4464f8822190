"""What a run of the city counts, and whether the count is right (pure)."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from tocsin.lab.experiments.emergency.schema import CHANNELS
from tocsin.model.position import Position

#: Examples of notifications that are kept for each channel.
MOST_EXAMPLES = 2


@dataclass(slots=True)
class Hold:
    """Somebody's subscription, from when it was made until it was given up, if it was."""

    user: str
    channel: str
    begin: Position | None = None
    #: Sequences in the order in which they were handed out.
    received: array[int] = field(default_factory=lambda: array("q"))
    is_given_up: bool = False

    def begin_after(self, position: Position | None) -> None:
        """It is ours from after this position; unless something has been handed out before we were told."""
        if self.begin is None:
            self.begin = position

    def take(self, position: Position) -> None:
        if self.begin is None:
            self.begin = Position(position.epoch, position.sequence - 1)
        self.received.append(position.sequence)

    @property
    def position(self) -> Position:
        """Where it goes on after coming back."""
        assert self.begin is not None
        return Position(self.begin.epoch, self.received[-1]) if self.received else self.begin


@dataclass(slots=True)
class ChannelTally:
    subscriptions: int = 0
    notifications: int = 0
    #: From publishing a report to having a notification of it, of those who were logged in.
    delays_s: array[float] = field(default_factory=lambda: array("f"))
    examples: list[dict[str, Any]] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What was sent and what came back."""

    published: int = 0
    accepted: int = 0
    rejected: int = 0
    logins: int = 0
    logouts: int = 0
    channels: dict[str, ChannelTally] = field(default_factory=lambda: {name: ChannelTally() for name in CHANNELS})
    #: When each report was sent, to tell how long its notifications took.
    sent_at: dict[str, float] = field(default_factory=dict)
    #: From the commit of a result to having it, of those who were logged in.
    deliveries_s: array[float] = field(default_factory=lambda: array("f"))
    #: The same of each person, since they were moved; of those who were not, since somebody was.
    since_moves_s: dict[str, array[float]] = field(default_factory=dict)
    #: People who have been moved to another broker.
    movers: set[str] = field(default_factory=set)
    holds: list[Hold] = field(default_factory=list)
    #: Notifications by the broker that they came through, since the last sample.
    by_broker: Counter[str] = field(default_factory=Counter)

    def moved(self, user: str) -> None:
        self.movers.add(user)
        self.since_moves_s.pop(user, None)

    def delivered(self, user: str, delay_s: float) -> None:
        """Somebody who is logged in has a result, so long after its commit."""
        self.deliveries_s.append(delay_s)
        if self.movers:
            self.since_moves_s.setdefault(user, array("f")).append(delay_s)

    def delays_since_moves_s(self, *, of_movers: bool) -> array[float]:
        """Of all who were moved, or of all who were not.

        >>> tally = Tally()
        >>> tally.moved("ann")
        >>> for user, delay_s in (("ann", 0.5), ("bob", 0.25)):
        ...     tally.delivered(user, delay_s)
        >>> list(tally.delays_since_moves_s(of_movers=True)), list(tally.delays_since_moves_s(of_movers=False))
        ([0.5], [0.25])
        """
        found = array("f")
        for user, delays_s in self.since_moves_s.items():
            if (user in self.movers) == of_movers:
                found.extend(delays_s)
        return found

    @property
    def notifications(self) -> int:
        return sum(channel.notifications for channel in self.channels.values())

    @property
    def silent_channels(self) -> list[str]:
        return [name for name, channel in self.channels.items() if not channel.notifications]


@dataclass(frozen=True, slots=True)
class Audit:
    """What subscribers should have been handed, by the cluster's own results, against what they were."""

    expected: int
    lost: int
    doubled: int
    reordered: int
    misdelivered: int
    #: Subscriptions that ended at the cluster while somebody held them; what they would have brought is not known.
    ended: int = 0

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.misdelivered or self.ended)

    def to_json(self) -> dict[str, int]:
        return asdict(self)


def audit(holds: Iterable[Hold], results: Mapping[int, Iterable[int]]) -> Audit:
    """Compare what each was handed with all results of its subscription, by epoch, that came while it was held.

    Of one that was given up, results after the last that was handed out may or may not have come in time; if its
    subscription has ended, there are none to compare with. No other may have ended.

    >>> ann = Hold("ann", "C", Position(7, 3), array("q", [4, 5, 5]))
    >>> audit([ann], {7: [3, 4, 5, 6]}).to_json()
    {'expected': 3, 'lost': 1, 'doubled': 1, 'reordered': 0, 'misdelivered': 0, 'ended': 0}
    """
    sequences = {epoch: np.unique(np.fromiter(found, np.int64)) for epoch, found in results.items()}
    nothing = np.empty(0, np.int64)
    expected = lost = doubled = reordered = misdelivered = 0
    ended: set[int] = set()
    for hold in holds:
        if hold.begin is None:
            continue  # Never taken by a broker, so nothing was promised.
        if hold.begin.epoch not in sequences:
            if not hold.is_given_up:
                ended.add(hold.begin.epoch)
            continue
        wanted = sequences[hold.begin.epoch]
        wanted = wanted[wanted > hold.begin.sequence]
        if hold.is_given_up:
            wanted = wanted[wanted <= hold.position.sequence]
        received = np.frombuffer(hold.received, np.int64) if hold.received else nothing
        got = np.unique(received)
        expected += len(wanted)
        lost += len(np.setdiff1d(wanted, got, assume_unique=True))
        misdelivered += len(np.setdiff1d(got, wanted, assume_unique=True))
        doubled += len(received) - len(got)
        reordered += int(np.count_nonzero(np.diff(received) < 0))
    return Audit(expected, lost, doubled, reordered, misdelivered, len(ended))


def percentiles_s(delays_s: array[float]) -> dict[str, float] | None:
    """
    >>> percentiles_s(array("f", range(101)))
    {'p50': 50.0, 'p95': 95.0, 'p99': 99.0, 'max': 100.0}
    """
    if not delays_s:
        return None
    found = np.percentile(np.frombuffer(delays_s, np.float32), [50, 95, 99, 100])
    return {name: round(float(value), 3) for name, value in zip(("p50", "p95", "p99", "max"), found, strict=True)}
