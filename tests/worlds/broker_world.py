"""Brokers' machines in a world without sockets, where everything may happen in any order.

The cluster and the coordinator are small and exact. A test says step by step what happens: which call is answered, when
results are pulled, which broker crashes and begins again from its store, which client comes, goes or changes brokers.
Nothing here is left to chance, so the same steps give the same history. What every client has seen is on record.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import cast

from tocsin.broker.core.events import (
    Acknowledged,
    BackendsAcquired,
    BackendsReleased,
    Claimed,
    ConnectionCongested,
    ConnectionFlushed,
    ConnectionLost,
    Event,
    HistoryPulled,
    NotStored,
    ReportDue,
    Reported,
    ResultsPulled,
    SessionFetched,
    SessionRecalled,
    Started,
    StoreChecked,
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
    ForgetSession,
    ForgetSubscription,
    Instruction,
    NoteFailure,
    RecallSession,
    Release,
    Report,
    RequestSnapshots,
    Send,
    StorePositions,
    StorePresence,
    StoreSession,
    StoreSubscription,
)
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.core.storing import Keeper
from tocsin.errors import Unavailable
from tocsin.model.catalogue import ParameterValue
from tocsin.model.position import Position
from tocsin.protocol.messages import Error, HistoryGone, Subscribe, Subscribed, Unsubscribed, Welcome
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.testing.memory_cluster import MemoryCluster

#: Rounds without anything new after which nothing more will come: a few for calls and answers, the rest to be sure.
_QUIET_ROUNDS = 20
#: Its parameter user_id is filled in with the subscriber's own name.
OWN_CHANNEL = "Own"
#: Whoever subscribes to it is sent a snapshot first.
SNAPSHOT_CHANNEL = "Holding"


@dataclass(slots=True)
class FakeCoordinator:
    """Who owns which session, and what its broker last said of it."""

    owners: dict[str, str] = field(default_factory=dict)
    sessions: dict[str, KeptSession] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)

    def claim(self, broker: str, subscribers: list[str]) -> dict[str, int]:
        for one in subscribers:
            self.generations[one] = self.generations.get(one, 0) + 1
            self.owners[one] = broker
        return {one: self.generations[one] for one in subscribers}

    def report(self, broker: str, report: Report) -> list[str]:
        for subscriber, (_, _, session) in report.changed.items():
            if session.generation == self.generations.get(subscriber):
                self.sessions[subscriber] = session
        for subscriber in report.ended:
            if self.owners.get(subscriber) == broker:
                self.sessions.pop(subscriber, None)
        return [one for one, owner in self.owners.items() if owner != broker]


@dataclass(slots=True)
class FakeStore:
    generations: dict[str, int] = field(default_factory=dict)
    positions: dict[str, dict[SubscriptionKey, Position]] = field(default_factory=lambda: defaultdict(dict))
    filters: dict[tuple[str, SubscriptionKey], str] = field(default_factory=dict)

    #: The disk is full: nothing is taken.
    is_full: bool = False

    def apply(self, changes: Iterable[Change]) -> None:
        changes = list(changes)
        if changes and self.is_full:
            raise Unavailable("the disk is full", retry_after_s=1)
        for change in changes:
            self._apply(change)

    def session(self, subscriber: str) -> KeptSession | None:
        return next((one for one in self.sessions() if one.subscriber == subscriber), None)

    def _apply(self, change: Change) -> None:
        match change:
            case StoreSession(subscriber, generation):
                self.generations[subscriber] = generation
            case ForgetSession(subscriber):
                self.generations.pop(subscriber, None)
                self.positions.pop(subscriber, None)
            case StoreSubscription(subscriber, key, position, where):
                self.positions[subscriber][key.stored()] = position
                self.filters[subscriber, key.stored()] = where
            case ForgetSubscription(subscriber, key):
                self.positions[subscriber].pop(key.stored(), None)
            case StorePositions(positions):
                for subscriber, key, position in positions:
                    if key.stored() in self.positions[subscriber]:
                        self.positions[subscriber][key.stored()] = position

    def sessions(self) -> list[KeptSession]:
        def kept(subscriber: str) -> list[Kept]:
            return [Kept(key, at, self.filters[subscriber, key]) for key, at in self.positions[subscriber].items()]

        return [KeptSession(one, generation, kept(one)) for one, generation in self.generations.items()]


@dataclass(slots=True)
class FakeBroker:
    name: str
    state: BrokerState
    store: FakeStore = field(default_factory=FakeStore)
    keeper: Keeper = field(init=False)
    #: Calls that wait to be answered.
    calls: list[Instruction] = field(default_factory=list)
    #: The pull that is under way, once it has been looked up at the cluster.
    pulled: ResultsPulled | None = None
    pulls: int = 0

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.store)


@dataclass(slots=True)
class Wish:
    """A client's subscription: what it wants, where it began, what it has seen."""

    channel: str
    request: int
    parameters: dict[str, ParameterValue] = field(default_factory=dict)
    subscription: int = 0
    position: str = ""
    begin: int | None = None
    seen: list[int] = field(default_factory=list)


