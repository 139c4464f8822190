"""The subscribers: they log in and out, subscribe, follow moves, and come back when they have lost their broker.

What one of a million is doing is in arrays. A slot is one subscriber's place for a subscription: see `Workload`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tocsin.broker.core.events import (
    ConnectionLost,
    Event,
    SubscribeAsked,
    SubscriberArrived,
    UnsubscribeAsked,
)
from tocsin.model.position import Position
from tocsin.protocol.messages import (
    CLOSE_MOVED,
    Error,
    FromBroker,
    Move,
    Subscribe,
    Subscribed,
    Unsubscribed,
    Welcome,
)
from tocsin.simulator.chance import Dice
from tocsin.simulator.cluster import Cluster
from tocsin.simulator.deliveries import Deliveries, SingleDeliveries
from tocsin.simulator.kernel import Kernel
from tocsin.simulator.scenario import NetworkTiming
from tocsin.simulator.tally import Tally
from tocsin.simulator.workload import Workload

_DEVICE = "d"
_NOWHERE = -1
_NOBODY: frozenset[str] = frozenset()
_FOREVER_S = float("inf")


class Node(Protocol):
    """A broker, as far as subscribers reach it."""

    name: str
    is_up: bool

    def tell(self, event: Event) -> None: ...


class Locations(Protocol):
    """The coordinator, as far as subscribers reach it."""

    def place(self, user: str, device: str, at: tuple[float, float], avoid: frozenset[str]) -> int | None:
        """The number of a broker; None if there is none to be had now."""
        ...


def subscriber_number(subscriber: str) -> int:
    """
    >>> subscriber_number("s0000012/d")
    12
    """
    return int(subscriber[1 : subscriber.index("/")])


class Clients:
    def __init__(
        self,
        kernel: Kernel,
        network: NetworkTiming,
        workload: Workload,
        cluster: Cluster,
        deliveries: Deliveries,
        tally: Tally,
        dice: Dice,
    ) -> None:
        self._kernel = kernel
        self._delay_s = network.subscriber_delay_s
        self._retry_after_s = network.retry_after_s
        self._workload = workload
        self._cluster = cluster
        self._deliveries = deliveries
        self._tally = tally
        self._dice = dice
        self.nodes: Sequence[Node] = ()
        self.locations: Locations
        count = workload.subscribers
        self._count = count
        self._offsets = workload.offsets.tolist()
        self._holds = array("i", workload.holds.tobytes())
        #: The subscription's id in each slot; 0 until it is subscribed to.
        self._ids = array("q", bytes(8 * len(self._holds)))
        #: The slots that are being sent what comes.
        self._is_live = bytearray(len(self._holds))
        # One slot is looked up faster in these, many at once in arrays over the same memory.
        self._all_holds: NDArray[np.int32] = np.frombuffer(self._holds, np.int32)
        self._all_live: NDArray[np.bool_] = np.frombuffer(self._is_live, np.bool_)
        self._broker_of = array("h", [_NOWHERE]) * count
        #: 0: none. The remainder by `count` is whose it is.
        self._connection_of = array("q", [0]) * count
        self._connections = 0
        self._is_online = bytearray(count)
        self._is_welcomed = bytearray(count)
        #: Whether it is past the moment of making its subscriptions, and whether its hello told so.
        self._subscribes = bytearray(count)
        self._has_carried = bytearray(count)
        #: An attempt to connect counts only if no later one was begun.
        self._attempts = array("i", [0]) * count
        self._moves: dict[int, int] = {}
        self._given_up: dict[int, set[int]] = {}

    # What they do by themselves

    def log_in(self, subscriber: int) -> None:
        if not self._is_online[subscriber]:
            self._is_online[subscriber] = True
            self._tally.logins += 1
            self._ask_for_broker(subscriber, _NOBODY)

    def log_out(self, subscriber: int) -> None:
        if self._is_online[subscriber]:
            self._is_online[subscriber] = False
            self._tally.logouts += 1
            self._attempts[subscriber] += 1
            self._hang_up(subscriber)

    def subscribe(self, subscriber: int) -> None:
        """Make all subscriptions, now or with the next hello."""
        self._subscribes[subscriber] = True
        if self._is_welcomed[subscriber]:
            self._kernel.after(self._delay_s, self._ask_all, subscriber, self._connection_of[subscriber])

    def exchange(self, subscriber: int, part: float, wanted: int) -> None:
        """Give up one subscription for another, if it is there. Nobody takes up again what it has given up: its broker
        may not know yet that it has, and would go on from where it was."""
        first, last = self._offsets[subscriber], self._offsets[subscriber + 1]
        if self._is_welcomed[subscriber] and first < last:
            slot = first + int(part * (last - first))
            connection = self._connection_of[subscriber]
            self._kernel.after(self._delay_s, self._exchange, subscriber, connection, slot, wanted)

    def cut(self, broker: int) -> None:
        """A broker has died: all who were connected to it notice at once, and look for another one."""
        brokers = np.frombuffer(self._broker_of, np.int16)
        for subscriber in np.flatnonzero(brokers == broker).tolist():
            self._lose(subscriber)
            self._try_again(subscriber, frozenset({self.nodes[broker].name}))

    # What brokers tell them

    def heard(self, broker: int, connection: int, message: FromBroker) -> None:
        subscriber = connection % self._count
        if self._connection_of[subscriber] != connection:
            return
        self._tally.messages += 1
        match message:
            case Subscribed():
                self._subscribed(broker, subscriber, message)
            case Welcome():
                self._welcomed(subscriber, connection, message)
            case Unsubscribed():
                pass  # The slot was given up when this was asked for.
            case Move():
                self._moves[subscriber] = number = self._moves.get(subscriber, 0) + 1
                wait_s = self._delay_s + message.after_ms / 1000
                self._kernel.after(wait_s, self._follow, subscriber, connection, message.broker, number)
            case Error():
                pass  # The connection is closed next, or a subscription stays as it is.
            case _:
                raise AssertionError(f"no broker should say this here: {message}")

    def closed(self, broker: int, connection: int, code: int) -> None:
        subscriber = connection % self._count
        if self._connection_of[subscriber] == connection:
            self._tally.messages += 1
            self._lose(subscriber)
            self._try_again(subscriber, _NOBODY if code == CLOSE_MOVED else frozenset({self.nodes[broker].name}))

    def delivered(self, broker: int, connection: int, wires: Sequence[bytes]) -> None:
        """Take results, one by one."""
        subscriber = connection % self._count
        assert isinstance(self._deliveries, SingleDeliveries)
        if self._connection_of[subscriber] != connection:
            return
        for wire in wires:
            at = Position.parse(wire.split(b" ", 1)[0].decode())
            backend = self._cluster.backend_of(at.epoch)
            if (slot := self._slot(subscriber, backend)) is not None:
                self._deliveries.delivered(broker, slot, at.sequence, len(wire))

    # What can be seen

    def broker_of(self, subscriber: int) -> int:
        """The number of the broker it is connected to; -1 if it is to none."""
        return self._broker_of[subscriber]

    def held_by(self, subscriber: int) -> list[int]:
        """The backend subscriptions that it is being sent."""
        part = slice(self._offsets[subscriber], self._offsets[subscriber + 1])
        return sorted(self._all_holds[part][self._all_live[part]].tolist())

    # Connecting

    def _ask_for_broker(self, subscriber: int, avoid: frozenset[str]) -> None:
        self._attempts[subscriber] += 1
        self._kernel.after(self._delay_s, self._asked, subscriber, self._attempts[subscriber], avoid)

    def _asked(self, subscriber: int, attempt: int, avoid: frozenset[str]) -> None:
        if self._attempts[subscriber] != attempt:
            return
        self._tally.messages += 2
        at = self._workload.location(subscriber, self._kernel.now_s)
        broker = self.locations.place(self._name(subscriber), _DEVICE, at, avoid)
        if broker is None:
            self._try_again(subscriber, avoid)
        else:
            self._tally.placements += 1
            self._kernel.after(2 * self._delay_s, self._arrive, subscriber, attempt, broker)

    def _try_again(self, subscriber: int, avoid: frozenset[str]) -> None:
        self._attempts[subscriber] += 1
        wait_s = self._dice.up_to(self._retry_after_s)
        self._kernel.after(wait_s, self._again, subscriber, self._attempts[subscriber], avoid)

    def _again(self, subscriber: int, attempt: int, avoid: frozenset[str]) -> None:
        if self._attempts[subscriber] == attempt:
            self._ask_for_broker(subscriber, avoid)

    def _arrive(self, subscriber: int, attempt: int, broker: int) -> None:
        if self._attempts[subscriber] != attempt:
            return
        node = self.nodes[broker]
        if not node.is_up:
            self._try_again(subscriber, frozenset({node.name}))
            return
        self._connections += 1
        connection = self._connections * self._count + subscriber
        self._connection_of[subscriber] = connection
        self._broker_of[subscriber] = broker
        self._has_carried[subscriber] = self._subscribes[subscriber]
        carried = self._carried(subscriber) if self._subscribes[subscriber] else []
        self._tally.messages += 1
        node.tell(
            SubscriberArrived(
                connection, self._name(subscriber), _DEVICE, "", 0, _FOREVER_S, carried, self._kernel.now_s
            )
        )

    def _carried(self, subscriber: int) -> list[Subscribe]:
        """All its subscriptions, with where it has got to in those that it had before."""
        first, last = self._offsets[subscriber], self._offsets[subscriber + 1]
        carried = []
        slots = zip(self._holds[first:last], self._ids[first:last], strict=True)
        for slot, (backend, subscription) in enumerate(slots, first):
            plain = self._cluster.subscribes[backend]
            if subscription:
                position = f"{subscription}-{self._deliveries.position(slot)}"
                carried.append(Subscribe(plain.channel, plain.parameters, position, plain.request))
            else:
                carried.append(plain)
        return carried

    def _welcomed(self, subscriber: int, connection: int, message: Welcome) -> None:
        self._is_welcomed[subscriber] = True
        if self._subscribes[subscriber] and not self._has_carried[subscriber]:
            self._kernel.after(2 * self._delay_s, self._ask_all, subscriber, connection)
        for kept in message.subscriptions:
            backend = self._cluster.backend_of(kept.subscription)
            if self._slot(subscriber, backend) is None:
                # Given up at a broker that died before it could tell anybody.
                self._kernel.after(2 * self._delay_s, self._give_up, subscriber, connection, kept.subscription)

    def _ask_all(self, subscriber: int, connection: int) -> None:
        if self._connection_of[subscriber] != connection:
            return
        node = self.nodes[self._broker_of[subscriber]]
        subscribes, now_s = self._cluster.subscribes, self._kernel.now_s
        for backend in self._holds[self._offsets[subscriber] : self._offsets[subscriber + 1]]:
            self._tally.messages += 1
            node.tell(SubscribeAsked(connection, subscribes[backend], now_s))

    def _subscribed(self, broker: int, subscriber: int, message: Subscribed) -> None:
        if not message.request:
            return
        backend = message.request - 1
        slot = self._slot(subscriber, backend)
        if slot is None or self._is_live[slot]:
            return
        before = self._ids[slot]
        if not before:
            self._tally.subscribes += 1
        self._ids[slot] = message.subscription
        self._is_live[slot] = True
        carried_on = before == message.subscription
        self._deliveries.join(broker, slot, backend, carried_on=carried_on, position=message.position)

    # Changing and leaving

    def _exchange(self, subscriber: int, connection: int, slot: int, wanted: int) -> None:
        given_up = self._given_up.setdefault(subscriber, set())
        if (
            self._connection_of[subscriber] != connection
            or not self._is_live[slot]
            or wanted in given_up
            or self._slot(subscriber, wanted) is not None
        ):
            return
        broker = self._broker_of[subscriber]
        node, now_s = self.nodes[broker], self._kernel.now_s
        backend, subscription = self._holds[slot], self._ids[slot]
        self._deliveries.leave(broker, np.array([slot]), np.array([backend], np.int32))
        given_up.add(backend)
        self._is_live[slot] = False
        self._ids[slot] = 0
        self._holds[slot] = wanted
        self._tally.messages += 2
        self._tally.unsubscribes += 1
        node.tell(UnsubscribeAsked(connection, subscription, backend + 1, now_s))
        node.tell(SubscribeAsked(connection, self._cluster.subscribes[wanted], now_s))

    def _give_up(self, subscriber: int, connection: int, subscription: int) -> None:
        if self._connection_of[subscriber] == connection:
            self._tally.messages += 1
            node = self.nodes[self._broker_of[subscriber]]
            node.tell(UnsubscribeAsked(connection, subscription, 0, self._kernel.now_s))

    def _follow(self, subscriber: int, connection: int, destination: str, number: int) -> None:
        """Go where a plan wants it, unless a later plan wants something else."""
        if self._connection_of[subscriber] != connection or self._moves.get(subscriber) != number:
            return
        del self._moves[subscriber]
        self._tally.migrations += 1
        self._hang_up(subscriber)
        self._attempts[subscriber] += 1
        broker = next(at for at, node in enumerate(self.nodes) if node.name == destination)
        self._kernel.after(self._delay_s, self._arrive, subscriber, self._attempts[subscriber], broker)

    def _hang_up(self, subscriber: int) -> None:
        if connection := self._connection_of[subscriber]:
            node = self.nodes[self._broker_of[subscriber]]
            self._lose(subscriber)
            self._tally.messages += 1
            node.tell(ConnectionLost(connection, self._kernel.now_s))

    def _lose(self, subscriber: int) -> None:
        """The connection is gone; what comes from now on is missed."""
        part = slice(self._offsets[subscriber], self._offsets[subscriber + 1])
        slots = part.start + np.flatnonzero(self._all_live[part])
        if len(slots):
            self._deliveries.leave(self._broker_of[subscriber], slots, self._all_holds[slots])
            self._all_live[part] = False
        self._connection_of[subscriber] = 0
        self._broker_of[subscriber] = _NOWHERE
        self._is_welcomed[subscriber] = False
        self._moves.pop(subscriber, None)

    # Parts

    def _slot(self, subscriber: int, backend: int) -> int | None:
        first = self._offsets[subscriber]
        try:
            return self._holds.index(backend, first, self._offsets[subscriber + 1])
        except ValueError:
            return None

    def _name(self, subscriber: int) -> str:
        return f"s{subscriber:07d}"
