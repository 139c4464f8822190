"""Connected subscribers: from when their connection has a session until it is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tocsin.broker.core import events as ev
from tocsin.broker.core.admission import has_positions
from tocsin.broker.core.claiming import Claims
from tocsin.broker.core.delivery import Delivering
from tocsin.broker.core.instructions import Close, Instruction, Send
from tocsin.broker.core.limits import Quotas
from tocsin.broker.core.locations import LocationReports
from tocsin.broker.core.moves import Moves
from tocsin.broker.core.session_table import Presence, SessionFact
from tocsin.broker.core.sessions import Frontend, Session
from tocsin.broker.core.subscribing import Subscribing
from tocsin.errors import InvalidValue, Unauthorised
from tocsin.model.chance import Chance
from tocsin.model.people import fingerprint
from tocsin.model.position import reached
from tocsin.model.story import Story
from tocsin.protocol import messages
from tocsin.protocol.ports import SubscriberId


@dataclass(slots=True, eq=False)
class Connections:
    _broker: str
    _claims: Claims
    _subscriptions: Subscribing
    _deliveries: Delivering
    _moves: Moves
    _locations: LocationReports
    _quotas: Quotas
    #: Subscribers whose positions are stored with the next tick.
    _acked: dict[Frontend, None]
    _story: Story
    _out: list[Instruction]
    _connections: dict[ev.ConnectionId, Session] = field(init=False, default_factory=dict)
    #: Since when.
    _congested: dict[Session, float] = field(init=False, default_factory=dict)

    def __len__(self) -> int:
        return len(self._connections)

    def get(self, connection: ev.ConnectionId) -> Session | None:
        return self._connections.get(connection)

    def subscribers(self) -> list[SubscriberId]:
        return [one.subscriber for one in self._connections.values()]

    # Coming

    def connect(self, session: Session, arrival: ev.SubscriberArrived, *, is_asked: bool) -> None:
        """Let a subscriber in. `is_asked`: the coordinator has told us what it knows of the session."""
        if session.connection is not None:
            self._out.append(Close(session.connection, messages.CLOSE_REPLACED, "connected again elsewhere"))
            self.disconnect(session)
        self._claims.came_or_went(session)
        if not is_asked and not session.is_nameless:
            self._claims.let_in_unasked(session, has_positions=has_positions(arrival))
        session.learn(SessionFact.CONNECTED)
        session.connection = arrival.connection
        session.arrival = arrival
        self._connections[arrival.connection] = session
        self._quotas.count_connection(session.user, 1)
        for frontend in list(session.frontends.values()):
            if frontend.key.permission != arrival.permission:
                self._subscriptions.detach(frontend, self._story.now_s)  # The permission class has changed since.
            else:
                frontend.go_back()
        if not session.restoring:
            self.welcome(session)

    def welcome(self, session: Session) -> None:
        assert session.connection is not None
        assert session.arrival is not None
        session.learn(SessionFact.WELCOMED)
        welcome = messages.Welcome(session.subscriber, session.device, self._broker, session.described())
        self._out.append(Send(session.connection, welcome))
        for frontend in session.frontends.values():
            frontend.recovered = True  # told once
        if brought := session.arrival.subscriptions:
            session.arrival = replace(session.arrival, subscriptions=())
            for message in brought:
                self._subscriptions.subscribe(session, message)
        self._deliveries.bring_forward(session)
        self._claims.claim_when_whole(session)

    # Going

    def disconnect(self, session: Session) -> None:
        assert session.connection is not None
        assert session.arrival is not None
        unheard = () if session.is_welcomed else session.arrival.subscriptions
        permission = session.arrival.permission
        self._deliveries.park(session)
        self._subscriptions.forget_waiting(session)
        self._moves.gone(session)
        del self._connections[session.connection]
        self._quotas.count_connection(session.user, -1)
        self._congested.pop(session, None)
        session.connection = None
        session.arrival = None
        session.learn(SessionFact.DISCONNECTED)
        session.left_at_s = self._story.now_s
        self._claims.came_or_went(session)
        self._subscriptions.carry_on_brought(session, unheard, permission)

    def lose(self, session: Session) -> None:
        """Its connection is gone."""
        self.disconnect(session)
        self._claims.claim_when_whole(session)

    def close(self, session: Session, code: int, reason: str) -> None:
        assert session.connection is not None
        self._out.append(Close(session.connection, code, reason))
        self.lose(session)

    def refuse(self, session: Session, code: int, reason: str) -> None:
        assert session.connection is not None
        self._out.append(Send(session.connection, messages.error_message(Unauthorised(reason))))
        self.close(session, code, reason)

    def give_up(self, session: Session) -> None:
        """Another broker has claimed its session."""
        if session.connection is not None:
            self.close(session, messages.CLOSE_MOVED, "carried on at another broker")
        self._claims.end(session, lingers=True)

    def close_revoked(self, revoked: Mapping[str, int]) -> None:
        """`revoked` maps users, by name or fingerprint, to a time: their tokens that were issued before it are void."""
        if revoked:
            for session in list(self._connections.values()):
                before_us = max(revoked.get(one, 0) for one in (session.user, fingerprint(session.user)))
                if session.arrival is not None and session.arrival.issued_at_us < before_us:
                    self.refuse(session, messages.CLOSE_REFUSED, "the token has been revoked")

    def close_expired(self, now_s: float) -> None:
        for session in list(self._connections.values()):
            if session.arrival is not None and session.arrival.expires_at_s <= now_s:
                self.refuse(session, messages.CLOSE_EXPIRED, "the token has expired; connect again with a new one")

    def close_slow(self, now_s: float, slow_after_s: float) -> None:
        for session, since_s in list(self._congested.items()):
            if now_s - since_s >= slow_after_s:
                self.close(
                    session, messages.CLOSE_SLOW, "you read too slowly; connect again and carry on from your position"
                )

    def close_overdue(self, now_s: float) -> None:
        """Close those who were told to move, and have not."""
        for session, url in self._moves.overdue(now_s).items():
            self.close(session, messages.CLOSE_MOVED, f"carry on at {url}")

    def send_elsewhere(
        self, placements: Mapping[SubscriberId, tuple[str, str]], chance: Chance, within_ms: int, *, is_ending: bool
    ) -> None:
        """Send everybody away, each at its own time."""
        for session in list(self._connections.values()):
            assert session.connection is not None
            placement = placements.get(session.subscriber)
            if placement is None:
                # There is no other broker. If it has to go all the same, it carries on when there is one.
                if is_ending:
                    self.close(session, messages.CLOSE_DRAINING, "this broker is shutting down; connect to another")
                continue
            broker, url = placement
            after_ms = chance.randrange(within_ms + 1)
            self._out.append(Send(session.connection, messages.Move(to=url, broker=broker, after_ms=after_ms)))

    # Messages of subscribers

    def subscribe_asked(self, event: ev.SubscribeAsked) -> None:
        if (session := self._welcomed(event.connection, event.message.request)) is not None:
            frontend = self._subscriptions.subscribe(session, event.message)
            if frontend is not None:
                self._deliveries.bring_forward(session, frontend)
            elif session.state.is_doubtful:
                self._claims.ask_about(session)

    def unsubscribe_asked(self, event: ev.UnsubscribeAsked) -> None:
        if (session := self._welcomed(event.connection, event.request)) is not None:
            self._subscriptions.unsubscribe(session, event.subscription, event.request, event.now_s)

    def _welcomed(self, connection: ev.ConnectionId, request: int) -> Session | None:
        """The session of a connection. A subscriber who asks for something before `welcome` has to wait for it."""
        session = self._connections.get(connection)
        if session is not None and session.is_welcomed:
            return session
        early = InvalidValue("wait for `welcome` before you subscribe or unsubscribe, or subscribe in `hello`")
        self._out.append(Send(connection, messages.error_message(early, request)))
        return None

    def acknowledged(self, event: ev.Acknowledged) -> None:
        session = self._connections.get(event.connection)
        if session is None:
            return
        for position in event.positions:
            frontend = session.frontends.get(position.epoch)
            if frontend is None:
                continue  # It has just been given up.
            # Nobody can have seen results that were not sent: a wrong number must not skip results.
            sent = reached(self._deliveries.through if frontend.live else frontend.sent, frontend.phase)
            acked = min(position.sequence, max(sent, frontend.acked))
            if acked > frontend.acked:
                frontend.acked = acked
                self._acked[frontend] = None

    def location_told(self, event: ev.LocationTold) -> None:
        if (session := self._connections.get(event.connection)) is not None:
            self._locations.tell(session, event.location)

    def coordinate_told(self, event: ev.CoordinateTold) -> None:
        if (session := self._connections.get(event.connection)) is not None:
            self._locations.locate(session, event.located)

    # Congestion

    def congested(self, event: ev.ConnectionCongested) -> None:
        session = self._connections.get(event.connection)
        if session is not None and session not in self._congested:
            session.learn(SessionFact.FILLED)
            self._congested[session] = event.now_s
            self._deliveries.park(session)

    def flushed(self, event: ev.ConnectionFlushed) -> None:
        session = self._connections.get(event.connection)
        if session is not None:
            session.learn(SessionFact.FLUSHED)
            self._congested.pop(session, None)
            self._deliveries.bring_forward(session)

    def violations(self) -> Iterator[tuple[SubscriberId, str]]:
        here = {one.subscriber: one for one in self._connections.values()}
        for subscriber, session in self._claims.sessions.items():
            is_here = session.state.presence is not Presence.AWAY
            if is_here != (here.get(subscriber) is session):
                yield subscriber, f"{session.state}, and among the connections or not"
            if is_here != (session.connection is not None) or is_here != (session.arrival is not None):
                yield subscriber, f"{session.state} with connection {session.connection}"
            if session.state.is_congested != (session in self._congested):
                yield subscriber, f"{session.state}, and among the congested or not"
        for connection, session in self._connections.items():
            if self._claims.sessions.get(session.subscriber) is not session or session.connection != connection:
                yield session.subscriber, f"connection {connection} is of a session that has ended"
        yield from ((one, "is to leave, and not here") for one in self._moves.leaving - here.keys())
        counted: Counter[str] = Counter()
        for session in self._claims.sessions.values():
            counted[session.user] += len(session.frontends) + session.waiting
        for user, count in counted.items():
            if count != self._quotas.subscriptions_of(user):
                yield user, f"has {count} subscriptions, and {self._quotas.subscriptions_of(user)} count"
