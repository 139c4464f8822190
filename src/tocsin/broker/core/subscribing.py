"""Taking, serving and giving up subscriptions: from a subscriber's wish to a hold at the cluster, and back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tocsin.broker.core.backend_holds import Holdings, Waiter
from tocsin.broker.core.delivery import Delivering
from tocsin.broker.core.events import BackendsAcquired
from tocsin.broker.core.filled_parameters import Filling
from tocsin.broker.core.filtering import WRONG, Filtering, failed_filter
from tocsin.broker.core.instructions import ForgetSubscription, Instruction, Send, StoreSubscription
from tocsin.broker.core.limits import Quotas
from tocsin.broker.core.matching import FilterGroup
from tocsin.broker.core.reports import Reporting
from tocsin.broker.core.session_table import SessionFact
from tocsin.broker.core.sessions import Backend, Frontend, Session, describe
from tocsin.errors import (
    FilledOtherwise,
    Forbidden,
    InvalidValue,
    NotFound,
    Overloaded,
    SubscriptionFailed,
    TocsinError,
    TooLarge,
    Unavailable,
)
from tocsin.model.position import Phase, Position, commit_of, reached
from tocsin.protocol import messages
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey, check_key

#: A position that is further ahead of us than this was never given out. A restarted cluster skips 200 numbers for each
#: second since its start before; this many are some years.
_MAX_AHEAD_COMMITS = 1 << 36
#: How long a backend subscription is held for somebody who may have been carried on elsewhere. Longer than the
#: coordinator is usually away.
_KEPT_IN_DOUBT_S = 600.0
#: Subscriptions that somebody gives up within the second or two that a claim takes.
_MAX_GIVEN_UP = 1_000


@dataclass(slots=True, eq=False)
class Subscribing:
    _holdings: Holdings
    _deliveries: Delivering
    _quotas: Quotas
    _reports: Reporting
    #: Subscribers whose positions are stored with the next tick.
    _moved_on: dict[Frontend, None]
    _filling: Filling
    _filtering: Filtering
    _out: list[Instruction]
    #: Why the store takes no changes; empty while it does. Until it does, nothing is begun that has to be stored.
    unwritable: str = field(init=False, default="")
    #: Subscriptions that went on after a position, and those that could not.
    resumed: int = field(init=False, default=0)
    not_resumed: int = field(init=False, default=0)

    def restore(self, session: Session, kept: KeptSession, *, is_stored: bool = False) -> None:
        """Carry on a session's subscriptions, from our store or another broker; those that it has stay as they are."""
        known = {one.key for one in session.frontends.values()} | session.restoring.keys() | session.brought.keys()
        for one in kept.subscriptions:
            key = self._filled(one.key, session)
            if key in session.given_up:
                continue
            if key in known:
                self._compare(session, Kept(key, one.position, one.where))
                continue
            if is_stored:
                self._store_as(session, one, key)
            backend = self._holdings.get(one.position.epoch)
            if backend is not None and key in backend.spellings:
                self._carry_on(session, backend, Kept(key, one.position, one.where), is_stored=is_stored)
            else:
                session.restoring[key] = Kept(key, one.position, one.where)
                waiter = Waiter(session, one.position, 0, restoring=True, is_stored=True, where=one.where)
                self._holdings.want(key, waiter)
                if not is_stored:
                    # Before the cluster has answered: when we start again, a session that is ours counts as whole.
                    self._out.append(StoreSubscription(session.subscriber, key, one.position, one.where))

    def begin_ended_anew(self, session: Session) -> None:
        """Carry on what has ended here and is kept nowhere else: the coordinator has said all that it knows."""
        ended, session.ended_here = session.ended_here, {}
        if ended:
            kept = KeptSession(session.subscriber, session.generation, list(ended.values()))
            self.restore(session, kept, is_stored=True)

    def _compare(self, session: Session, theirs: Kept) -> None:
        """Another broker's copy of a subscription that we keep. Ours is from our store, and may be older."""
        if session.state.is_owned or session.connection is not None:
            return
        if (later := session.hear_of(theirs)) is not None:
            self._out.append(StoreSubscription(session.subscriber, theirs.key, later.position, later.where))
            return
        ours = session.frontends.get(theirs.position.epoch)
        if ours is None or ours.key != theirs.key or (ours.recovered and theirs.position.sequence <= ours.acked):
            return
        with suppress(*WRONG):
            group = ours.backend.group_of(theirs.where)
            # If its history was not found, it began where nothing had been sent; an earlier position does no harm.
            self._attach(session, ours.backend, ours.key, None if ours.recovered else theirs.position, group)
            ours.recovered = True

    def subscribe(self, session: Session, message: messages.Subscribe) -> Frontend | None:
        """Returns the subscription if it is attached now. Otherwise it is refused, or waits for the cluster."""
        assert session.arrival is not None
        key = SubscriptionKey.of(message.channel, message.parameters, session.arrival.permission)
        try:
            check_key(message.channel, message.parameters)
            position = self._position_in(message)
            key = self._filled(key, session)
            backend = self._holdings.find(key)
            self._filtering.admit(session, backend, message.where)
        except (InvalidValue, TooLarge, Overloaded) as exc:
            self._tell(session, messages.error_message(exc, message.request))
            return None
        waiter = Waiter(session, position, message.request, restoring=False, where=message.where)
        held = None if backend is None else session.frontends.get(backend.id)
        refusal: TocsinError | None = None if backend is None else _refusal(backend, position)
        if held is None:
            refusal = refusal or self._refusal(session, position)
        elif held.where != message.where:
            refusal = refusal or self.refuse_change()
        if refusal is not None:
            self._tell(session, messages.error_message(refusal, message.request))
        elif backend is None:
            session.waiting += 1
            session.waiting_filters += bool(message.where)
            self._quotas.count_subscription(session.user, 1)
            self._holdings.want(key, waiter)
            if position is not None:
                session.brought[key] = Kept(key, position, message.where)
                self._out.append(StoreSubscription(session.subscriber, key, position, message.where))
        else:
            try:
                group = backend.group_of(waiter.where)
            except WRONG as exc:
                self._tell(session, messages.error_message(exc, message.request))
                return None
            return self._take(waiter, key, backend, group)
        return None

    def _filled(self, key: SubscriptionKey, session: Session) -> SubscriptionKey:
        """With the parameters filled in, as far as we know. If it names somebody else's values it stays as it is: the
        channel may be a different one by now. The cluster refuses it, and says what to fill in, or takes it."""
        try:
            return self._filling.fill(key, session.user)
        except Forbidden:
            return key

    def carry_on_brought(self, session: Session, asked: Sequence[messages.Subscribe], permission: str) -> None:
        """Its subscriber left before `welcome`: carry on the subscriptions that it brought as if they were kept."""
        if self.unwritable:
            return
        brought = []
        for message in asked[: self._quotas.free_subscriptions(session.user)]:
            try:
                check_key(message.channel, message.parameters)
                position = self._position_in(message)
                self._filtering.admit(session, None, message.where)
            except (InvalidValue, TooLarge, Overloaded):
                continue  # The subscriber would have got this error.
            if position is not None:
                key = SubscriptionKey.of(message.channel, message.parameters, permission)
                brought.append(Kept(key, position, message.where))
        self.restore(session, KeptSession(session.subscriber, session.generation, brought))

    def refuse_change(self) -> TocsinError | None:
        """Why nothing can be begun that has to be stored; None if it can."""
        if not self.unwritable:
            return None
        return Unavailable(f"this broker can't store subscriptions now: {self.unwritable}", retry_after_s=5)

    def _position_in(self, message: messages.Subscribe) -> Position | None:
        """Raises InvalidValue. Brokers may be ahead of one another, but not by very much."""
        position = messages.parse_position(message.position) if message.position else None
        through = self._deliveries.through
        if position is None or position.in_history <= through:
            return position
        if commit_of(position.in_history) > commit_of(through) + _MAX_AHEAD_COMMITS:
            raise InvalidValue(f"position {position} lies far beyond the newest result, which is at {through}")
        return position

    def _refusal(self, session: Session, position: Position | None) -> TocsinError | None:
        """Why a session can't have one more; None if it can."""
        if position is None and session.state.is_assumed:
            session.learn(SessionFact.DOUBTED)
            return Unavailable("this broker asks whether another broker keeps this for you", retry_after_s=0.1)
        if position is None and session.state.is_doubtful:
            return Unavailable(
                "this broker can't find out now whether another broker keeps this subscription for you", retry_after_s=1
            )
        return self.refuse_change() or self._quotas.refuse_subscription(session.user)

    def unsubscribe(self, session: Session, subscription: int, request: int, now_s: float) -> None:
        frontend = session.frontends.get(subscription)
        if frontend is None:
            missing = NotFound(f"you hold no subscription {subscription}")
            self._tell(session, messages.error_message(missing, request))
            return
        if (refusal := self.refuse_change()) is not None:
            self._tell(session, messages.error_message(refusal, request))
            return
        self.detach(frontend, now_s)
        is_reported = session.state.is_owned and session.state.is_confirmed
        if not is_reported and len(session.given_up) < _MAX_GIVEN_UP:
            session.given_up[frontend.key] = None
        self._tell(session, messages.Unsubscribed(subscription, request))

    def acquired(self, event: BackendsAcquired) -> dict[Session, None]:
        """The cluster has answered; returns the sessions that waited."""
        keys = [key for key, _ in event.acquired] + [key for key, _ in event.refused]
        waiting = self._holdings.answered(keys)
        woken: dict[Session, None] = {}
        for key, held in event.acquired:
            self._filling.learn(held.channel, held.filled)
            is_new = self._holdings.get(held.id) is None
            backend = self._holdings.add(held, event.next_pull)
            self._holdings.spell(backend, key)
            if is_new:
                self._deliveries.open(backend)
            for waiter in waiting[key]:
                # What was filled in may be of another channel of that name: by name alone, the cluster can't tell.
                if not self._ask_anew(waiter, key):
                    self._serve(waiter, key, backend)
                woken[waiter.session] = None
            if not backend.frontends:
                self._holdings.let_go(backend, event.now_s)
        for key, error in event.refused:
            if isinstance(error, FilledOtherwise):
                self._filling.learn(key.channel, error.filled)
            for waiter in waiting[key]:
                if not isinstance(error, FilledOtherwise) or not self._ask_anew(waiter, key):
                    self._refuse(waiter, key, error)
                woken[waiter.session] = None
        return woken

    def _ask_anew(self, waiter: Waiter, key: SubscriptionKey) -> bool:
        """Ask again if the parameters that the cluster has named are not the ones that were filled in; else False."""
        session = waiter.session
        try:
            anew = self._filling.fill(key, session.user)
        except Forbidden as exc:
            self._refuse(waiter, key, exc)
            return True
        if anew == key:
            return False
        if waiter.restoring and not session.lacks(key):
            return True  # The session has ended meanwhile, or the subscriber has asked for it anew.
        for lacked in (session.brought, session.restoring):
            if (kept := lacked.pop(key, None)) is not None:
                lacked.setdefault(anew, Kept(anew, kept.position, kept.where))
                if waiter.is_stored or lacked is session.brought:
                    self._store_as(session, kept, anew)
        backend = self._holdings.find(anew)
        if backend is None:
            self._holdings.want(anew, waiter)
        else:
            self._serve(waiter, anew, backend)
        return True

    def _store_as(self, session: Session, kept: Kept, key: SubscriptionKey) -> None:
        """Rename a stored subscription to `key`, if that is written differently."""
        if kept.key.stored() != key.stored():
            self._out.append(ForgetSubscription(session.subscriber, kept.key))
            self._out.append(StoreSubscription(session.subscriber, key, kept.position, kept.where))

    def detach(self, frontend: Frontend, release_at_s: float, *, is_session_over: bool = False) -> None:
        """End a frontend subscription. Its backend subscription is released at `release_at_s` at the earliest, and not
        while others hold it."""
        session, backend = frontend.session, frontend.backend
        backend.keep_until_s = max(backend.keep_until_s, release_at_s)
        self._deliveries.leave(frontend)
        frontend.set_group(None)
        self._moved_on.pop(frontend, None)
        del session.frontends[backend.id]
        del backend.frontends[session.subscriber]
        self._quotas.count_subscription(session.user, -1)
        if not is_session_over:
            # A session that has ended may have a successor, which is stored instead of it.
            if all(one.key != frontend.key for one in session.frontends.values()):
                self._out.append(ForgetSubscription(session.subscriber, frontend.key))
            self._reports.changed(session)
        if not backend.frontends:
            self._holdings.let_go(backend, release_at_s)

    def forget_waiting(self, session: Session) -> None:
        """A connection that is gone does not wait for answers any more."""
        if session.waiting:
            self._holdings.leave_alone(session)
            self._quotas.count_subscription(session.user, -session.waiting)
            session.waiting = session.waiting_filters = 0

    def _serve(self, waiter: Waiter, key: SubscriptionKey, backend: Backend) -> None:
        session = waiter.session
        if not waiter.restoring and (refusal := self.refuse_change()) is not None:
            # It asks again; until then the subscription that it brought is not ours.
            self._send_back(waiter, refusal)
            return
        if waiter.restoring:
            if session.lacks(key):  # else the session has ended meanwhile, or the subscriber has asked for it anew
                kept = session.restoring.get(key) or session.brought[key]
                if kept.position.epoch != backend.id and not session.state.is_confirmed:
                    session.found(key)
                    session.ended_here[key] = kept
                    # The broker that keeps it may go before the coordinator answers.
                    backend.keep_until_s = max(backend.keep_until_s, session.story.now_s + _KEPT_IN_DOUBT_S)
                else:
                    self._carry_on(session, backend, kept, is_stored=waiter.is_stored)
            return
        if (failure := _refusal(backend, waiter.position)) is not None:
            self._refuse(waiter, key, failure)
            return
        try:
            group = backend.group_of(waiter.where)
        except WRONG as exc:
            self._refuse(waiter, key, exc)
            return
        self._no_longer_waits(waiter)
        self._take(waiter, key, backend, group)

    def _take(self, waiter: Waiter, key: SubscriptionKey, backend: Backend, group: FilterGroup | None) -> Frontend:
        """Give a subscriber what it has asked for."""
        frontend = self._attach(waiter.session, backend, key, waiter.position, group)
        self._subscribed(frontend, waiter.request)
        return frontend

    def _refuse(self, waiter: Waiter, key: SubscriptionKey, error: TocsinError) -> None:
        """Refuse a subscription. A session that carries it on waits as long as the cluster may still say yes: to go on
        without it would take it from the broker that keeps it."""
        session = waiter.session
        if session.lacks(key) and error.temporary:
            self._holdings.want(key, waiter)
            return
        if session.found(key) is not None:
            self._out.append(ForgetSubscription(session.subscriber, key))
        if not waiter.restoring:
            self._send_back(waiter, error)

    def _no_longer_waits(self, waiter: Waiter) -> None:
        waiter.session.waiting -= 1
        waiter.session.waiting_filters -= bool(waiter.where)
        self._quotas.count_subscription(waiter.session.user, -1)

    def _send_back(self, waiter: Waiter, error: TocsinError) -> None:
        self._no_longer_waits(waiter)
        self._tell(waiter.session, messages.error_message(error, waiter.request))

    def _carry_on(self, session: Session, backend: Backend, kept: Kept, *, is_stored: bool) -> None:
        """Attach a kept subscription if its permission class is the subscriber's, and its filter fits the channel as it
        is now; tell a connected subscriber."""
        key = kept.key
        try:
            group = backend.group_of(kept.where, is_kept=True)
            is_fitting = session.arrival is None or session.arrival.permission == key.permission
        except WRONG as exc:
            is_fitting = False
            if session.is_welcomed:
                self._tell(session, failed_filter(backend, kept.position, exc))
        if not is_fitting:
            session.found(key)
            self._out.append(ForgetSubscription(session.subscriber, key))
            return
        frontend = self._attach(session, backend, key, kept.position, group, is_stored=is_stored)
        if session.is_welcomed:
            self._subscribed(frontend, 0)

    def _attach(
        self,
        session: Session,
        backend: Backend,
        key: SubscriptionKey,
        position: Position | None,
        group: FilterGroup | None,
        *,
        is_stored: bool = False,
    ) -> Frontend:
        """Make `session` hold `backend` with this filter, after `position` if that lies in its history, else from now
        on."""
        self._holdings.keep(backend)
        session.given_up.pop(key, None)
        carried = session.found(key)
        if carried is not None:
            position = carried.position if position is None else position
            is_stored = is_stored and carried.where == ("" if group is None else group.where)
        frontend = session.frontends.get(backend.id)
        is_known = frontend is not None
        if frontend is None:
            now = max(backend.begin, self._deliveries.through)
            if key == backend.key:
                key = backend.key  # All its subscriptions share one object.
            phase = Phase.AHEAD if backend.has_snapshot else Phase.NEW
            frontend = Frontend(session, backend, key, acked=reached(now, phase), sent=now, phase=phase)
            session.frontends[backend.id] = frontend
            backend.frontends[session.subscriber] = frontend
            self._quotas.count_subscription(session.user, 1)
            self._leave_former(frontend)
        else:
            self._deliveries.leave(frontend)
        frontend.set_group(group)
        if position is not None and position.epoch == backend.id:
            frontend.acked = position.sequence
            frontend.is_sent_known = False
            begin = position
            self.resumed += 1
        else:
            begin = Position.at(backend.id, frontend.acked)
            if position is not None:
                frontend.recovered = False
                self.not_resumed += 1
        frontend.go_back()  # It gets all later results, whatever was sent before it asked again.
        if not is_stored and not (is_known and self.unwritable):
            self._out.append(StoreSubscription(session.subscriber, frontend.key, begin, frontend.where))
        elif begin != position or is_known:
            self._moved_on[frontend] = None
        self._reports.changed(session)
        return frontend

    def _leave_former(self, frontend: Frontend) -> None:
        """Its channel was dropped and created anew, or granted anew, while the subscriber was away: what ended then has
        the same key, and would be kept beside it for ever."""
        former = [
            one
            for one in frontend.session.frontends.values()
            if one.backend.has_ended and one.key == frontend.key and one is not frontend
        ]
        for one in former:
            self.detach(one, 0.0)

    def _subscribed(self, frontend: Frontend, request: int) -> None:
        self._tell(frontend.session, describe(frontend, request))
        frontend.recovered = True

    def _tell(self, session: Session, message: messages.FromBroker) -> None:
        if session.connection is not None:
            self._out.append(Send(session.connection, message))


def _refusal(backend: Backend, position: Position | None) -> SubscriptionFailed | None:
    """Why a subscription is refused: it has failed. A subscriber who held it before may carry it on, and is told so."""
    if not backend.failure or (position is not None and position.epoch == backend.id):
        return None
    return SubscriptionFailed(backend.failure)
