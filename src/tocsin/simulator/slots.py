"""The subscriptions of subscribers' programs, their positions, and the connections that bring their results.

A slot is one subscriber's room for a subscription: see `Workload`. The memory of a million programs is in arrays.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping

from tocsin.client.core.events import SubscribeAsked, UnsubscribeAsked
from tocsin.model.position import Position
from tocsin.protocol.messages import Subscribe, Subscribed
from tocsin.simulator.cluster import Cluster
from tocsin.simulator.deliveries import Deliveries, Mark, SingleDeliveries
from tocsin.simulator.tally import Tally
from tocsin.simulator.workload import Workload


class Slots:
    """`broker_at` maps open connections to their brokers."""

    def __init__(
        self,
        workload: Workload,
        cluster: Cluster,
        deliveries: Deliveries,
        tally: Tally,
        broker_at: Mapping[int, int],
    ) -> None:
        self._cluster = cluster
        self._deliveries = deliveries
        self._tally = tally
        self._broker_at = broker_at
        self._offsets = array("q", workload.offsets.tobytes())
        self._holds = array("i", workload.holds.tobytes())
        #: The id that the subscription in each slot had last; 0 until it is subscribed to.
        self._ids = array("q", bytes(8 * len(self._holds)))
        #: The connection over which each slot is live, and a second one while its subscriber moves.
        self._live_at = array("q", bytes(8 * len(self._holds)))
        self._live_too: dict[int, int] = {}
        #: By subscriber and connection: marks of slots that were live over another connection when this one was asked.
        self._marks: dict[int, dict[int, dict[int, Mark]]] = {}
        self._given_up: dict[int, set[int]] = {}

    def held_by(self, subscriber: int) -> list[int]:
        """The backend subscriptions whose results it gets."""
        return sorted(self._holds[slot] for slot in self._of(subscriber) if self._live_at[slot])

    # Wishes of programs

    def wanted(self, subscriber: int) -> list[SubscribeAsked]:
        return [self._ask(slot) for slot in self._of(subscriber)]

    def exchange(self, subscriber: int, part: float, wanted: int) -> tuple[UnsubscribeAsked, SubscribeAsked] | None:
        """Give up one subscription for another, if it is there. A subscription that was given up is not taken again: a
        request is never used again."""
        slots = self._of(subscriber)
        if not slots or not self._live_at[slot := slots[int(part * len(slots))]]:
            return None
        given_up = self._given_up.setdefault(subscriber, set())
        if wanted in given_up or self._slot(subscriber, wanted) is not None:
            return None
        while self._live_at[slot]:
            self._leave(self._live_at[slot], slot)
        backend = self._holds[slot]
        given_up.add(backend)
        for marks in self._marks.get(subscriber, {}).values():
            marks.pop(slot, None)
        self._ids[slot] = 0
        self._holds[slot] = wanted
        self._tally.unsubscribes += 1
        return UnsubscribeAsked(backend + 1), self._ask(slot)

    # Messages of brokers

    def greet(self, subscriber: int, connection: int) -> None:
        """Ask a broker for everything, each after its program's position. A moving subscriber still gets results from
        its current broker, and may be ahead of that position soon."""
        if live := [slot for slot in self._of(subscriber) if self._live_at[slot]]:
            marks = {slot: self._deliveries.mark(slot, self._holds[slot]) for slot in live}
            self._marks.setdefault(subscriber, {})[connection] = marks

    def ask(self, subscriber: int, connection: int, message: Subscribe) -> None:
        """Ask a broker for a subscription that was exchanged while its subscriber moves."""
        slot = self._slot(subscriber, message.request - 1)
        if slot is not None and self._live_at[slot] not in (0, connection):
            marks = self._marks.setdefault(subscriber, {}).setdefault(connection, {})
            marks[slot] = self._deliveries.mark(slot, self._holds[slot])

    def join(self, subscriber: int, connection: int, message: Subscribed) -> None:
        """A broker has taken a subscription, and sends its results from now on."""
        backend = message.request - 1
        slot = self._slot(subscriber, backend)
        if slot is None:
            return
        live_at = self._live_at[slot]
        if not live_at:
            self._live_at[slot] = connection
        elif connection in (live_at, self._live_too.get(slot)):
            return
        else:
            self._live_too[slot] = connection
        known, broker = self._ids[slot], self._broker_at[connection]
        mark = self._marks.get(subscriber, {}).get(connection, {}).pop(slot, None)
        if live_at and mark is None:
            mark = self._deliveries.mark(slot, backend)
        is_carried_on = known == message.subscription
        self._deliveries.join(broker, connection, slot, backend, message.position, mark, is_carried_on)
        if not known:
            self._tally.subscribes += 1
        self._ids[slot] = message.subscription

    def delivered(self, subscriber: int, connection: int, at: Position, size_bytes: int) -> None:
        assert isinstance(self._deliveries, SingleDeliveries)
        slot = self._slot(subscriber, self._cluster.backend_of(at.epoch))
        if slot is not None:
            self._deliveries.delivered(self._broker_at[connection], connection, slot, at.sequence, size_bytes)

    def end(self, subscriber: int, connection: int) -> None:
        """The connection is about to end: no later result comes over it."""
        if (by_connection := self._marks.get(subscriber)) is not None:
            by_connection.pop(connection, None)
            if not by_connection:
                del self._marks[subscriber]
        for slot in self._of(subscriber):
            if self._live_at[slot] == connection or self._live_too.get(slot) == connection:
                self._leave(connection, slot)

    # Parts

    def _leave(self, connection: int, slot: int) -> None:
        if self._live_at[slot] == connection:
            self._live_at[slot] = self._live_too.pop(slot, 0)
        else:
            del self._live_too[slot]
        self._deliveries.leave(self._broker_at[connection], connection, slot, self._holds[slot])

    def _ask(self, slot: int) -> SubscribeAsked:
        """The request is the backend subscription's number, from 1."""
        backend = self._holds[slot]
        plain, subscription = self._cluster.subscribes[backend], self._ids[slot]
        position = f"{subscription}-{self._deliveries.position(slot)}" if subscription else ""
        return SubscribeAsked(backend + 1, plain.channel, plain.parameters, position)

    def _of(self, subscriber: int) -> range:
        return range(self._offsets[subscriber], self._offsets[subscriber + 1])

    def _slot(self, subscriber: int, backend: int) -> int | None:
        try:
            return self._holds.index(backend, self._offsets[subscriber], self._offsets[subscriber + 1])
        except ValueError:
            return None
