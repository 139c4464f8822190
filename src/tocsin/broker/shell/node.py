"""The broker's shell: feeds events to the machine, and carries out its instructions. It decides nothing.

Everything happens on one event loop. Events that come while instructions are being carried out wait until that is done.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Coroutine, Sequence
from typing import Any, assert_never, cast, get_args

import structlog

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as ins
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.core.peers import Peers
from tocsin.broker.core.sessions import NAMELESS
from tocsin.broker.core.storing import Keeper
from tocsin.broker.shell.cluster_calls import ClusterCalls
from tocsin.broker.shell.connections import Connection
from tocsin.broker.shell.coordination import Coordination
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.open_connections import OpenConnections
from tocsin.broker.shell.peer_pings import PeerPings
from tocsin.broker.shell.store import SessionStore
from tocsin.broker.shell.store_watch import StoreWatch
from tocsin.coordinates.located import Located
from tocsin.errors import InvalidValue, TocsinError, Unauthorised, Unavailable
from tocsin.protocol import messages
from tocsin.protocol.ports import ClusterPort
from tocsin.protocol.subscribers import is_name
from tocsin.runtime.clock import Clock
from tocsin.settings import BrokerSettings

log = structlog.get_logger(__name__)

_TICK_EVERY_S = 0.1
_STORED = frozenset(get_args(ins.Change))


class BrokerNode:
    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        store: SessionStore,
        cluster: ClusterPort,
        coordination: Coordination,
        clock: Clock,
        metrics: BrokerMetrics,
    ) -> None:
        self._settings = settings
        self._state = state
        self._store = store
        self._keeper = Keeper(store)
        self.store_watch = StoreWatch(store, self._keeper, self.happened)
        self._cluster = ClusterCalls(cluster, clock, metrics, self.happened)
        self._coordination = coordination
        self._pings = PeerPings(coordination.peers, settings.broker_token, metrics)
        self._clock = clock
        self._metrics = metrics
        self._events: deque[ev.Event] = deque()
        self._is_busy = False
        self._connections = OpenConnections(settings.hello_timeout_s, settings.idle_after_s)
        self._last_connection = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._empty = asyncio.Event()
        #: The error after which our state may be wrong.
        self._has_failed = asyncio.Event()
        self._failure: Exception | None = None

    @property
    def state(self) -> BrokerState:
        return self._state

    @property
    def peers(self) -> Peers:
        return self._coordination.peers

    def now_s(self) -> float:
        return self._clock.monotonic_s()

    def next_connection(self) -> ev.ConnectionId:
        self._last_connection += 1
        return self._last_connection

    # Life

    async def run(self) -> None:
        """Register, then pull until cancelled. A mistake of our own is raised here, wherever it was made: the state on
        disk is right, so it is safe to begin again from there, and not safe to go on."""
        working, failing = asyncio.ensure_future(self._work()), asyncio.ensure_future(self._has_failed.wait())
        try:
            await asyncio.wait({working, failing}, return_when=asyncio.FIRST_COMPLETED)
            if self._failure is not None:
                raise self._failure
            await working
        finally:
            working.cancel()
            failing.cancel()
            await asyncio.gather(working, failing, return_exceptions=True)

    async def _work(self) -> None:
        await self._coordination.introduce()
        self._spawn(self._coordination.run(self.happened))
        self._spawn(self._pings.run())
        await self._cluster.start(self._store)
        self._coordination.name_given()
        log.info("ready", broker=self._settings.name, sessions=self._state.sessions, held=self._state.backends)
        self._spawn(self._tick())
        await self._cluster.follow(lambda: self._state.through, self._state.held)

    async def drain(self) -> None:
        """Move everybody away; returns when nobody is left, or the time is up and the rest has been closed."""
        self._coordination.is_draining = True
        self.happened(ev.DrainStarted(is_ending=True, now_s=self.now_s()))
        await self._coordination.report_now()
        if self._connections:
            try:
                await asyncio.wait_for(self._empty.wait(), self._settings.drain_timeout_s)
            except TimeoutError:
                log.warning(
                    "the drain takes too long; closing the remaining connections", connections=len(self._connections)
                )
        for connection in self._connections:
            self._drop(connection, messages.CLOSE_IDLE, "this broker is shutting down; connect to another")
        self.happened(ev.Ticked(self.now_s()))
        await self._coordination.report_now()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._cluster.close()
        await self._coordination.close()
        self._store.close()

    # From connections

    def opened(self, connection: Connection) -> None:
        self._connections.add(connection, self.now_s())
        self._empty.clear()

    def received(self, connection: Connection, text: bytes) -> None:
        try:
            message = messages.decode_from_subscriber(text)
            if self._connections.awaits_hello(connection.id) and not isinstance(message, messages.Hello):
                raise Unauthorised("the first message must be `hello` with a token")
            self._take(connection, message)
        except Unauthorised as exc:
            self._metrics.refused.inc()
            connection.send(messages.error_message(exc))
            self._drop(connection, messages.CLOSE_REFUSED, exc.message)
        except TocsinError as exc:
            connection.send(messages.error_message(exc))
        except Exception as exc:  # noqa: BLE001 it is logged
            # An error of the machine has been raised elsewhere too. Any other error concerns only this connection.
            self._failed(connection, exc)

    def congested(self, connection: Connection) -> None:
        self.happened(ev.ConnectionCongested(connection.id, self.now_s()))

    def flushed(self, connection: Connection) -> None:
        self.happened(ev.ConnectionFlushed(connection.id))

    def lost(self, connection: Connection) -> None:
        if self._connections.remove(connection.id):
            self.happened(ev.ConnectionLost(connection.id, self.now_s()))
        if not self._connections:
            self._empty.set()

    def check(self, token: str) -> None:
        """Raises Unauthorised if the token is not valid."""
        self._coordination.check(token, self._clock.now_us())

    def greet(self, connection: Connection, hello: messages.Hello) -> None:
        """A subscriber said hello; raises Unauthorised."""
        if not self._connections.awaits_hello(connection.id):
            raise InvalidValue("`hello` comes once, as the first message")
        if hello.device and not is_name(hello.device):
            raise InvalidValue("a device's name has 1 to 64 letters, digits and any of _ . @ ~ -")
        now_us = self._clock.now_us()
        identity = self._coordination.check(hello.token, now_us)
        self._connections.greeted(connection.id)
        connection.greeted()
        now_s = self.now_s()
        self.happened(
            ev.SubscriberArrived(
                connection=connection.id,
                user=identity.user,
                device=hello.device or f"{NAMELESS}{secrets.token_hex(8)}",
                permission=identity.permission,
                issued_at_us=identity.issued_at_us,
                expires_at_s=now_s + (identity.expires_at_us - now_us) / 1e6,
                subscriptions=hello.subscriptions,
                now_s=now_s,
            )
        )

    def _take(self, connection: Connection, message: messages.FromSubscriber) -> None:
        match message:
            case messages.Hello():
                self.greet(connection, message)
            case messages.Subscribe():
                self.happened(ev.SubscribeAsked(connection.id, message, self.now_s()))
            case messages.Unsubscribe(subscription, request):
                self.happened(ev.UnsubscribeAsked(connection.id, subscription, request, self.now_s()))
            case messages.Ack(positions):
                self.happened(ev.Acknowledged(connection.id, [messages.parse_position(one) for one in positions]))
            case messages.LocationUpdate(x, y):
                self.happened(ev.LocationTold(connection.id, (x, y)))
            case messages.CoordinateUpdate(coordinate, round_trips_ms):
                self.happened(ev.CoordinateTold(connection.id, Located(coordinate, round_trips_ms)))
            case messages.Ping(request):
                connection.send(messages.Pong(request))

    # The machine

    def happened(self, event: ev.Event) -> None:
        """Tell the machine, and carry out its instructions; at once, or after those under way."""
        self._events.append(event)
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._events:
                event = self._events.popleft()
                self._perform(self._keep(event, self._state.handle(event)))
        except Exception as exc:
            self._fail(exc)
            raise
        finally:
            self._is_busy = False

    def _perform(self, instructions: Sequence[ins.Instruction]) -> None:
        for one in instructions:
            match one:
                case ins.Deliver(connection, wires, confirm):
                    self._deliver(connection, wires, confirm=confirm)
                case ins.NoteDelivered(receivers):
                    self._metrics.delivered(receivers, self._clock.now_us())
                case ins.Send(connection, message):
                    self._send(connection, message)
                case ins.Close(connection, code, reason):
                    if (known := self._connections.get(connection)) is not None:
                        self._drop(known, code, reason)
                case ins.Report():
                    self._coordination.take(one)
                case ins.NoteFailure(connection, error):
                    self._note_failure(error, connection=connection)
                case ins.RecallSession(subscriber):
                    session = self._keeper.recall(subscriber)
                    self._events.append(ev.SessionRecalled(subscriber, session, self.now_s()))
                case ins.StoreSession() | ins.ForgetSession() | ins.StoreSubscription() | ins.ForgetSubscription():
                    pass  # It has been stored.
                case ins.StorePositions() | ins.StorePresence():
                    pass  # The same.
                case _:
                    self._call(one)

    def _call(self, call: ins.Call) -> None:
        """Call the cluster or the coordinator; the answers are events."""
        match call:
            case ins.Acquire(keys):
                self._spawn(self._cluster.acquire(keys))
            case ins.Release(ids):
                self._spawn(self._cluster.release(ids))
            case ins.RequestSnapshots(ids):
                self._spawn(self._cluster.request_snapshots(ids))
            case ins.FetchHistory(after):
                self._spawn(self._cluster.fetch_history(dict(after), self._state.through))
            case ins.FetchSession(subscriber):
                self._spawn(self._fetch_session(subscriber))
            case ins.PublishLocations(locations):
                self._spawn(self._cluster.publish_locations(self._settings.locations_feed, locations))
            case ins.RequestMoves(subscribers):
                self._spawn(self._coordination.request_moves(subscribers))
            case _:
                assert_never(call)

    def _keep(self, event: ev.Event, instructions: Sequence[ins.Instruction]) -> Sequence[ins.Instruction]:
        """Store changes before anything is answered: a promise to a subscriber outlives this process.

        Returns the instructions that are left. Subscribers whose changes could not be stored are told nothing of them.
        """
        # Nearly all instructions are deliveries: a look at the type is all they cost here.
        changes = [one for one in instructions if type(one) in _STORED]
        if not changes:
            return instructions
        unkept = self._keeper.keep(cast(list[ins.Change], changes), is_asked=isinstance(event, ev.UnsubscribeAsked))
        if not all(isinstance(one, ins.StorePositions | ins.StorePresence) for one in changes):
            self._coordination.report_soon()
        if unkept is None:
            return instructions
        if unkept.subscribers:
            self._note_failure(unkept.error, unstored=len(unkept.subscribers))
        request = _request_of(event)
        self._events.appendleft(
            ev.NotStored(
                list(unkept.subscribers), unkept.positions, unkept.presence, unkept.refusal, request, self.now_s()
            )
        )
        if isinstance(unkept.error, Unavailable):
            self.store_watch.note(unkept.error.message)
        withheld = {self._state.connection_of(one) for one in unkept.subscribers}
        return [
            one for one in instructions if not (isinstance(one, ins.Send | ins.Deliver) and one.connection in withheld)
        ]

    def _note_failure(self, error: Exception, **what: Any) -> None:
        self._metrics.failures.inc()
        log.error("an internal error; the subscribers concerned go on from the store", exc_info=error, **what)

    def _failed(self, connection: Connection, error: Exception) -> None:
        """We can't deal with this connection."""
        self._note_failure(error, connection=connection.id)
        self._drop(
            connection,
            messages.CLOSE_FAILED,
            "this broker had an internal error; connect again and carry on from your position",
        )

    def _send(self, connection: ev.ConnectionId, message: messages.FromBroker) -> None:
        known = self._connections.get(connection)
        if known is None:
            return
        try:
            known.send(message)
        except Exception as exc:  # noqa: BLE001 it is logged
            self._failed(known, exc)

    def _deliver(self, connection: ev.ConnectionId, wires: Sequence[bytes], *, confirm: bool) -> None:
        known = self._connections.get(connection)
        if known is None:
            return
        try:
            self._metrics.bytes_out += known.deliver(wires)
        except Exception as exc:  # noqa: BLE001 it is logged
            self._failed(known, exc)
            return
        if confirm and not known.is_congested():
            self._events.append(ev.ConnectionFlushed(connection))

    def _drop(self, connection: Connection, code: int, reason: str) -> None:
        """Close a connection, and tell the machine nothing more of it."""
        self._metrics.closed.labels(str(code)).inc()
        self.lost(connection)
        connection.close(code, reason)

    async def _fetch_session(self, subscriber: str) -> None:
        session, is_certain = await self._coordination.session(subscriber)
        self.happened(ev.SessionFetched(subscriber, session, is_certain, self.now_s()))

    # Time

    async def _tick(self) -> None:
        looked_at_s = self.now_s()
        while True:
            await asyncio.sleep(_TICK_EVERY_S)
            now_s = self.now_s()
            self.happened(ev.Ticked(now_s))
            if now_s - looked_at_s >= 1:
                looked_at_s = now_s
                self._close_silent(now_s)
                self.store_watch.check_if_due(now_s)

    def _close_silent(self, now_s: float) -> None:
        for connection, reason in self._connections.overdue(now_s):
            self._drop(connection, messages.CLOSE_IDLE, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(exc := task.exception(), Exception):
            log.error("a task of the broker failed", exc_info=exc)
            self._fail(exc)

    def _fail(self, exc: Exception) -> None:
        self._failure = self._failure or exc
        self._has_failed.set()


def _request_of(event: ev.Event) -> int:
    """The number under which a subscriber asked for something; 0 if it did not."""
    match event:
        case ev.SubscribeAsked(_, message):
            return message.request
        case ev.UnsubscribeAsked(_, _, request):
            return request
    return 0
