"""A simulated broker: the shell that feeds events to its machine, and carries out its instructions, without a socket.

A call to the coordinator or the cluster is answered after the time of the way there and back, from the state then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tocsin.broker.core.events import (
    BackendsAcquired,
    BackendsReleased,
    Claimed,
    ConnectionFlushed,
    Event,
    HistoryPulled,
    Ordered,
    ReportDue,
    Reported,
    ResultsPulled,
    SessionFetched,
    Started,
    Ticked,
)
from tocsin.broker.core.instructions import (
    Acquire,
    Close,
    Deliver,
    FetchHistory,
    FetchSession,
    ForgetSession,
    ForgetSubscription,
    NoteFailure,
    Release,
    Report,
    Send,
    StorePositions,
    StorePresence,
    StoreSession,
    StoreSubscription,
)
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.core.peers import Peers
from tocsin.coordinator.registry.events import Measured
from tocsin.protocol.ports import Delivery
from tocsin.simulator.chance import Dice
from tocsin.simulator.clients import Clients
from tocsin.simulator.cluster import Cluster
from tocsin.simulator.coordination import Coordination, url_of
from tocsin.simulator.deliveries import SingleDeliveries
from tocsin.simulator.kernel import Kernel
from tocsin.simulator.round_trips import SimulatedRoundTrips
from tocsin.simulator.scenario import Broker, Scenario
from tocsin.simulator.tally import Tally

#: Machines look for expired things when they are told the time. In a run only holds expire: half a minute after a move,
#: or a minute after they were prepared for a subscriber who did not come.
_TICK_EVERY_S = 30.0
#: As the live broker does; it happens with heartbeats, which are no oftener, except in moves.
_MEASURE_EVERY_S = 1.0
#: A simulated broker has no limits, so that the effects of policies show.
_NO_LIMIT = 1 << 40


class BrokerNode:
    def __init__(
        self,
        number: int,
        broker: Broker,
        scenario: Scenario,
        kernel: Kernel,
        cluster: Cluster,
        coordination: Coordination,
        clients: Clients,
        deliveries: SingleDeliveries | None,
        tally: Tally,
        seed: int,
    ) -> None:
        self.number = number
        self.name = broker.name
        self.url = url_of(broker.name)
        self.is_up = False
        self._broker = broker
        self._scenario = scenario
        self._kernel = kernel
        self._cluster = cluster
        self._coordination = coordination
        self._clients = clients
        self._single = deliveries
        self._tally = tally
        self._dice = Dice(seed, f"broker {broker.name}")
        self.state = self._machine()
        self.peers = Peers(Dice(seed, f"peers of {broker.name}"))
        #: None if the scenario has no sites. With sites, all brokers by name.
        self.round_trips: SimulatedRoundTrips | None = None
        self.others: Mapping[str, BrokerNode] = {}
        self._measured_s = 0.0
        #: How often it has begun; calls from before are ignored.
        self._life = 0
        self._pulls = 0
        self._now_s = 0.0
        self._beaten_s = 0.0
        self._events: deque[Event] = deque()
        self._is_busy = False
        self._perform: dict[type[Any], Callable[[Any], None]] = {
            Send: lambda one: clients.heard(one.connection, one.message),
            Deliver: self._deliver,
            Close: lambda one: clients.closed(one.connection, one.code, one.reason),
            Acquire: lambda one: self._call(self._cluster_s, self._acquired, one),
            Release: lambda one: self._call(self._cluster_s, self._released, one),
            FetchHistory: self._fetch_history,
            FetchSession: lambda one: self._call(self._coordinator_s, self._session_fetched, one),
            NoteFailure: _raise,
            Report: self._report,
            **dict.fromkeys(
                (StoreSession, ForgetSession, StoreSubscription, ForgetSubscription, StorePositions, StorePresence),
                _stored,
            ),
        }
        self._cluster_s = 2 * scenario.network.cluster_delay_s
        self._coordinator_s = 2 * scenario.network.coordinator_delay_s

    # Living and dying

    def start(self) -> None:
        """Begin, or begin again from the store."""
        kept = self.state.kept()
        self.state = self._machine()
        self._life += 1
        self.is_up = True
        self._tally.messages += 2
        self._coordination.register(self._broker)
        self.tell(Started(kept, self._cluster.held_by(self.number), self._cluster.sequence, self._kernel.now_s))
        self._beat(self._life)
        self._tick(self._life)

    def fail(self) -> None:
        self.is_up = False
        self._life += 1
        self._events.clear()
        self._tally.failures += 1
        self._clients.cut(self.number)

    def tell(self, event: Event) -> None:
        """Handle one event after the other, even if one causes the next."""
        self._now_s = getattr(event, "now_s", self._now_s)
        if self._is_busy:
            self._events.append(event)
            return
        self._is_busy = True
        perform, events = self._perform, self._events
        while True:
            for instruction in self.state.handle(event):
                perform[type(instruction)](instruction)
            if not events:
                break
            event = events.popleft()
        self._is_busy = False

    def pull(self, deliveries: Sequence[Delivery]) -> None:
        """Fetch the results of a run that are of its holds."""
        if self.is_up:
            self._pulls += 1
            held = self._cluster.held[self.number]
            mine = [one for one in deliveries if held[self._cluster.backend_of(one.subscription)]]
            # A pull must not tell it the time: it would release lingering holds earlier than when runs are summed.
            self.tell(ResultsPulled(self._pulls, mine, self._cluster.sequence, self._now_s))

    # Calls

    def _call(self, seconds: float, answer: Callable[[Any], None], asked: object) -> None:
        self._tally.messages += 2
        self._kernel.after(seconds, self._answered, self._life, answer, asked)

    def _answered(self, life: int, answer: Callable[[Any], None], asked: object) -> None:
        if self._life == life:
            answer(asked)

    def _acquired(self, asked: Acquire) -> None:
        held = self._cluster.acquire(self.number, asked.keys)
        pairs = list(zip(asked.keys, held, strict=True))
        self.tell(BackendsAcquired(pairs, [], self._pulls + 1, self._kernel.now_s))

    def _released(self, asked: Release) -> None:
        self._cluster.release(self.number, asked.ids)
        self.tell(BackendsReleased(self._kernel.now_s))

    def _session_fetched(self, asked: FetchSession) -> None:
        session = self._coordination.session(asked.subscriber)
        self.tell(SessionFetched(asked.subscriber, session, True, self._kernel.now_s))

    # Reports: first the claims, then the rest, as over HTTP

    def _report(self, report: Report) -> None:
        self._call(self._coordinator_s, self._claim if report.claims else self._heartbeat, report)

    def _claim(self, report: Report) -> None:
        self.tell(Claimed(self._coordination.claim(self.name, report.claims)))
        for subscriber in report.claims:
            self._session_fetched(FetchSession(subscriber))
        self._call(self._coordinator_s, self._heartbeat, report)

    def _heartbeat(self, report: Report) -> None:
        fresh = self.peers.unreported()
        measured = Measured(fresh.coordinate, fresh.round_trips_ms, self.peers.seen, report.located)
        answer = self._coordination.heartbeat(self.name, self.state.connections, report, measured)
        self.peers.reported(fresh)
        if answer.peers is not None:
            self.peers.learn(*answer.peers)
        known = {subscriber: version for subscriber, (version, _, _) in report.changed.items()}
        now_s = self._kernel.now_s
        self.tell(Reported(known, report.ended, answer.lost, {}, now_s, report.prepared, located=report.located))
        orders = answer.orders
        if orders.prepare or orders.adopt or orders.move:
            prepare = {one: [self._cluster.key_of(text) for text in texts] for one, texts in orders.prepare.items()}
            move = {one: (placed.broker, placed.url) for one, placed in orders.move.items()}
            self.tell(Ordered(prepare, orders.adopt, move, now_s))
        self._kernel.at(max(now_s, self._beaten_s + answer.next_in_s), self._beat, self._life)

    def _beat(self, life: int) -> None:
        """Report; the answer says when to report next."""
        if self._life == life:
            self._beaten_s = self._kernel.now_s
            if self.round_trips is not None and self._beaten_s - self._measured_s >= _MEASURE_EVERY_S:
                self._measured_s = self._beaten_s
                self.round_trips.measure_peer(self, self.others)
            self.tell(ReportDue())

    def _tick(self, life: int) -> None:
        if self._life == life:
            self.tell(Ticked(self._kernel.now_s))
            self._kernel.after(_TICK_EVERY_S, self._tick, life)

    # Deliveries, message by message

    def _deliver(self, instruction: Deliver) -> None:
        self._clients.delivered(instruction.connection, instruction.wires)
        if instruction.confirm:
            self.tell(ConnectionFlushed(instruction.connection))

    def _fetch_history(self, asked: FetchHistory) -> None:
        assert self._single is not None
        after = dict(asked.after)
        self.tell(HistoryPulled(after, self._single.history(after), self._cluster.sequence))

    # Parts

    def _machine(self) -> BrokerState:
        limits = Limits(max_connections=_NO_LIMIT, max_subscriptions_per_user=_NO_LIMIT)
        return BrokerState(self.name, limits, self._dice)


def _raise(failure: NoteFailure) -> None:
    """A broker would go on without that connection; a simulation must not go on with a mistake."""
    raise failure.error


def _stored(_instruction: object) -> None:
    """Stores nothing: the store's content is read out of the dead machine, which has the same."""
