"""The cluster as brokers see it: what is durable, what only its memory knows, and runs that take their time.

One channel watches one dataset: each record of a topic is a result for every subscription to that topic.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from tocsin.model.position import Position
from tocsin.model.schema import ResultColumn
from tocsin.protocol.ports import BackendHold, Delivery
from tocsin.protocol.subscription_keys import SubscriptionKey

CHANNEL = "OfTopic"
TOPICS = ("a", "b", "c")
#: Few hold these at a time, so that many brokers do not have them at hand.
QUIET_TOPICS = ("d", "e")


#: The results' columns that filters speak of.
COLUMNS = (ResultColumn("severity", "INT"),)
#: Filters, with what they mean.
FILTERS: Mapping[str, Callable[[int | None], bool]] = {
    "": lambda _: True,
    "severity >= 2": lambda severity: severity is not None and severity >= 2,
    "severity = 0": lambda severity: severity == 0,
    "severity IS NULL": lambda severity: severity is None,
    "NOT severity = 1 OR severity IS NULL": lambda severity: severity != 1,
}


def severity_of(record: int) -> int | None:
    """Of five records, one after the other, each is different."""
    return None if record % 5 == 4 else record % 5


def key_for(topic: str, permission: str) -> SubscriptionKey:
    return SubscriptionKey.of(CHANNEL, {"topic": topic}, permission)


def topic_of(key: SubscriptionKey) -> str:
    return str(key.parameter_values()["topic"])


#: Subscription and record: one result before it has a position.
Row = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Result:
    subscription: int
    sequence: int
    record: int

    def delivery(self) -> Delivery:
        # Brokers look at nothing but its length, unless somebody filters it.
        wire = f"{self.subscription}-{self.sequence}".encode()
        return _RecordDelivery(self.subscription, self.sequence, wire, record=self.record)


@dataclass(frozen=True, slots=True)
class _RecordDelivery(Delivery):
    record: int = 0

    def payload(self) -> bytes:
        return msgspec.json.encode({"severity": severity_of(self.record)})


@dataclass(frozen=True, slots=True)
class Pulled:
    results: Sequence[Result]
    through: int


class Results(Protocol):
    """Committed results, as `ResultStore` keeps them."""

    @property
    def last_sequence(self) -> int: ...

    @property
    def bound(self) -> int: ...

    def commit(self, rows: Sequence[Row], bound: int) -> None: ...

    def pull(self, after: int, limit: int, keep: Callable[[Sequence[int]], Sequence[int]]) -> Pulled: ...

    def pull_subscriptions(self, positions: Mapping[int, int], limit: int) -> Pulled: ...

    def reopened(self) -> Results:
        """What a process finds that is started after this one was killed."""
        ...

    def record_at(self, position: Position) -> int:
        """The record of a result; 0 if there is no such result."""
        ...

    def all(self) -> Sequence[Result]:
        """For the check."""
        ...


@dataclass(slots=True)
class Registry:
    """Who holds what; durable. Ids are given once."""

    last_id: int = 0
    ids: dict[SubscriptionKey, int] = field(default_factory=dict)
    keys: dict[int, SubscriptionKey] = field(default_factory=dict)
    holders: dict[int, set[str]] = field(default_factory=dict)
    #: Those that have ended too, for the check.
    ever: dict[int, SubscriptionKey] = field(default_factory=dict)

    def subscribe(self, broker: str, key: SubscriptionKey) -> tuple[int, bool]:
        is_new = key not in self.ids
        if is_new:
            self.last_id += 1
            self.ids[key] = self.last_id
            self.keys[self.last_id] = self.ever[self.last_id] = key
            self.holders[self.last_id] = set()
        one = self.ids[key]
        self.holders[one].add(broker)
        return one, is_new

    def unsubscribe(self, broker: str, ids: Sequence[int]) -> list[int]:
        ended = []
        for one in ids:
            holders = self.holders.get(one, set())
            holders.discard(broker)
            if one in self.keys and not holders:
                del self.holders[one], self.ids[self.keys.pop(one)]
                ended.append(one)
        return ended

    def held_by(self, broker: str) -> list[int]:
        return [one for one, holders in self.holders.items() if broker in holders]


@dataclass(slots=True)
class _Run:
    """Under way: its window, and the subscriptions that it has read."""

    through: int
    subscriptions: dict[int, SubscriptionKey]


class ClusterSide:
    def __init__(self, rng: random.Random, results: Results) -> None:
        self._rng = rng
        self.registry = Registry()
        self.results = results
        #: Topics of records, by commit of the dataset, from 1: each record is a commit of its own.
        self.records: list[str] = []
        self.is_open = self.is_ready = True
        #: Goes up with every kill: what was under way before is lost.
        self.life = 0
        self._in_memory: dict[int, SubscriptionKey] = {}
        self._ahead = 0
        self._run: _Run | None = None

    # Living and dying

    def kill(self) -> None:
        self.life += 1
        self.is_open = self.is_ready = False
        self._run = None
        self._ahead = 0

    def start(self) -> None:
        """First what is durable is opened, and pulls are answered; some time later it is ready."""
        if not self.is_open:
            self.results = self.results.reopened()
            self.is_open = True
        elif not self.is_ready:
            self._in_memory = dict(self.registry.keys)
            self.begin_run()
            self.finish_run()
            self.is_ready = True

    # Records and runs

    def publish(self, topic: str) -> int:
        self.records.append(topic)
        return len(self.records)

    def begin_run(self) -> None:
        """Read the window and, maybe a little later, the subscriptions there are."""
        if self._run is None and self._bound() < len(self.records):
            self._run = _Run(len(self.records), dict(self._in_memory))

    def finish_run(self) -> None:
        run, self._run = self._run, None
        if run is None:
            return
        window = range(self._bound() + 1, run.through + 1)
        topics = {one: topic_of(key) for one, key in run.subscriptions.items() if one in self._in_memory}
        rows = [(one, record) for record in window for one in topics if topics[one] == self.records[record - 1]]
        if rows:
            self.results.commit(rows, run.through)
            self._ahead = 0
        else:
            self._ahead = run.through

    def _bound(self) -> int:
        return max(self._ahead, self.results.bound)

    # What brokers ask for

    def position_now(self) -> int:
        return self.results.last_sequence

    def subscribe(self, broker: str, keys: Sequence[SubscriptionKey], position: int) -> list[BackendHold]:
        """`position` was read before, maybe long before."""
        held = []
        for key in keys:
            one, is_new = self.registry.subscribe(broker, key)
            if is_new:
                self._in_memory[one] = key
            held.append(self._described(one, position))
        return held

    def unsubscribe(self, broker: str, ids: Sequence[int]) -> None:
        for one in self.registry.unsubscribe(broker, ids):
            self._in_memory.pop(one, None)

    def held(self, broker: str) -> list[BackendHold]:
        position = self.position_now()
        return [self._described(one, position) for one in self.registry.held_by(broker)]

    def pull(self, broker: str, after: int, limit: int) -> Pulled:
        return self.results.pull(
            after, limit, lambda ids: [one for one in ids if broker in self.registry.holders.get(one, ())]
        )

    def history(self, after: Mapping[int, int], limit: int) -> Pulled | None:
        """None if one of them has ended."""
        if any(one not in self.registry.keys for one in after):
            return None
        return self.results.pull_subscriptions(after, limit)

    def _described(self, one: int, position: int) -> BackendHold:
        key = self.registry.keys[one]
        return BackendHold(one, key.channel, key.parameter_values(), key.permission, position, columns=COLUMNS)
