"""A broker: its machine and its store, and calls that take their time, fail, or are answered to nobody.

Each call is a generator that stops wherever time passes. What the shells of the real broker do between two such moments
is done here in the same order.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tocsin.broker.core.events import (
    Acknowledged,
    BackendsAcquired,
    BackendsReleased,
    Claimed,
    ConnectionCongested,
    ConnectionFlushed,
    ConnectionLost,
    Event,
    HistoryLost,
    HistoryPulled,
    ReportDue,
    Reported,
    ResultsPulled,
    SessionFetched,
    Started,
    SubscribeAsked,
    SubscriberArrived,
    Ticked,
    UnsubscribeAsked,
)
from tocsin.broker.core.instructions import (
    Acquire,
    Change,
    Close,
    Deliver,
    FetchHistory,
    FetchSession,
    Instruction,
    NoteDelivered,
    NoteFailure,
    Release,
    Report,
    Send,
)
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.errors import Unavailable
from tocsin.protocol.messages import Ack, FromSubscriber, Hello, Subscribe, Unsubscribe, parse_position
from tocsin.protocol.subscription_keys import SubscriptionKey
from worlds.broker_world import FakeStore

if TYPE_CHECKING:
    from histories.wires import Wire
    from histories.world import World

#: A call: it goes on when the world pleases.
Call = Generator[None, None, None]


@dataclass(slots=True)
class _Box:
    """Where an answer is put."""

    answer: Any = None
    is_full: bool = False

    def put(self, answer: Any = None) -> None:
        self.answer, self.is_full = answer, True


class BrokerSide:
    def __init__(self, world: World, name: str) -> None:
        self.name = name
        self._world = world
        self._rng: random.Random = world.rng
        self.store = FakeStore()
        self.is_up = False
        self.calls: list[Call] = []
        self.wires: dict[int, Wire] = {}
        self.start()

    # Living and dying

    def start(self) -> None:
        self.is_up = True
        self._pulls = 0
        self._report: Report | None = None
        #: Claims are held up on their way to the coordinator.
        self.are_claims_slow = False
        self._events: list[Event] = []
        self._is_busy = False
        self.state = self._machine()
        self.calls = [self._begin(), self._stay_registered()]

    def kill(self) -> None:
        self.is_up = False
        self.calls = []
        for wire in list(self.wires.values()):
            wire.die_at_broker()
        self.wires = {}

    def kept_for(self, subscriber: str) -> list[SubscriptionKey]:
        """What it keeps for a subscriber."""
        kept = (one.subscriptions for one in self.state.kept() if one.subscriber == subscriber)
        return [one.key.stored() for subscriptions in kept for one in subscriptions]

    def go_on(self) -> None:
        """One of its calls comes a step further."""
        if self.calls:
            call = self._rng.choice(self.calls)
            self._step(call)

    def go_on_with_all(self) -> None:
        for call in list(self.calls):
            if call in self.calls:
                self._step(call)

    def go_on_until_started(self) -> None:
        """The cluster answers at once, if it answers."""
        begin = self.calls[0]
        while self.is_up and not self.state.is_started and self._world.cluster.is_open:
            self._step(begin)

    def _step(self, call: Call) -> None:
        try:
            next(call)
        except StopIteration:
            if call in self.calls:
                self.calls.remove(call)

    def tick(self) -> None:
        if self.is_up and self.state.is_started:
            self.tell(Ticked(self._world.now_s))

    # Connections

    def opened(self, wire: Wire) -> None:
        self.wires[wire.number] = wire

    def received(self, wire: Wire, message: FromSubscriber) -> None:
        now_s = self._world.now_s
        match message:
            case Hello(device=device, subscriptions=subscriptions):
                user, permission = wire.user, wire.permission
                self.tell(
                    SubscriberArrived(wire.number, user, device, permission, 0, float("inf"), subscriptions, now_s)
                )
            case Subscribe():
                self.tell(SubscribeAsked(wire.number, message, now_s))
            case Unsubscribe(subscription, request):
                self.tell(UnsubscribeAsked(wire.number, subscription, request, now_s))
            case Ack(positions):
                self.tell(Acknowledged(wire.number, [parse_position(one) for one in positions]))

    def lost(self, wire: Wire) -> None:
        if self.wires.pop(wire.number, None) is not None:
            self.tell(ConnectionLost(wire.number, self._world.now_s))

    def congest(self, wire: Wire) -> None:
        self.tell(ConnectionCongested(wire.number, self._world.now_s))

    def flush(self, wire: Wire) -> None:
        self.tell(ConnectionFlushed(wire.number))

    # The machine

    def tell(self, event: Event) -> None:
        """One event after the other, even if one brings about the next."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        while self._events:
            instructions = self.state.handle(self._events.pop(0))
            self.store.apply(instructions)
            for one in instructions:
                self._perform(one)
        self._is_busy = False

    def _perform(self, instruction: Instruction) -> None:
        match instruction:
            case Deliver(connection, wires, confirm):
                if (wire := self.wires.get(connection)) is not None:
                    wire.to_client.extend(self._world.notification(one) for one in wires)
                    if confirm and self._rng.random() < 0.5:
                        self._events.append(ConnectionFlushed(connection))
            case Send(connection, message):
                if (wire := self.wires.get(connection)) is not None:
                    wire.to_client.append(message)
            case Close(connection, code):
                if (wire := self.wires.pop(connection, None)) is not None:
                    wire.closed_by_broker(code)
                    self._events.append(ConnectionLost(connection, self._world.now_s))
            case Report():
                self._report = instruction
            case NoteFailure(_, error):
                raise error
            case NoteDelivered():
                pass
            case _ if not isinstance(instruction, Change):  # Those are stored.
                self.calls.append(self._call(instruction))

    def _call(self, instruction: Instruction) -> Call:
        match instruction:
            case Acquire(keys):
                return self._acquire(keys)
            case Release(ids):
                return self._release(ids)
            case FetchHistory(after):
                return self._fetch_history(dict(after), self.state.through)
            case FetchSession(subscriber):
                return self._fetch_session(subscriber)
        raise AssertionError(f"nobody carries out {instruction}")

    # Calls to the cluster, as in `cluster_calls.py`

    def _begin(self) -> Call:
        cluster = self._world.cluster
        yield from self._until(lambda: cluster.is_open)
        cursor = cluster.position_now()
        yield from self._until(lambda: cluster.is_open)
        held = cluster.held(self.name)
        yield
        self.tell(Started(self.store.sessions(), held, cursor, self._world.now_s))
        self.calls.append(self._follow())

    def _follow(self) -> Call:
        cluster = self._world.cluster
        while True:
            self._pulls += 1
            number, after = self._pulls, self.state.through
            yield
            if not cluster.is_open:
                continue
            life = cluster.life
            while True:
                pulled = cluster.pull(self.name, after, self._limit())
                if pulled.results or self._rng.random() < 0.3:
                    break
                after = pulled.through
                yield  # It waits at the cluster for something to come.
                if cluster.life != life:
                    break
            yield
            if cluster.life == life:
                deliveries = [one.delivery() for one in pulled.results]
                self.tell(ResultsPulled(number, deliveries, pulled.through, self._world.now_s))

    def _acquire(self, keys: Sequence[SubscriptionKey]) -> Call:
        cluster, is_calm = self._world.cluster, self._world.is_calm
        while True:
            yield
            if not cluster.is_ready:
                if self._rng.random() < 0.2 and not is_calm:
                    away = Unavailable("the cluster does not answer", retry_after_s=0.1)
                    refused = [(key, away) for key in keys]
                    self.tell(BackendsAcquired([], refused, self._pulls + 1, self._world.now_s))
                    return
                continue
            life, position = cluster.life, cluster.position_now()
            if self._rng.random() < 0.3:
                yield  # Results may be committed between reading the position and holding.
                if cluster.life != life:
                    continue
            held = cluster.subscribe(self.name, keys, position)
            yield
            if cluster.life == life:
                break
        acquired = list(zip(keys, held, strict=True))
        self.tell(BackendsAcquired(acquired, [], self._pulls + 1, self._world.now_s))

    def _release(self, ids: Sequence[int]) -> Call:
        cluster = self._world.cluster
        while True:
            yield from self._until(lambda: cluster.is_ready)
            life = cluster.life
            cluster.unsubscribe(self.name, ids)
            yield
            if cluster.life == life:
                break
        self.tell(BackendsReleased(self._world.now_s))

    def _fetch_history(self, after: Mapping[int, int], through: int) -> Call:
        cluster = self._world.cluster
        while True:
            yield from self._until(lambda: cluster.is_open)
            life = cluster.life
            pulled = cluster.history(after, self._limit())
            yield
            if cluster.life == life:
                break
        if pulled is not None:
            deliveries = [one.delivery() for one in pulled.results]
            self.tell(HistoryPulled(after, deliveries, pulled.through))
        elif len(after) == 1:
            self.tell(HistoryLost(after, through))
        else:
            for one, at in after.items():
                yield from self._fetch_history({one: at}, through)

    # Calls to the coordinator, as in `coordination.py`

    def _stay_registered(self) -> Call:
        coordinator = self._world.coordinator
        while True:
            yield
            if not coordinator.is_up:
                continue
            if not coordinator.knows(self.name):
                box, life = _Box(), coordinator.life
                coordinator.register(self.name, self._world.now_s, box.put)
                while not box.is_full and coordinator.life == life:
                    yield
                if coordinator.life != life:
                    continue
            yield from self._report_once()

    def _report_once(self) -> Call:
        coordinator = self._world.coordinator
        self.tell(ReportDue())
        report = self._report
        assert report is not None
        if report.claims:
            yield
            while self.are_claims_slow:
                yield
            box, life = _Box(), coordinator.life
            if not coordinator.is_up or not coordinator.knows(self.name):
                return
            coordinator.claim(self.name, report.claims, box.put)
            while not box.is_full and coordinator.life == life:
                yield
            yield
            if coordinator.life != life:
                return
            self.tell(Claimed(box.answer.generations))
            for session in box.answer.sessions:
                if self._rng.random() < 0.9:  # Not all may fit into one answer.
                    kept = coordinator.kept(session)
                    self.tell(SessionFetched(session.subscriber, kept, True, self._world.now_s))
        yield
        box, life = _Box(), coordinator.life
        if not coordinator.is_up or not coordinator.knows(self.name):
            return
        coordinator.heartbeat(self.name, self.state.connections, report, self._world.now_s, box.put)
        while not box.is_full and coordinator.life == life:
            yield
        yield
        if coordinator.life != life:
            return
        known = {subscriber: version for subscriber, (version, _, _) in report.changed.items()}
        self.tell(Reported(known, report.ended, box.answer.lost, {}, self._world.now_s, report.prepared))

    def _fetch_session(self, subscriber: str) -> Call:
        coordinator = self._world.coordinator
        yield
        session, is_certain = None, False
        if coordinator.is_up and (self._world.is_calm or self._rng.random() < 0.9):
            life = coordinator.life
            session = coordinator.session(subscriber)
            yield
            is_certain = coordinator.life == life
        self.tell(SessionFetched(subscriber, session if is_certain else None, is_certain, self._world.now_s))

    # Parts

    def _until(self, condition: Any) -> Call:
        yield
        while not condition():
            yield

    def _limit(self) -> int:
        return self._rng.choice((1, 3, 1000))

    def _machine(self) -> BrokerState:
        limits = Limits(max_queued_bytes=16, slow_after_s=5)
        return BrokerState(self.name, limits, self._rng, cache_max_bytes=self._world.cache_max_bytes)
