"""The subscribers: a shell over their sessions, without sockets. `client.core.session` decides.

Messages of subscribers take time to reach the broker. Messages of brokers arrive at once: results are counted when they
are sent, and nothing may overtake them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Protocol, assert_never

import msgspec

from tocsin.broker.core.events import (
    ConnectionLost,
    CoordinateTold,
    Event,
    SubscribeAsked,
    SubscriberArrived,
    UnsubscribeAsked,
)
from tocsin.client.core import events as ev
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
from tocsin.coordinates.located import Located
from tocsin.errors import Unavailable
from tocsin.model.backoff import Backoff
from tocsin.model.position import Position
from tocsin.protocol import messages
from tocsin.simulator.chance import Dice
from tocsin.simulator.cluster import Cluster
from tocsin.simulator.deliveries import Deliveries
from tocsin.simulator.kernel import Kernel
from tocsin.simulator.round_trips import Measurable, SimulatedRoundTrips
from tocsin.simulator.scenario import NetworkTiming
from tocsin.simulator.slots import Slots
from tocsin.simulator.tally import Tally
from tocsin.simulator.workload import Workload

_DEVICE = "d"
_NO_PAYLOAD = msgspec.Raw(b"{}")
#: More links than any session makes.
_LINKS = 1 << 20


class Node(Measurable, Protocol):
    """A broker, as subscribers see it."""

    def tell(self, event: Event) -> None: ...


class Placements(Protocol):
    """The coordinator, as subscribers see it."""

    def place(
        self, user: str, device: str, at: tuple[float, float], avoid: frozenset[str], located: Located | None
    ) -> tuple[str, str]:
        """Name and address of a broker; raises Unavailable if none is available now."""
        ...


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
        self._options = SessionOptions(
            _DEVICE,
            "simulated",
            has_coordinator=True,
            backoff=Backoff(network.retry_after_s, network.retry_after_s),
            # A broker that dies closes its connections, so that none falls silent.
            ping_after_s=inf,
        )
        self._workload = workload
        self._tally = tally
        self._chance = dice.random
        self.placements: Placements
        self.round_trips: SimulatedRoundTrips | None = None
        self._nodes: Sequence[Node] = ()
        self._node_at: dict[str, int] = {}
        count = workload.subscribers
        self._count = count
        self._sessions: list[Session | None] = [None] * count
        #: How many sessions each has begun. A connection's number combines this, the link's number in that session,
        #: and the subscriber's number: see `_connection`.
        self._begun = array("i", bytes(4 * count))
        #: Connections that are being opened and that are open, and the numbers of their brokers.
        self._opening: dict[int, int] = {}
        self._broker_at: dict[int, int] = {}
        self._slots = Slots(workload, cluster, deliveries, tally, self._broker_at)
        #: Messages of a connection that have not arrived, in parts that were sent together.
        self._under_way: dict[int, list[list[messages.FromSubscriber]]] = {}
        #: When the session is woken next, at the latest.
        self._wake_s = array("d", [inf]) * count
        #: Whether the program's time to make its subscriptions is over.
        self._subscribes = bytearray(count)
        #: Results that sessions have handed on to their programs, when deliveries are single.
        self.notifications = 0

    def reach(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._node_at = {node.url: number for number, node in enumerate(nodes)}

    # State

    def connected(self) -> Iterator[tuple[int, int]]:
        """Subscribers, each with the number of its broker. One that is being moved may be at two."""
        return ((connection % self._count, broker) for connection, broker in self._broker_at.items())

    def broker_of(self, subscriber: int) -> int:
        """The number of the broker that it is connected to; -1 if there is none."""
        found = (broker for connection, broker in self._broker_at.items() if connection % self._count == subscriber)
        return next(found, -1)

    def held_by(self, subscriber: int) -> list[int]:
        """The backend subscriptions whose results it gets."""
        return self._slots.held_by(subscriber)

    # Actions of programs

    def log_in(self, subscriber: int) -> None:
        if self._sessions[subscriber] is None:
            self._sessions[subscriber] = Session(self._options, self._chance)
            self._begun[subscriber] += 1
            self._tally.logins += 1
            asked = self._slots.wanted(subscriber) if self._subscribes[subscriber] else []
            self._tell(subscriber, *self._found(subscriber), *asked, ev.Started())

    def _found(self, subscriber: int) -> list[ev.Event]:
        """Where it is in the network, if there are sites: found before it asks for a broker."""
        up = [node for node in self._nodes if node.is_up]
        if self.round_trips is None or not up:
            return []
        first = up[subscriber % len(up)]
        located = self.round_trips.look_around(subscriber, first, {node.name: node for node in self._nodes})
        return [ev.CoordinateFound(located)] if located is not None else []

    def log_out(self, subscriber: int) -> None:
        if self._sessions[subscriber] is not None:
            self._tally.logouts += 1
            self._tell(subscriber, ev.CloseAsked())
            self._sessions[subscriber] = None

    def subscribe(self, subscriber: int) -> None:
        """Make all subscriptions, now or when it logs in."""
        self._subscribes[subscriber] = True
        if self._sessions[subscriber] is not None:
            self._tell(subscriber, *self._slots.wanted(subscriber))

    def exchange(self, subscriber: int, part: float, wanted: int) -> None:
        if (asked := self._slots.exchange(subscriber, part, wanted)) is not None:
            self._tell(subscriber, *asked)

    # Actions of brokers

    def heard(self, connection: int, message: messages.FromBroker) -> None:
        if connection not in self._broker_at:
            return
        self._tally.messages += 1
        link, subscriber = divmod(connection, self._count)
        received = ev.Received(link % _LINKS, message)
        if not isinstance(message, messages.Subscribed):
            self._tell(subscriber, received)
            return
        if message.request:
            self._slots.join(subscriber, connection, message)
        # Most messages are of this kind, and they make nothing due.
        self._handle(subscriber, received)

    def delivered(self, connection: int, wires: Sequence[bytes]) -> None:
        """Results, one by one."""
        subscriber = connection % self._count
        for wire in wires:
            if connection not in self._broker_at:
                return
            position = wire.split(b" ", 1)[0].decode()
            at = Position.parse(position)
            self._slots.delivered(subscriber, connection, at, len(wire))
            notification = messages.Notification(at.epoch, "", position, 0, _NO_PAYLOAD)
            self._tell(subscriber, ev.Received(self._link(connection), notification))

    def closed(self, connection: int, code: int, reason: str) -> None:
        if self._end(connection) is not None:
            self._tally.messages += 1
            self._tell(connection % self._count, ev.Closed(self._link(connection), code, reason))

    def cut(self, broker: int) -> None:
        """A broker has died: all its connected subscribers notice at once."""
        cut = [connection for connection, at in self._broker_at.items() if at == broker]
        for connection in sorted(cut, key=lambda one: one % self._count):
            self._end(connection)
            self._tell(connection % self._count, ev.Closed(self._link(connection), 0))

    # Sessions

    def _tell(self, subscriber: int, *events: ev.Event) -> None:
        """Tell the session, carry out its instructions, and wake it when it wants."""
        at_s = self._handle(subscriber, *events).wake_at_s()
        if at_s is not None and at_s < self._wake_s[subscriber]:
            self._wake_s[subscriber] = at_s
            self._kernel.at(at_s, self._wake, subscriber)

    def _wake(self, subscriber: int) -> None:
        """Wake the session. If its work has been done meanwhile, it only names its next time."""
        self._wake_s[subscriber] = inf
        if self._sessions[subscriber] is not None:
            self._tell(subscriber, ev.TimePassed())

    def _handle(self, subscriber: int, *events: ev.Event) -> Session:
        session, now_s = self._sessions[subscriber], self._kernel.now_s
        assert session is not None
        sent: dict[int, list[messages.FromSubscriber]] | None = None
        for event in events:
            for instruction in session.handle(event, now_s):
                if isinstance(instruction, ev.TellSubscribed):
                    continue  # Its slot knows.
                if isinstance(instruction, ev.Send) and not isinstance(instruction.message, messages.Hello):
                    sent = {} if sent is None else sent
                    sent.setdefault(instruction.link, []).append(instruction.message)
                else:
                    self._perform(subscriber, session, instruction)
        if sent is not None:
            for link, part in sent.items():
                self._send(self._connection(subscriber, link), part)
        return session

    def _perform(self, subscriber: int, session: Session, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.TellConnected() | ev.TellSubscribed() | ev.TellUnsubscribed() | ev.TellGap():
                pass  # Programs use the memory of their slots.
            case ev.Deliver(request, position):
                self.notifications += 1
                self._tell(subscriber, ev.Acknowledged(request, position))
            case ev.Send(link, messages.Hello(subscriptions=carried)):
                self._greet(self._connection(subscriber, link), carried)
            case ev.Connect(link, url):
                connection = self._connection(subscriber, link)
                self._opening[connection] = self._node_at[url]
                self._kernel.after(2 * self._delay_s, self._connect, connection)
            case ev.Disconnect(link):
                self._disconnect(self._connection(subscriber, link))
            case ev.RequestPlacement():
                self._kernel.after(self._delay_s, self._place, subscriber, session, instruction)
            case ev.TellRefused(_, error) | ev.Fail(error):
                raise error  # A simulation must not go on with a mistake.
            case ev.Send() | ev.RenewToken() | ev.TellFiltered():
                raise AssertionError(f"an instruction that no session gives here: {instruction}")
            case _:
                assert_never(instruction)

    def _place(self, subscriber: int, session: Session, asked: ev.RequestPlacement) -> None:
        if self._sessions[subscriber] is not session:
            return
        self._tally.messages += 2
        at = self._workload.location(subscriber, self._kernel.now_s)
        try:
            broker, url = self.placements.place(_name(subscriber), _DEVICE, at, frozenset(asked.avoid), asked.located)
        except Unavailable as exc:
            self._tell(subscriber, ev.PlacementFailed(exc.message, exc, exc.temporary))
        else:
            self._tally.placements += 1
            self._tell(subscriber, ev.Placed(broker, url))

    # Connections

    def _connect(self, connection: int) -> None:
        broker = self._opening.pop(connection, None)
        if broker is None:
            return
        subscriber, link = connection % self._count, self._link(connection)
        if self._nodes[broker].is_up:
            self._broker_at[connection] = broker
            self._tell(subscriber, ev.Opened(link))
        else:
            self._tell(subscriber, ev.Closed(link, 0, "there is nobody"))

    def _greet(self, connection: int, carried: Sequence[messages.Subscribe]) -> None:
        subscriber, now_s = connection % self._count, self._kernel.now_s
        self._slots.greet(subscriber, connection)
        self._tally.messages += 1
        arrived = SubscriberArrived(connection, _name(subscriber), _DEVICE, "", 0, inf, carried, now_s)
        self._nodes[self._broker_at[connection]].tell(arrived)

    def _send(self, connection: int, part: list[messages.FromSubscriber]) -> None:
        if connection in self._broker_at:
            for message in part:
                if isinstance(message, messages.Subscribe):
                    self._slots.ask(connection % self._count, connection, message)
            self._under_way.setdefault(connection, []).append(part)
            self._kernel.after(self._delay_s, self._arrive, connection)

    def _arrive(self, connection: int) -> None:
        """The messages that were sent first have arrived."""
        parts = self._under_way.pop(connection, None)
        if parts:
            if parts[1:]:
                self._under_way[connection] = parts[1:]
            self._received(connection, parts[0])

    def _received(self, connection: int, part: Iterable[messages.FromSubscriber]) -> None:
        node, now_s = self._nodes[self._broker_at[connection]], self._kernel.now_s
        for message in part:
            match message:
                case messages.Subscribe():
                    self._tally.messages += 1
                    node.tell(SubscribeAsked(connection, message, now_s))
                case messages.Unsubscribe(subscription, request):
                    self._tally.messages += 1
                    node.tell(UnsubscribeAsked(connection, subscription, request, now_s))
                case messages.CoordinateUpdate(coordinate, round_trips_ms):
                    self._tally.messages += 1
                    node.tell(CoordinateTold(connection, Located(coordinate, round_trips_ms)))
                case messages.Ack():
                    pass  # See `deliveries`.
                case _:
                    raise AssertionError(f"a message that no session sends here: {message}")

    def _disconnect(self, connection: int) -> None:
        """Messages that were sent before still arrive before."""
        self._opening.pop(connection, None)
        for part in self._under_way.pop(connection, ()):
            self._received(connection, part)
        if (broker := self._end(connection)) is not None:
            self._tally.messages += 1
            self._nodes[broker].tell(ConnectionLost(connection, self._kernel.now_s))

    def _end(self, connection: int) -> int | None:
        """The connection is gone. Returns its broker's number; None if it was never open."""
        self._under_way.pop(connection, None)
        if connection in self._broker_at:
            self._slots.end(connection % self._count, connection)
        return self._broker_at.pop(connection, None)

    def _connection(self, subscriber: int, link: int) -> int:
        return (self._begun[subscriber] * _LINKS + link) * self._count + subscriber

    def _link(self, connection: int) -> int:
        return connection // self._count % _LINKS


def _name(subscriber: int) -> str:
    return f"s{subscriber:07d}"
