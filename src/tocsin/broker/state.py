"""The broker's machine: what happened in, what to do out. It decides everything and touches nothing.

A session is what is kept for a subscriber, connected or not. It is the broker's own from when the broker has taken over
all of the session's subscriptions and claimed it, until it ends, or another broker claims it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tocsin.broker.cache import ResultCache
from tocsin.broker.delivery import DeliveryDesk
from tocsin.broker.door import Door, brings_all
from tocsin.broker.events import (
    Acknowledged,
    BackendsAcquired,
    BackendsReleased,
    Claimed,
    Close,
    ConnectionCongested,
    ConnectionFlushed,
    ConnectionId,
    ConnectionLost,
    CursorLost,
    DrainEnded,
    DrainStarted,
    Event,
    FetchSession,
    ForgetSession,
    HandoverPlaced,
    HistoryLost,
    HistoryPulled,
    Instruction,
    KeptSession,
    NoteFailure,
    NotStored,
    Ordered,
    PlaceElsewhere,
    PlacesPublished,
    PlaceTold,
    RecallSession,
    ReportDue,
    Reported,
    ResultsPulled,
    Send,
    SessionFetched,
    SessionRecalled,
    Started,
    StoreChecked,
    StorePositions,
    StorePresence,
    StoreSession,
    SubscribeAsked,
    SubscriberArrived,
    SubscriberId,
    Ticked,
    UnsubscribeAsked,
)
from tocsin.broker.filling import Filling
from tocsin.broker.holdings import Holdings
from tocsin.broker.limits import Limits, Quotas
from tocsin.broker.places import PlaceDesk
from tocsin.broker.relocation import RelocationDesk
from tocsin.broker.reports import ReportDesk
from tocsin.broker.sessions import Frontend, Session, behind
from tocsin.broker.subscribing import SubscriptionDesk
from tocsin.errors import InvalidValue, TocsinError, Unauthorised
from tocsin.model.chance import Chance
from tocsin.model.people import fingerprint
from tocsin.model.position import Position
from tocsin.protocol.messages import (
    CLOSE_DRAINING,
    CLOSE_EXPIRED,
    CLOSE_FAILED,
    CLOSE_MOVED,
    CLOSE_REFUSED,
    CLOSE_REPLACED,
    CLOSE_SLOW,
    Move,
    Welcome,
    error_message,
)

#: A backend subscription that was left because its subscribers went elsewhere is held for this long after: if the
#: other broker has somehow not taken it over yet, its history must not end.
_LINGER_S = 30.0
#: One that the coordinator was not told of is not known to who claimed the session: only its subscriber can bring it
#: there, and that may be away for longer.
_UNTOLD_LINGER_S = 600.0
#: How often sessions and tokens are looked through for those whose time has come.
_SWEEP_EVERY_S = 5.0
#: Sessions that the coordinator is asked about with one report.
_MAX_CONFIRMED = 200
#: When draining, moves are spread over this part of the time there is.
_MOVE_SPREAD = 0.5
_FAILED = "something failed here; come back and carry on from your position"


class BrokerState:
    """`handle` is the only way in; what it returns is the only way out."""

    def __init__(
        self,
        name: str,
        limits: Limits,
        chance: Chance,
        *,
        cache_policy: str = "lru",
        cache_max_bytes: int = 64 << 20,
        cache_ttl_s: float = 600,
        drain_timeout_s: float = 20,
        publishes_places: bool = False,
    ) -> None:
        self.name = name
        self._limits = limits
        self._chance = chance
        self._drain_timeout_s = drain_timeout_s
        self._out: list[Instruction] = []
        self.cache = ResultCache(cache_policy, max_bytes=cache_max_bytes, ttl_s=cache_ttl_s, left=self._behind)
        self._holdings = Holdings(self._out)
        self._deliveries = DeliveryDesk(self._holdings, self.cache, self._out, chunk_bytes=limits.max_queued_bytes)
        self._quotas = Quotas(limits)
        self._door = Door(self._quotas, self._out)
        self._reports = ReportDesk()
        #: Whose positions are to be stored with the next tick.
        self._acked: dict[Frontend, None] = {}
        self._filling = Filling()
        self._subscriptions = SubscriptionDesk(
            self._holdings, self._deliveries, self._quotas, self._reports, self._acked, self._filling, self._out
        )
        self._relocation = RelocationDesk(self._holdings, self._filling, self._out)
        self._places = PlaceDesk(self._out, publishes=publishes_places)
        #: Away, and to be carried on here; the coordinator is being asked for what is kept for them.
        self._adopting: set[SubscriberId] = set()
        #: Let go of while our claim was on its way, with its generation: their former broker lets go of them now, so
        #: what was kept for them has to be carried on here.
        self._orphans: dict[SubscriberId, int] = {}
        self._sessions: dict[SubscriberId, Session] = {}
        self._connections: dict[ConnectionId, Session] = {}
        #: Whom the answer lets in that is being looked at.
        self._let_in: ConnectionId | None = None
        self._congested: dict[Session, None] = {}
        #: Who has come or gone since that was last stored.
        self._presence: dict[SubscriberId, None] = {}
        self._next_sweep_s = 0.0
        self._has_unconfirmed = False
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            Started: self._started,
            SubscriberArrived: self._subscriber_arrived,
            SessionFetched: self._session_fetched,
            SubscribeAsked: self._subscribe_asked,
            UnsubscribeAsked: self._unsubscribe_asked,
            Acknowledged: self._acknowledged,
            PlaceTold: self._place_told,
            PlacesPublished: lambda event: self._places.published(is_done=event.is_done),
            ConnectionLost: self._connection_lost,
            ConnectionCongested: self._connection_congested,
            ConnectionFlushed: self._connection_flushed,
            BackendsAcquired: self._backends_acquired,
            BackendsReleased: lambda _: self._holdings.released(),
            ResultsPulled: self._deliveries.take,
            CursorLost: self._cursor_lost,
            HistoryPulled: self._history_pulled,
            HistoryLost: self._history_lost,
            ReportDue: self._report_due,
            Claimed: self._claimed,
            Reported: self._reported,
            Ordered: self._ordered,
            DrainStarted: self._drain_started,
            DrainEnded: lambda _: self._door.stop_draining(),
            HandoverPlaced: self._handover_placed,
            NotStored: self._not_stored,
            StoreChecked: self._store_checked,
            SessionRecalled: self._session_recalled,
            Ticked: self._ticked,
        }
        self._now_s = 0.0

    def handle(self, event: Event) -> list[Instruction]:
        """Take note of what happened; returns what to do about it, in this order."""
        self._now_s = getattr(event, "now_s", self._now_s)
        try:
            self._handlers[type(event)](event)
        except Exception as exc:  # noqa: BLE001 it is noted, or raised again
            self._set_back_who_failed(event, exc)
        self._deliveries.fetch()
        for backend in self._holdings.call(self._now_s):
            self._deliveries.close(backend)
        instructions = self._out[:]
        self._out.clear()
        return instructions

    def _set_back_who_failed(self, event: Event, error: Exception) -> None:
        """We made a mistake with what one connection sent: it is closed, and its session goes on from the store.

        Nothing of what was begun is done: all of it is that session's. An error that is nobody's is raised again.
        """
        connection: ConnectionId | None = getattr(event, "connection", None)
        if isinstance(event, SessionFetched):
            connection = self._let_in
        if connection is None:
            raise error
        session = self._connections.get(connection)
        if session is None and isinstance(event, SubscriberArrived):
            session = self._sessions.get(f"{event.user}/{event.device}")
        elif session is None and isinstance(event, SessionFetched):
            session = self._sessions.get(event.subscriber)
        self._undo(connection, session, error, 0)

    def _undo(self, connection: ConnectionId, session: Session | None, error: Exception, begin: int) -> None:
        """Do nothing of what is to be done from `begin` on, and set back whose it is."""
        # Those that it replaces are forgotten already, and have to be closed.
        self._out[begin:] = [
            one for one in self._out[begin:] if isinstance(one, Close) and one.connection != connection
        ]
        self._out.append(NoteFailure(connection, error))
        self._out.append(Close(connection, CLOSE_FAILED, _FAILED))
        self._door.lose(connection)
        if session is not None:
            self._set_back(session, _FAILED)

    def _set_back(self, session: Session, reason: str) -> None:
        """Forget what we made of a session, and go on with what the store has of it."""
        if session.connection is not None:
            self._out.append(Close(session.connection, CLOSE_FAILED, reason))
            self._disconnect(session)
        self._reports.forget(session)
        self._drop(session, self._now_s + _LINGER_S)
        self._out.append(RecallSession(session.subscriber))

    # What others may look at

    @property
    def through(self) -> int:
        return self._deliveries.through

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def sessions(self) -> int:
        return len(self._sessions)

    @property
    def backends(self) -> int:
        return len(self._holdings)

    @property
    def frontends(self) -> int:
        return sum(len(one.frontends) for one in self._holdings.backends())

    @property
    def deliveries(self) -> int:
        return self._deliveries.deliveries

    @property
    def resumed(self) -> int:
        """Subscriptions that went on after a position."""
        return self._subscriptions.resumed

    @property
    def resume_gaps(self) -> int:
        """Those that could not, or not without a gap."""
        return self._subscriptions.not_resumed + self._deliveries.told_gone

    @property
    def is_draining(self) -> bool:
        return self._door.is_draining

    @property
    def is_started(self) -> bool:
        return self._door.is_started

    @property
    def unwritable(self) -> str:
        """Why the store takes no changes; empty while it does."""
        return self._subscriptions.unwritable

    def kept(self) -> list[KeptSession]:
        """What the store holds, once everything has been stored that was asked for."""
        return [session.kept() for session in self._sessions.values()]

    def connection_of(self, subscriber: SubscriberId) -> ConnectionId | None:
        session = self._sessions.get(subscriber)
        return None if session is None else session.connection

    def held(self) -> frozenset[int]:
        """The backend subscriptions that the cluster lists as ours, as far as we know."""
        return frozenset(backend.id for backend in self._holdings.backends() if not backend.has_ended)

    # Starting

    def _started(self, event: Started) -> None:
        self._door.is_started = True
        self._deliveries.start(event.cursor)
        for held in event.held:
            self._filling.learn(held.channel, held.filled)
            self._deliveries.open(self._holdings.add(held, next_pull=0))
        for kept in event.sessions:
            self._claim_when_whole(self._take_from_store(kept))
        # What was lingering when we were killed lingers anew: whose it was, nobody can tell any more.
        for backend in self._holdings.backends():
            if not backend.frontends:
                self._holdings.let_go(backend, event.now_s + _LINGER_S)

    def _take_from_store(self, kept: KeptSession) -> Session:
        session = Session(kept.subscriber, kept.generation, left_at_s=self._now_s - kept.away_s)
        self._begin(session)
        self._subscriptions.restore(session, kept, is_stored=True)
        if not session.generation:
            session.is_unconfirmed = self._has_unconfirmed = True
            self._out.append(FetchSession(session.subscriber))
        return session

    # Coming and going

    def _subscriber_arrived(self, event: SubscriberArrived) -> None:
        subscriber = f"{event.user}/{event.device}"
        session = self._sessions.get(subscriber)
        replaces = session is not None and session.connection is not None
        if not self._door.admits(event, len(self._connections), replaces=replaces):
            return
        refusal = None if session is not None else self._subscriptions.refuse_change() or self._make_room(event.user)
        if refusal is not None:
            self._door.send_away(event, refusal)
            return
        if session is not None and brings_all(event):
            self._door.turn_away_earlier(subscriber)
            self._connect(session, event)
        else:
            # What we keep for it may be old: another broker may have carried it on since, and we not have heard of it.
            self._door.keep_waiting(subscriber, event)

    def _make_room(self, user: str) -> TocsinError | None:
        """Why nothing can be kept for another device of a user; what is kept for none in particular gives way."""
        refusal = self._quotas.refuse_session(user)
        if refusal is None or (oldest := self._quotas.oldest_nameless(user)) is None:
            return refusal
        self._reports.ended(oldest)
        self._end(oldest, self._now_s)
        return None

    def _begin(self, session: Session) -> None:
        self._sessions[session.subscriber] = session
        self._orphans.pop(session.subscriber, None)
        self._quotas.hold_session(session)
        self._presence[session.subscriber] = None

    def _session_fetched(self, event: SessionFetched) -> None:
        known = self._sessions.get(event.subscriber)
        arrival = self._door.take(event.subscriber, is_certain=event.is_certain or known is not None)
        self._let_in = None if arrival is None else arrival.connection
        is_old = known is not None and known.generation and _is_newer(event, known)
        if known is not None and is_old and not self._subscriptions.unwritable:
            self._lose(known)
        elif known is not None and not is_old:
            self._confirm(known, event)
            if arrival is not None:
                self._connect(known, arrival, is_doubtful=not event.is_certain and not brings_all(arrival))
            return
        if (refusal := self._subscriptions.refuse_change()) is not None:
            self._adopting.discard(event.subscriber)
            if arrival is not None:
                self._door.send_away(arrival, refusal)
            return
        generation = self._orphaned(event)
        is_adopted = event.subscriber in self._adopting and event.is_certain and event.session is not None
        self._adopting.discard(event.subscriber)
        if arrival is None and not is_adopted and not generation:
            return
        session = Session(event.subscriber, generation, is_unconfirmed=not event.is_certain, left_at_s=event.now_s)
        self._has_unconfirmed = self._has_unconfirmed or session.is_unconfirmed
        self._begin(session)
        self._out.append(StoreSession(session.subscriber, session.generation))
        if event.session is not None:
            self._subscriptions.restore(session, event.session)
        if arrival is not None:
            self._connect(session, arrival)
        else:
            self._claim_when_whole(session)

    def _orphaned(self, event: SessionFetched) -> int:
        """The generation with which we own a session that we had let go of; 0 if we do not, or not any more."""
        if not event.is_certain:
            return 0  # Asked again with the next report.
        generation = self._orphans.pop(event.subscriber, 0)
        return generation if event.session is not None and event.session.generation == generation else 0

    def _confirm(self, session: Session, event: SessionFetched) -> None:
        """Take in what another broker has reported of a session that we had kept, or begun, without knowing of it."""
        if not session.is_unconfirmed or not event.is_certain or self._subscriptions.unwritable:
            return  # Asked again with the next report.
        session.is_unconfirmed = session.is_doubtful = False
        if event.session is not None:
            self._subscriptions.restore(session, event.session)
        if session.generation:
            self._out.append(StoreSession(session.subscriber, session.generation))
        self._deliveries.bring_forward(session)
        self._claim_when_whole(session)

    def _connect(self, session: Session, arrival: SubscriberArrived, *, is_doubtful: bool = False) -> None:
        if session.connection is not None:
            self._out.append(Close(session.connection, CLOSE_REPLACED, "connected again elsewhere"))
            self._disconnect(session)
        self._presence[session.subscriber] = None
        if is_doubtful:
            session.is_doubtful = session.is_unconfirmed = self._has_unconfirmed = True
        session.connection = arrival.connection
        session.arrival = arrival
        self._connections[arrival.connection] = session
        self._quotas.count_connection(session.user, 1)
        for frontend in list(session.frontends.values()):
            if frontend.ask.permission != arrival.permission:
                self._subscriptions.detach(frontend, self._now_s)  # What one may see has changed since.
            else:
                frontend.sent = frontend.acked
        if not session.restoring:
            self._welcome(session)

    def _welcome(self, session: Session) -> None:
        assert session.connection is not None
        assert session.arrival is not None
        session.is_welcomed = True
        welcome = Welcome(session.subscriber, session.device, self.name, session.described())
        self._out.append(Send(session.connection, welcome))
        for frontend in session.frontends.values():
            frontend.recovered = True  # told once
        for message in session.arrival.subscriptions:
            self._subscriptions.subscribe(session, message)
        self._deliveries.bring_forward(session)
        self._claim_when_whole(session)

    def _claim_when_whole(self, session: Session) -> None:
        """Claim a session once all that it holds is held by us; until then its former broker keeps holding it."""
        if session.generation:
            self._reports.changed(session)
        elif session.connection is None and not session.frontends and session.is_whole:
            # There is nothing in it, and nobody was told of it. Claimed later, it would take the place of what the
            # subscriber holds elsewhere by then.
            self._reports.forget(session)
            self._end(session, self._now_s)
        elif session.is_whole and not session.waiting and not session.is_unconfirmed:
            self._reports.claim(session)

    def _connection_lost(self, event: ConnectionLost) -> None:
        if (session := self._connections.get(event.connection)) is not None:
            self._disconnect(session)
            self._claim_when_whole(session)
        else:
            self._door.lose(event.connection)

    def _disconnect(self, session: Session) -> None:
        assert session.connection is not None
        assert session.arrival is not None
        unheard = () if session.is_welcomed else session.arrival.subscriptions
        permission = session.arrival.permission
        self._deliveries.park(session)
        self._subscriptions.forget_waiting(session)
        self._relocation.gone(session)
        del self._connections[session.connection]
        self._quotas.count_connection(session.user, -1)
        self._congested.pop(session, None)
        session.connection = None
        session.arrival = None
        session.is_welcomed = False
        session.is_doubtful = False
        session.confirming = False
        session.congested_since_s = None
        session.left_at_s = self._now_s
        self._presence[session.subscriber] = None
        self._subscriptions.carry_on_brought(session, unheard, permission)

    def _close(self, session: Session, code: int, reason: str) -> None:
        assert session.connection is not None
        self._out.append(Close(session.connection, code, reason))
        self._disconnect(session)
        self._claim_when_whole(session)

    def _lose(self, session: Session) -> None:
        """Another broker has claimed it."""
        if session.connection is not None:
            self._close(session, CLOSE_MOVED, "carried on at another broker")
        self._reports.forget(session)
        for frontend in session.frontends.values():
            if not frontend.is_told:
                until_s = self._now_s + _UNTOLD_LINGER_S
                frontend.backend.keep_until_s = max(frontend.backend.keep_until_s, until_s)
        self._end(session, self._now_s + _LINGER_S)

    def _end(self, session: Session, release_at_s: float) -> None:
        """Keep nothing for this subscriber any more."""
        self._drop(session, release_at_s)
        self._out.append(ForgetSession(session.subscriber))

    def _drop(self, session: Session, release_at_s: float) -> None:
        for frontend in list(session.frontends.values()):
            self._subscriptions.detach(frontend, release_at_s, is_session_over=True)
        if not session.is_whole:
            session.restoring.clear()
            session.brought.clear()
            self._holdings.leave_alone(session, is_session_over=True)
        self._places.forget(session)
        self._presence.pop(session.subscriber, None)
        self._quotas.drop_session(session)
        del self._sessions[session.subscriber]

    def _not_stored(self, event: NotStored) -> None:
        for subscriber in event.subscribers:
            if (session := self._sessions.get(subscriber)) is not None:
                if session.connection is not None:
                    self._out.append(Send(session.connection, error_message(event.error, event.request)))
                self._set_back(session, event.error.message)
        for subscriber, ask, position in event.positions:
            known = self._sessions.get(subscriber)
            frontend = None if known is None else known.frontends.get(position.epoch)
            if frontend is not None and frontend.ask == ask:
                self._acked[frontend] = None
        self._presence.update((one, None) for one in event.presence if one in self._sessions)

    def _session_recalled(self, event: SessionRecalled) -> None:
        if event.session is None or event.subscriber in self._sessions:
            return
        # Who has come meanwhile waits for the coordinator's word, as everybody does.
        self._claim_when_whole(self._take_from_store(event.session))

    def _store_checked(self, event: StoreChecked) -> None:
        self._subscriptions.unwritable = event.reason

    def _place_told(self, event: PlaceTold) -> None:
        if (session := self._connections.get(event.connection)) is not None:
            self._places.tell(session, event.place)

    # Subscribing

    def _subscribe_asked(self, event: SubscribeAsked) -> None:
        if (session := self._welcomed(event.connection, event.message.request)) is not None:
            self._subscriptions.subscribe(session, event.message)
            self._deliveries.bring_forward(session)

    def _unsubscribe_asked(self, event: UnsubscribeAsked) -> None:
        if (session := self._welcomed(event.connection, event.request)) is not None:
            self._subscriptions.unsubscribe(session, event.subscription, event.request, event.now_s)

    def _welcomed(self, connection: ConnectionId, request: int) -> Session | None:
        """The session of a connection; who asks for something before `welcome` is told to wait for it."""
        session = self._connections.get(connection)
        if session is not None and session.is_welcomed:
            return session
        early = InvalidValue("wait for `welcome` before you subscribe or unsubscribe, or subscribe in `hello`")
        self._out.append(Send(connection, error_message(early, request)))
        return None

    def _backends_acquired(self, event: BackendsAcquired) -> None:
        woken = self._subscriptions.acquired(event)
        self._relocation.acquired(event)
        for session in woken:
            if session.restoring or self._sessions.get(session.subscriber) is not session:
                continue
            if (connection := session.connection) is not None and not session.is_welcomed:
                begin = len(self._out)
                try:
                    self._welcome(session)
                except Exception as exc:  # noqa: BLE001 it is noted
                    self._undo(connection, session, exc, begin)
            else:
                self._deliveries.bring_forward(session)
                self._claim_when_whole(session)

    # Delivering

    def _acknowledged(self, event: Acknowledged) -> None:
        session = self._connections.get(event.connection)
        if session is None:
            return
        for position in event.positions:
            frontend = session.frontends.get(position.epoch)
            if frontend is None:
                continue  # It has just been given up.
            # Nobody can have seen what was not sent: a wrong number must not skip results.
            sent = self._deliveries.through if frontend.live else frontend.sent
            acked = min(position.sequence, max(sent, frontend.acked))
            if acked > frontend.acked:
                frontend.acked = acked
                self._acked[frontend] = None

    def _connection_congested(self, event: ConnectionCongested) -> None:
        session = self._connections.get(event.connection)
        if session is not None and session.congested_since_s is None:
            session.congested_since_s = event.now_s
            self._congested[session] = None
            self._deliveries.park(session)

    def _connection_flushed(self, event: ConnectionFlushed) -> None:
        session = self._connections.get(event.connection)
        if session is not None:
            session.congested_since_s = None
            session.confirming = False
            self._congested.pop(session, None)
            self._deliveries.bring_forward(session)

    def _history_pulled(self, event: HistoryPulled) -> None:
        self._deliveries.take_history(event, self._now_s)

    def _history_lost(self, event: HistoryLost) -> None:
        for frontend in self._deliveries.lose_history(event):
            self._acked[frontend] = None

    def _cursor_lost(self, event: CursorLost) -> None:
        for frontend in self._deliveries.lose_cursor(event):
            self._acked[frontend] = None

    # The coordinator

    def _report_due(self, _event: ReportDue) -> None:
        if self._has_unconfirmed:
            unconfirmed = [one for one in self._sessions.values() if one.is_unconfirmed]
            self._has_unconfirmed = bool(unconfirmed)
            self._out.extend(FetchSession(one.subscriber) for one in unconfirmed[:_MAX_CONFIRMED])
        self._out.extend(FetchSession(one) for one in list(self._orphans)[:_MAX_CONFIRMED])
        pulled_bytes, prepared = self._deliveries.pulled_bytes(), self._relocation.prepared()
        self._out.append(self._reports.next_report(pulled_bytes, prepared, self._places.unreported()))

    def _claimed(self, event: Claimed) -> None:
        for subscriber, generation in event.generations.items():
            if (session := self._sessions.get(subscriber)) is not None:
                self._reports.claimed(session, generation)
                # Its former owner may have reported more since we asked; from now on it can't. So nothing is reported
                # before we have seen that, for our report would take its place. Nor is the claim stored before: a
                # session that is ours is reported as it was stored.
                session.is_unconfirmed = self._has_unconfirmed = True
            else:
                self._orphans[subscriber] = generation

    def _reported(self, event: Reported) -> None:
        self._reports.reported(event.subscribers, event.ended, frozenset(event.lost))
        self._relocation.told(event.prepared)
        self._places.reported(event.places)
        for subscriber in event.lost:
            session = self._sessions.get(subscriber)
            if session is not None and session.generation:
                self._lose(session)
            # Else it has come back since, and is not claimed yet: the claim decides.
        if event.revoked:
            for session in list(self._connections.values()):
                before_us = max(event.revoked.get(one, 0) for one in (session.user, fingerprint(session.user)))
                if session.arrival is not None and session.arrival.issued_at_us < before_us:
                    self._refuse(session, CLOSE_REFUSED, "the token has been revoked")
        if event.forgotten:
            self._forget(event.forgotten)

    def _forget(self, people: Mapping[str, int]) -> None:
        """Keep nothing that names these people: neither their sessions nor what others follow with the name."""
        for session in list(self._sessions.values()):
            if fingerprint(session.user) not in people:
                self._subscriptions.forget_people(session, people, self._now_s)
            elif session.connection is None:  # Else somebody has taken the name since, with a token of their own.
                self._reports.ended(session)
                self._places.forget_user(session)
                self._end(session, self._now_s)

    def _ordered(self, event: Ordered) -> None:
        for subscriber, asks in event.prepare.items():
            self._relocation.prepare(subscriber, asks, event.now_s)
        for subscriber in event.adopt:
            if subscriber not in self._sessions and subscriber not in self._adopting:
                self._adopting.add(subscriber)
                self._out.append(FetchSession(subscriber))
        for subscriber, (broker, url) in event.move.items():
            if (session := self._sessions.get(subscriber)) is not None:
                self._relocation.send_away(session, broker, url, event.now_s)

    # Leaving

    def _drain_started(self, event: DrainStarted) -> None:
        self._door.drain(is_ending=event.is_ending)
        if self._connections and event.is_ending:
            # When operators want it, the coordinator has it done by a plan.
            self._out.append(PlaceElsewhere([one.subscriber for one in self._connections.values()]))

    def _handover_placed(self, event: HandoverPlaced) -> None:
        spread_ms = int(self._drain_timeout_s * _MOVE_SPREAD * 1000)
        for session in list(self._connections.values()):
            assert session.connection is not None
            placement = event.placements.get(session.subscriber)
            if placement is None:
                # There is nowhere to go. If it has to go all the same, it carries on when there is.
                if self._door.is_ending:
                    self._close(session, CLOSE_DRAINING, "this broker is shutting down; come back at another")
                continue
            broker, url = placement
            after_ms = self._chance.randrange(spread_ms + 1)
            self._out.append(Send(session.connection, Move(to=url, broker=broker, after_ms=after_ms)))

    # Time

    def _ticked(self, event: Ticked) -> None:
        self._places.publish_if_due(event.now_s)
        if self._acked:
            acked = list(self._acked)
            self._acked.clear()
            for frontend in acked:
                self._reports.moved_on(frontend.session)
            self._out.append(
                StorePositions(
                    [(one.session.subscriber, one.ask, Position(one.backend.id, one.acked)) for one in acked]
                )
            )
        if self._presence:
            present, self._presence = self._presence, {}
            self._out.append(StorePresence({one: self._sessions[one].away_s(event.now_s) for one in present}))
        for session in list(self._congested):
            assert session.congested_since_s is not None
            if event.now_s - session.congested_since_s >= self._limits.slow_after_s:
                self._close(session, CLOSE_SLOW, "you read too slowly; come back and carry on from your position")
        for session, url in self._relocation.overdue(event.now_s).items():
            self._close(session, CLOSE_MOVED, f"carry on at {url}")
        if event.now_s >= self._next_sweep_s:
            self._next_sweep_s = event.now_s + _SWEEP_EVERY_S
            self._sweep(event.now_s)

    def _sweep(self, now_s: float) -> None:
        """Close connections whose token has expired; end sessions whose subscriber has stayed away too long."""
        self.cache.expire(now_s)
        for session in list(self._connections.values()):
            if session.arrival is not None and session.arrival.expires_at_s <= now_s:
                self._refuse(session, CLOSE_EXPIRED, "the token has expired; come back with a new one")
        for session in list(self._sessions.values()):
            limit_s = self._limits.nameless_retention_s if session.is_nameless else self._limits.device_retention_s
            if session.connection is None and now_s - session.left_at_s >= limit_s:
                self._reports.ended(session)
                self._end(session, now_s)

    # Parts

    def _refuse(self, session: Session, code: int, reason: str) -> None:
        assert session.connection is not None
        self._out.append(Send(session.connection, error_message(Unauthorised(reason))))
        self._close(session, code, reason)

    def _behind(self, subscription: int) -> int:
        """How many subscribers may still need what is in the cache."""
        backend = self._holdings.get(subscription)
        return 0 if backend is None else behind(list(backend.frontends.values()))


def _is_newer(event: SessionFetched, known: Session) -> bool:
    """Whether another broker has claimed the session since we did."""
    return event.session is not None and event.session.generation > known.generation
