"""The sessions that are kept here, from beginning to end, and which of them are ours.

A session is kept for a subscriber, connected or not. A broker owns it from when it has taken over all of the session's
subscriptions and claimed it, until the session ends, or another broker claims it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as ins
from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.delivery import Delivering
from tocsin.broker.core.limits import Quotas
from tocsin.broker.core.locations import LocationReports
from tocsin.broker.core.reports import Reporting
from tocsin.broker.core.session_table import Ownership, Presence, SessionFact, first_state
from tocsin.broker.core.sessions import Session
from tocsin.broker.core.subscribing import Subscribing
from tocsin.model.position import Phase
from tocsin.model.story import Story
from tocsin.protocol.ports import KeptSession, SubscriberId

#: When the subscribers of a backend subscription have gone elsewhere, it is held for this long after: if the other
#: broker has not taken it over yet, its history must not end.
_LINGER_S = 30.0
#: The same, if the coordinator was not told of it. The broker that claimed the session does not know it then: only the
#: subscriber can bring it there, and may be away for longer.
_UNTOLD_LINGER_S = 600.0
#: Sessions that the coordinator is asked about with one report.
_MAX_CONFIRMED = 200


@dataclass(slots=True, eq=False)
class Claims:
    _holdings: Holdings
    _subscriptions: Subscribing
    _deliveries: Delivering
    _reports: Reporting
    _locations: LocationReports
    _quotas: Quotas
    _story: Story
    _out: list[ins.Instruction]
    sessions: dict[SubscriberId, Session] = field(init=False, default_factory=dict)
    #: Away, and to be carried on here; the coordinator is being asked for their sessions.
    _adopting: set[SubscriberId] = field(init=False, default_factory=set)
    #: Dropped while our claim was on its way, with the claim's generation. Their former broker drops them now, so
    #: their sessions have to be carried on here.
    _orphans: dict[SubscriberId, int] = field(init=False, default_factory=dict)
    #: Subscribers who have come or gone since presence was last stored.
    _presence: dict[SubscriberId, None] = field(init=False, default_factory=dict)
    #: False if certainly no session is unconfirmed.
    _has_unconfirmed: bool = field(init=False, default=False)

    # Beginning

    def start(self, stored: Iterable[KeptSession]) -> None:
        for kept in stored:
            self.take_from_store(kept)
        # Backends that lingered when we were killed linger anew: nobody can tell any more whose they were.
        for backend in self._holdings.backends():
            if not backend.frontends:
                self._holdings.let_go(backend, self._story.now_s + _LINGER_S)

    def take_from_store(self, kept: KeptSession) -> None:
        is_ours = kept.generation > 0
        left_at_s = self._story.now_s - kept.away_s
        session = self._begin(kept.subscriber, kept.generation, is_confirmed=is_ours, left_at_s=left_at_s)
        self._subscriptions.restore(session, kept, is_stored=True)
        if not is_ours:
            self._out.append(ins.FetchSession(session.subscriber))
        self.claim_when_whole(session)

    def begin(self, event: ev.SessionFetched, generation: int) -> Session:
        """Carry on a session as the coordinator knows it, or begin one."""
        left_at_s = self._story.now_s
        session = self._begin(event.subscriber, generation, is_confirmed=event.is_certain, left_at_s=left_at_s)
        self._out.append(ins.StoreSession(session.subscriber, session.generation))
        if event.session is not None:
            self._subscriptions.restore(session, event.session)
        return session

    def _begin(self, subscriber: SubscriberId, generation: int, *, is_confirmed: bool, left_at_s: float) -> Session:
        state = first_state(is_owned=generation > 0, is_confirmed=is_confirmed)
        session = Session(subscriber, self._story, state, generation, left_at_s=left_at_s)
        self._story.note(subscriber, "begun: {}", state)
        self._has_unconfirmed = self._has_unconfirmed or not is_confirmed
        self.sessions[subscriber] = session
        self._orphans.pop(subscriber, None)
        self._quotas.hold_session(session)
        self._presence[subscriber] = None
        return session

    # Knowledge of other brokers

    def confirm(self, session: Session, event: ev.SessionFetched) -> None:
        """Take in another broker's report of a session that we had kept, or begun, without knowing the report."""
        if session.state.is_confirmed or not event.is_certain or self._subscriptions.unwritable:
            return  # Asked again with the next report.
        session.learn(SessionFact.CONFIRMED)
        if event.session is not None:
            self._subscriptions.restore(session, event.session)
        self._subscriptions.begin_ended_anew(session)
        if session.state.is_owned:
            session.given_up.clear()  # Our next report replaces what the coordinator has.
            self._out.append(ins.StoreSession(session.subscriber, session.generation))
        self._deliveries.bring_forward(session)
        self.claim_when_whole(session)

    def let_in_unasked(self, session: Session, *, has_positions: bool) -> None:
        """Its subscriber has come, and the coordinator has not told us what it knows of the session."""
        session.learn(SessionFact.TRUSTED if has_positions else SessionFact.DOUBTED)
        self._has_unconfirmed = self._has_unconfirmed or not session.state.is_confirmed

    def ask_about(self, session: Session) -> None:
        """Ask the coordinator now about a session that is not confirmed: its subscriber waits for the answer."""
        self._has_unconfirmed = True
        self._out.append(ins.FetchSession(session.subscriber))

    def ask(self) -> None:
        """Ask the coordinator about sessions that are not confirmed."""
        if self._has_unconfirmed:
            unconfirmed = [one for one in self.sessions.values() if not one.state.is_confirmed]
            self._has_unconfirmed = bool(unconfirmed)
            self._out.extend(ins.FetchSession(one.subscriber) for one in unconfirmed[:_MAX_CONFIRMED])
        self._out.extend(ins.FetchSession(one) for one in list(self._orphans)[:_MAX_CONFIRMED])

    def adopt(self, subscribers: Sequence[SubscriberId]) -> None:
        """Take over the sessions of these subscribers, who are away."""
        for subscriber in subscribers:
            if subscriber not in self.sessions and subscriber not in self._adopting:
                self._adopting.add(subscriber)
                self._out.append(ins.FetchSession(subscriber))

    def ends_adopting(self, event: ev.SessionFetched) -> bool:
        """Whether this is a session to carry on here; we do not wait for it any longer."""
        is_adopted = event.subscriber in self._adopting and event.is_certain and event.session is not None
        self._adopting.discard(event.subscriber)
        return is_adopted

    def orphaned(self, event: ev.SessionFetched) -> int:
        """The generation with which we own a session that we had dropped; 0 if we do not, or not any more."""
        if not event.is_certain:
            return 0  # Asked again with the next report.
        generation = self._orphans.pop(event.subscriber, 0)
        return generation if event.session is not None and event.session.generation == generation else 0

    # Ownership

    def claim_when_whole(self, session: Session) -> None:
        """Claim a session once we hold all its subscriptions; until then its former broker holds them."""
        if session.state.is_owned:
            self._reports.changed(session)
        elif session.connection is None and not session.frontends and session.is_whole:
            # It is empty, and nobody was told of it. Claimed later, it would replace the session that the subscriber
            # has elsewhere by then.
            self.end(session)
        elif session.is_whole and not session.waiting and session.state.is_confirmed:
            self._reports.claim(session)

    def claimed(self, event: ev.Claimed) -> None:
        for subscriber, generation in event.generations.items():
            if (session := self.sessions.get(subscriber)) is not None:
                # Its former owner may have reported more since we asked; from now on it can't. We report nothing
                # before we have seen that report, for ours would replace it. Nor do we store the claim before: a
                # session that is ours is reported as it was stored.
                self._reports.claimed(session, generation)
                self._has_unconfirmed = True
            else:
                self._orphans[subscriber] = generation

    # Presence

    def came_or_went(self, session: Session) -> None:
        self._presence[session.subscriber] = None

    def not_stored(self, presence: Iterable[SubscriberId]) -> None:
        self._presence.update((one, None) for one in presence if one in self.sessions)

    def store_presence(self) -> None:
        if self._presence:
            present, self._presence = self._presence, {}
            now_s = self._story.now_s
            self._out.append(ins.StorePresence({one: self.sessions[one].away_s(now_s) for one in present}))

    def violations(self) -> Iterator[tuple[SubscriberId, str]]:
        for subscriber, session in self.sessions.items():
            if session.state.is_owned != bool(session.generation):
                yield subscriber, f"{session.state} with generation {session.generation}"
            if not session.state.is_confirmed and not self._has_unconfirmed:
                yield subscriber, "unconfirmed, and the coordinator will not be asked"
            if session.waiting and session.connection is None:
                yield subscriber, f"away, and waits for {session.waiting} answers"
            for number, frontend in session.frontends.items():
                backend = frontend.backend
                if number != backend.id or backend.frontends.get(subscriber) is not frontend:
                    yield subscriber, f"subscription {number} is not attached to its backend subscription"
                waits = backend.awaiting.get(session.connection or 0) is frontend
                is_new = frontend.phase is Phase.NEW
                found = (frontend.is_live_in(session.connection), waits)
                if found != (frontend.live and is_new, frontend.live and not is_new):
                    yield subscriber, f"subscription {number} is live for the session or for its backend, not for both"
                if frontend.live and session.state.presence not in (Presence.READY, Presence.SENDING):
                    yield subscriber, f"subscription {number} is live, and the session {session.state}"
        claiming = {one for one, session in self.sessions.items() if session.state.ownership is Ownership.CLAIMING}
        yield from ((one, "claiming, or its claim is to be sent, not both") for one in claiming ^ self._reports.claims)
        yield from (
            (one, "the presence of an unknown session is to be stored") for one in self._presence.keys() - self.sessions
        )
        yield from ((one, "both kept and released") for one in self._orphans.keys() & self.sessions)

    # Ending

    def expire(self, session: Session) -> None:
        """Its subscriber has stayed away for too long, or it has to give way: no broker carries it on."""
        self._reports.ended(session)
        self.end(session)

    def end(self, session: Session, *, lingers: bool = False) -> None:
        """Keep nothing for this subscriber any more."""
        if lingers:
            for frontend in session.frontends.values():
                if not frontend.is_told:
                    until_s = self._story.now_s + _UNTOLD_LINGER_S
                    frontend.backend.keep_until_s = max(frontend.backend.keep_until_s, until_s)
        self.drop(session, lingers=lingers)
        self._out.append(ins.ForgetSession(session.subscriber))

    def drop(self, session: Session, *, lingers: bool) -> None:
        """The same, but the store keeps what it has."""
        release_at_s = self._story.now_s + (_LINGER_S if lingers else 0.0)
        self._reports.forget(session)
        for frontend in list(session.frontends.values()):
            self._subscriptions.detach(frontend, release_at_s, is_session_over=True)
        if not session.is_whole:
            session.restoring.clear()
            session.brought.clear()
            session.ended_here.clear()
            self._holdings.leave_alone(session, is_session_over=True)
        self._locations.forget(session)
        self._presence.pop(session.subscriber, None)
        self._quotas.drop_session(session)
        session.learn(SessionFact.ENDED)
        del self.sessions[session.subscriber]
