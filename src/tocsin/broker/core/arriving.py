"""Arriving subscribers: the broker asks for their kept sessions, and then lets them in or sends them away."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.broker.core.admission import Admission, comes_unasked
from tocsin.broker.core.claiming import Claims
from tocsin.broker.core.connecting import Connections
from tocsin.broker.core.events import ConnectionId, ConnectionLost, SessionFetched, SubscriberArrived
from tocsin.broker.core.limits import Quotas
from tocsin.broker.core.sessions import Session
from tocsin.broker.core.subscribing import Subscribing
from tocsin.errors import TocsinError


@dataclass(slots=True, eq=False)
class Arrivals:
    _admission: Admission
    _claims: Claims
    _connections: Connections
    _subscriptions: Subscribing
    _quotas: Quotas
    #: The connection that the current answer lets in.
    _let_in: ConnectionId | None = field(init=False, default=None)
    #: The session whose connection was lost last. If something fails then, the connection is unknown already.
    _lost: Session | None = field(init=False, default=None)

    def arrived(self, event: SubscriberArrived) -> None:
        subscriber = f"{event.user}/{event.device}"
        session = self._claims.sessions.get(subscriber)
        replaces = session is not None and session.connection is not None
        if not self._admission.admits(event, len(self._connections), replaces=replaces):
            return
        refusal = None if session is not None else self._subscriptions.refuse_change() or self._make_room(event.user)
        if refusal is not None:
            self._admission.send_away(event, refusal)
            return
        if session is not None and comes_unasked(event):
            self._admission.turn_away_earlier(subscriber)
            self._connections.connect(session, event, is_asked=False)
        else:
            # Our copy may be old: another broker may have carried the session on since, without our hearing of it.
            self._admission.keep_waiting(subscriber, event)

    def _make_room(self, user: str) -> TocsinError | None:
        """Why nothing can be kept for another device of a user. The session of a nameless device gives way."""
        refusal = self._quotas.refuse_session(user)
        if refusal is None or (oldest := self._quotas.oldest_nameless(user)) is None:
            return refusal
        self._claims.expire(oldest)
        return None

    def session_fetched(self, event: SessionFetched) -> None:
        """The coordinator has answered about a session: for a waiting subscriber, to carry it on, or to confirm it."""
        known = self._claims.sessions.get(event.subscriber)
        arrival = self._admission.take(event.subscriber, is_certain=event.is_certain or known is not None)
        self._let_in = None if arrival is None else arrival.connection
        is_old = known is not None and known.state.is_owned and _is_newer(event, known)
        if known is not None and is_old and not self._subscriptions.unwritable:
            self._connections.give_up(known)
        elif known is not None and not is_old:
            self._claims.confirm(known, event)
            if arrival is not None:
                self._connections.connect(known, arrival, is_asked=event.is_certain)
            return
        is_adopted = self._claims.ends_adopting(event)
        if (refusal := self._subscriptions.refuse_change()) is not None:
            if arrival is not None:
                self._admission.send_away(arrival, refusal)
            return
        generation = self._claims.orphaned(event)
        if arrival is None and not is_adopted and not generation:
            return
        session = self._claims.begin(event, generation)
        if arrival is not None:
            self._connections.connect(session, arrival, is_asked=event.is_certain)
        else:
            self._claims.claim_when_whole(session)

    def lost(self, event: ConnectionLost) -> None:
        self._lost = session = self._connections.get(event.connection)
        if session is not None:
            self._connections.lose(session)
        else:
            self._admission.lose(event.connection)

    def concerned(self, event: object) -> tuple[ConnectionId | None, Session | None]:
        """The connection that an event is about, and its session, as far as they exist."""
        connection: ConnectionId | None = getattr(event, "connection", None)
        if isinstance(event, SessionFetched):
            connection = self._let_in
        session = None if connection is None else self._connections.get(connection)
        if session is None and isinstance(event, SubscriberArrived):
            session = self._claims.sessions.get(f"{event.user}/{event.device}")
        elif session is None and isinstance(event, SessionFetched):
            session = self._claims.sessions.get(event.subscriber)
        elif session is None and isinstance(event, ConnectionLost) and self._lost is not None:
            session = self._claims.sessions.get(self._lost.subscriber)
        return connection, session


def _is_newer(event: SessionFetched, known: Session) -> bool:
    """Whether another broker has claimed the session since we did."""
    return event.session is not None and event.session.generation > known.generation