@dataclass(slots=True)
class FakeClient:
    """Keeps positions and drops repeats, as the SDK does."""

    user: str
    wishes: dict[int, Wish] = field(default_factory=dict)
    broker: FakeBroker | None = None
    connection: int = 0
    is_welcomed: bool = False
    #: On this connection: the last sequence that came for each subscription.
    last: dict[int, int] = field(default_factory=dict)
    #: On this connection: requests that were refused for the time being.
    refused: set[int] = field(default_factory=set)
    gone: int = 0


class BrokerWorld:
    """The steps of a test decide everything that is not decided by the machines."""

    def __init__(self, *, brokers: int = 2, clients: int = 3, cache_max_bytes: int = 2_000) -> None:
        self.now_s = 0.0
        self.is_calm = False
        #: Whether what is being handled came from one connection.
        self.is_from_connection = False
        #: Mistakes that a test has its machines make; any other fails it.
        self.expected_mistakes: tuple[type[Exception], ...] = ()
        self.cluster = MemoryCluster({OWN_CHANNEL: {"user_id": "USER"}}, with_snapshot=[SNAPSHOT_CHANNEL])
        self.coordinator = FakeCoordinator()
        self._cache_max_bytes = cache_max_bytes
        self._connections = 0
        self._requests = 0
        self.clients = [FakeClient(f"user{at}") for at in range(clients)]
        self._by_connection: dict[int, FakeClient] = {}
        #: Connections that ended, and whose broker has not noticed it yet.
        self.cut_lines: list[tuple[FakeBroker, int]] = []
        self.brokers: list[FakeBroker] = []
        for at in range(brokers):
            broker = FakeBroker(f"b{at}", self._machine(f"b{at}"))
            self.brokers.append(broker)
            self._begin(broker)

    # What can happen

    def connect(self, client: FakeClient, broker: FakeBroker) -> None:
        if client.broker is not None:
            return
        self._connections += 1
        client.broker, client.connection, client.is_welcomed = broker, self._connections, False
        client.last = {}
        client.refused.clear()
        self._by_connection[client.connection] = client
        keys = [Subscribe(one.channel, one.parameters, one.position, one.request) for one in client.wishes.values()]
        self._tell(
            broker,
            SubscriberArrived(client.connection, client.user, "d", "", 0, float("inf"), keys, self.now_s),
        )

    def disconnect(self, client: FakeClient) -> None:
        if client.broker is not None:
            broker, connection = client.broker, client.connection
            self._forget(client)
            self._tell(broker, ConnectionLost(connection, self.now_s))

    def vanish(self, client: FakeClient) -> None:
        """The line is cut: the broker notices later, perhaps when the client has long come back."""
        if client.broker is not None:
            self.cut_lines.append((client.broker, client.connection))
            self._forget(client)

    def notice(self, line: int = 0) -> None:
        """A broker notices that a line was cut: one of those that no broker has noticed yet, by number."""
        if self.cut_lines:
            broker, connection = self.cut_lines.pop(line % len(self.cut_lines))
            self._tell(broker, ConnectionLost(connection, self.now_s))

    def subscribe(self, client: FakeClient, channel: str, parameters: dict[str, ParameterValue] | None = None) -> None:
        if (
            client.broker is None
            or not client.is_welcomed
            or any(one.channel == channel for one in client.wishes.values())
        ):
            return
        self._requests += 1
        wish = client.wishes[self._requests] = Wish(channel, self._requests, parameters or {})
        message = Subscribe(channel, wish.parameters, "", self._requests)
        self._tell(client.broker, SubscribeAsked(client.connection, message, self.now_s))

    def ask_again(self, client: FakeClient) -> None:
        """Ask for what was refused for the time being."""
        for request in sorted(client.refused & set(client.wishes)):
            if client.broker is None or not client.is_welcomed:
                return
            client.refused.discard(request)
            wish = client.wishes[request]
            message = Subscribe(wish.channel, wish.parameters, wish.position, request)
            self._tell(client.broker, SubscribeAsked(client.connection, message, self.now_s))

    def unsubscribe(self, client: FakeClient) -> None:
        """From the one that the client has held longest."""
        wish = next((one for one in client.wishes.values() if one.subscription), None)
        if client.broker is not None and client.is_welcomed and wish is not None:
            del client.wishes[wish.request]
            self._tell(client.broker, UnsubscribeAsked(client.connection, wish.subscription, 0, self.now_s))

    def acknowledge(self, client: FakeClient) -> None:
        if client.broker is not None:
            positions = [Position.parse(one.position) for one in client.wishes.values() if one.position]
            self._tell(client.broker, Acknowledged(client.connection, positions))

    def congest(self, client: FakeClient) -> None:
        if client.broker is not None:
            self._tell(client.broker, ConnectionCongested(client.connection, self.now_s))

    def flush(self, client: FakeClient) -> None:
        if client.broker is not None:
            self._tell(client.broker, ConnectionFlushed(client.connection))

    def run(self) -> None:
        """The cluster makes a result of each subscription that it runs."""
        self.cluster.run()

    def serve_snapshots(self) -> None:
        """The cluster makes a snapshot for each subscription that waits for one."""
        self.cluster.serve_snapshots()

    def pull(self, broker: FakeBroker, limit: int = 1000) -> None:
        """Look results up at the cluster, `limit` at most, or, if that has been done, bring them to the broker."""
        if broker.pulled is not None:
            pulled, broker.pulled = broker.pulled, None
            self._tell(broker, pulled)
        else:
            broker.pulls += 1
            deliveries, through = self.cluster.pull(broker.name, broker.state.through)
            if len(deliveries) > limit:
                deliveries, through = deliveries[:limit], deliveries[limit - 1].sequence
            broker.pulled = ResultsPulled(broker.pulls, deliveries, through, self.now_s)

    def answer(self, broker: FakeBroker, call: int = 0, *, limit: int = 1000, is_certain: bool = True) -> None:
        """Answer one of the broker's calls, by number. Histories have `limit` results at most; if the answer is not
        certain, the coordinator could not be asked."""
        if not broker.calls:
            return
        match broker.calls.pop(call % len(broker.calls)):
            case Acquire(keys):
                wrong = self.cluster.refusals(keys)
                right = [key for at, key in enumerate(keys) if at not in wrong]
                held = list(zip(right, self.cluster.acquire(broker.name, right), strict=True))
                refused = [(keys[at], error) for at, error in wrong.items()]
                # A pull may have been looked up before and not have come back yet.
                self._tell(broker, BackendsAcquired(held, refused, broker.pulls + 1, self.now_s))
            case Release(ids):
                self.cluster.release(broker.name, list(ids))
                self._tell(broker, BackendsReleased(self.now_s))
            case RequestSnapshots(ids):
                self.cluster.request_snapshots(broker.name, ids)
            case FetchHistory(after):
                deliveries, through = self.cluster.history(dict(after), limit)
                self._tell(broker, HistoryPulled(dict(after), deliveries, through))
            case FetchSession(subscriber):
                session = self.coordinator.sessions.get(subscriber) if is_certain else None
                self._tell(broker, SessionFetched(subscriber, session, is_certain, self.now_s))
            case Report() as report:
                if report.claims:
                    generations = self.coordinator.claim(broker.name, list(report.claims))
                    self._tell(broker, Claimed(generations))
                    for one, generation in generations.items():
                        session = self.coordinator.sessions.get(one, KeptSession(one, 0, ()))
                        session = replace(session, generation=generation)
                        self._tell(broker, SessionFetched(one, session, True, self.now_s))
                lost = self.coordinator.report(broker.name, report)
                known = {one: version for one, (version, _, _) in report.changed.items()}
                self._tell(broker, Reported(known, report.ended, lost, {}, self.now_s))

    def answer_nothing_certain(self, broker: FakeBroker, call: int = 0) -> None:
        """The same, while the coordinator can't be asked."""
        self.answer(broker, call, is_certain=False)

    def report(self, broker: FakeBroker) -> None:
        if not any(isinstance(one, Report) for one in broker.calls):
            self._tell(broker, ReportDue())

    def tick(self, seconds: float = 0.1) -> None:
        self.now_s += seconds
        for broker in self.brokers:
            self._tell(broker, Ticked(self.now_s))

    def crash(self, broker: FakeBroker) -> None:
        """The process is killed and started again: only the store is left of it."""
        for client in self.clients:
            if client.broker is broker:
                self._forget(client)
        self.cut_lines = [one for one in self.cut_lines if one[0] is not broker]
        broker.calls.clear()
        broker.pulled = None
        broker.keeper = Keeper(broker.store)
        broker.state = self._machine(broker.name)
        self._begin(broker)

    def fill(self, broker: FakeBroker) -> None:
        """The broker's disk is full, which it learns when it stores something, or when it looks."""
        broker.store.is_full = True

    def make_room(self, broker: FakeBroker) -> None:
        broker.store.is_full = False

    def look_for_room(self, broker: FakeBroker) -> None:
        if broker.keeper.owes:
            broker.keeper.keep([])
        self._tell(broker, StoreChecked("the disk is full" if broker.store.is_full else ""))

    def settle(self) -> None:
        """Let everybody come back and everything be answered, until nothing happens any more."""
        self.is_calm = True
        quiet = 0
        while quiet < _QUIET_ROUNDS:
            seen = sum(len(wish.seen) for client in self.clients for wish in client.wishes.values())
            self.tick(0.5)
            self.notice()
            self.serve_snapshots()
            for client in self.clients:
                if client.broker is None:
                    self.connect(client, self.brokers[self._connections % len(self.brokers)])
                self.ask_again(client)
                self.flush(client)
            for broker in self.brokers:
                self.make_room(broker)
                self.look_for_room(broker)
                self.pull(broker)
                self.report(broker)
                while broker.calls:
                    self.answer(broker, limit=3)
            after = sum(len(wish.seen) for client in self.clients for wish in client.wishes.values())
            quiet = quiet + 1 if after == seen else 0

    # Parts

    def _machine(self, name: str) -> BrokerState:
        limits = Limits(max_queued_bytes=16, slow_after_s=5)
        return BrokerState(name, limits, random.Random(0), cache_max_bytes=self._cache_max_bytes)

    def _begin(self, broker: FakeBroker) -> None:
        held = self.cluster.held(broker.name)
        self._tell(broker, Started(broker.store.sessions(), held, self.cluster.sequence, self.now_s))

    def _tell(self, broker: FakeBroker, event: Event) -> None:
        events = [event]
        while events:
            event = events.pop(0)
            self.is_from_connection = hasattr(event, "connection")
            instructions = broker.state.handle(event)
            self.is_from_connection = False
            for one in self._keep(broker, event, instructions, events):
                match one:
                    case Deliver(connection, wires):
                        self._delivered(connection, wires)
                    case Send(connection, message):
                        self._sent(connection, message)
                    case Close(connection):
                        if (client := self._by_connection.get(connection)) is not None:
                            self._forget(client)
                    case (
                        StoreSession()
                        | ForgetSession()
                        | StoreSubscription()
                        | ForgetSubscription()
                        | StorePositions()
                        | StorePresence()
                    ):
                        pass  # done
                    case RecallSession(subscriber):
                        events.append(SessionRecalled(subscriber, broker.keeper.recall(subscriber), self.now_s))
                    case NoteFailure(_, error):
                        if not isinstance(error, self.expected_mistakes):
                            raise error
                    case Acquire() | Release() | RequestSnapshots() | FetchHistory() | FetchSession() | Report():
                        broker.calls.append(one)
                    case _:
                        raise AssertionError(f"nobody carries out {one}")

    def _keep(
        self, broker: FakeBroker, event: Event, instructions: list[Instruction], events: list[Event]
    ) -> list[Instruction]:
        """Store first, as a broker's shell does; returns what is left to do."""
        changes = cast(list[Change], [one for one in instructions if isinstance(one, Change)])
        unkept = broker.keeper.keep(changes, is_asked=isinstance(event, UnsubscribeAsked)) if changes else None
        if unkept is None:
            return instructions
        events.insert(
            0, NotStored(list(unkept.subscribers), unkept.positions, unkept.presence, unkept.refusal, 0, self.now_s)
        )
        withheld = {broker.state.connection_of(one) for one in unkept.subscribers}
        return [one for one in instructions if not (isinstance(one, Send | Deliver) and one.connection in withheld)]

    def _forget(self, client: FakeClient) -> None:
        self._by_connection.pop(client.connection, None)
        client.broker = None
        client.is_welcomed = False

    def _sent(self, connection: int, message: object) -> None:
        client = self._by_connection.get(connection)
        if client is None:
            return
        match message:
            case Welcome():
                client.is_welcomed = True
            case Subscribed():
                client.last.pop(message.subscription, None)  # It says itself where it goes on.
                if (wish := client.wishes.get(message.request)) is not None:
                    self._answered(client, wish, message)
            case HistoryGone():
                client.gone += 1
            case Error():
                if message.request in client.wishes:
                    client.refused.add(message.request)
            case Unsubscribed():
                pass

    def _answered(self, client: FakeClient, wish: Wish, message: Subscribed) -> None:
        wish.subscription = message.subscription
        if wish.begin is None:
            wish.begin, wish.position = Position.parse(message.position).sequence, message.position
        elif not message.recovered:
            client.gone += 1

    def _delivered(self, connection: int, wires: object) -> None:
        client = self._by_connection.get(connection)
        if client is None:
            return
        assert isinstance(wires, list)
        for wire in wires:
            at = Position.parse(wire.decode())
            last = client.last.get(at.epoch)
            assert last is None or at.sequence > last, f"{client.user}: {at} after {last}"
            client.last[at.epoch] = at.sequence
            for wish in client.wishes.values():
                if wish.subscription == at.epoch and at.sequence > Position.parse(wish.position).sequence:
                    wish.seen.append(at.sequence)
                    wish.position = str(at)
