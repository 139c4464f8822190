"""The broker's machine: events in, instructions out. It decides everything and touches nothing.

Its parts: arriving subscribers (arriving), connected ones (connecting), the ownership of sessions (claiming), their
subscriptions (subscribing) and results (delivery), and moves (moves). A session's states are in session_table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as ins
from tocsin.broker.core.admission import Admission
from tocsin.broker.core.arriving import Arrivals
from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.cache import ResultCache
from tocsin.broker.core.claiming import Claims
from tocsin.broker.core.connecting import Connections
from tocsin.broker.core.delivery import Delivering
from tocsin.broker.core.filled_parameters import Filling
from tocsin.broker.core.filtering import Filtering
from tocsin.broker.core.forgetting import Forgetting
from tocsin.broker.core.limits import Limits, Quotas
from tocsin.broker.core.locations import LocationReports
from tocsin.broker.core.matching import FilterCounts
from tocsin.broker.core.moves import Moves
from tocsin.broker.core.reports import Reporting
from tocsin.broker.core.retyping import Retyping
from tocsin.broker.core.sessions import Frontend, Session, behind
from tocsin.broker.core.subscribing import Subscribing
from tocsin.model.chance import Chance
from tocsin.model.position import Position
from tocsin.model.story import Story
from tocsin.protocol.messages import CLOSE_FAILED, error_message
from tocsin.protocol.ports import KeptSession, SubscriberId

#: How often the machine looks for expired sessions and tokens.
_SWEEP_EVERY_S = 5.0
#: How often subscribers with filters are told how far nothing else matched: after a crash, so much of their history is
#: looked through again.
_PASS_EVERY_S = 30.0
#: When draining, moves are spread over this part of the available time.
_MOVE_SPREAD = 0.5
#: They happen all the time, and would push the cause of an error out of the story.
_UNREMARKABLE = frozenset(
    {ev.Acknowledged, ev.ConnectionFlushed, ev.HistoryPulled, ev.ReportDue, ev.Reported, ev.ResultsPulled, ev.Ticked}
)
#: Events that an error lists.
_TOLD_EVENTS = 20
_FAILED = "this broker had an internal error; connect again and carry on from your position"


class BrokerState:
    """`handle` is the only way in; its result is the only way out."""

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
        publishes_locations: bool = False,
    ) -> None:
        self.name = name
        self._limits = limits
        self._chance = chance
        self._drain_timeout_s = drain_timeout_s
        self._out = out = list[ins.Instruction]()
        self._story = story = Story()
        self.cache = ResultCache(cache_policy, max_bytes=cache_max_bytes, ttl_s=cache_ttl_s, left=self._behind)
        #: Subscribers whose positions are stored with the next tick.
        self._acked = acked = dict[Frontend, None]()
        self._holdings = holdings = Holdings(out)
        self._deliveries = deliveries = Delivering(holdings, self.cache, out, chunk_bytes=limits.max_queued_bytes)
        quotas = Quotas(limits)
        self._admission = Admission(quotas, out)
        self._reports = reports = Reporting()
        self._filling = filling = Filling()
        self._subscriptions = subscribing = Subscribing(
            holdings, deliveries, quotas, reports, acked, filling, Filtering(quotas), out
        )
        self._moves = moves = Moves(holdings, filling, out)
        self._locations = locations = LocationReports(out, publishes=publishes_locations)
        self._claims = claims = Claims(holdings, subscribing, deliveries, reports, locations, quotas, story, out)
        self._connections = Connections(
            name, claims, subscribing, deliveries, moves, locations, quotas, acked, story, out
        )
        self._retyping = Retyping(holdings, deliveries, subscribing, out)
        self._forgetting = Forgetting(self.cache, claims, subscribing, reports, locations, out)
        self._arrivals = Arrivals(self._admission, claims, self._connections, subscribing, quotas)
        self._quotas = quotas
        self._next_sweep_s = 0.0
        self._next_pass_s = 0.0
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Started: self._started,
            ev.SubscriberArrived: self._arrivals.arrived,
            ev.SessionFetched: self._arrivals.session_fetched,
            ev.SubscribeAsked: self._connections.subscribe_asked,
            ev.UnsubscribeAsked: self._connections.unsubscribe_asked,
            ev.Acknowledged: self._connections.acknowledged,
            ev.LocationTold: self._connections.location_told,
            ev.CoordinateTold: self._connections.coordinate_told,
            ev.LocationsPublished: lambda event: self._locations.published(is_done=event.is_done),
            ev.ConnectionLost: self._arrivals.lost,
            ev.ConnectionCongested: self._connections.congested,
            ev.ConnectionFlushed: self._connections.flushed,
            ev.BackendsAcquired: self._backends_acquired,
            ev.HoldsListed: lambda event: self._retyping.described(event.held, self._now_s),
            ev.BackendsReleased: lambda _: self._holdings.released(),
            ev.ResultsPulled: self._deliveries.take,
            ev.CursorLost: lambda event: self._acked.update(dict.fromkeys(self._deliveries.lose_cursor(event))),
            ev.HistoryPulled: lambda event: self._deliveries.take_history(event, self._now_s),
            ev.HistoryLost: lambda event: self._acked.update(dict.fromkeys(self._deliveries.lose_history(event))),
            ev.ReportDue: self._report_due,
            ev.Claimed: self._claims.claimed,
            ev.Reported: self._reported,
            ev.Ordered: self._ordered,
            ev.DrainStarted: self._drain_started,
            ev.DrainEnded: lambda _: self._admission.stop_draining(),
            ev.MovesPlaced: self._moves_placed,
            ev.NotStored: self._not_stored,
            ev.StoreChecked: self._store_checked,
            ev.SessionRecalled: self._session_recalled,
            ev.Ticked: self._ticked,
        }
        self._now_s = 0.0

    def handle(self, event: ev.Event) -> list[ins.Instruction]:
        """Take note of an event; returns what to do about it, in this order."""
        self._now_s = self._story.now_s = getattr(event, "now_s", self._now_s)
        if type(event) not in _UNREMARKABLE:
            self._story.note(self.name, type(event).__name__)
        try:
            self._handlers[type(event)](event)
        except Exception as exc:  # noqa: BLE001 it is noted, or raised again
            exc.add_note("\n".join(self._story.of(self.name)[-_TOLD_EVENTS:]))
            self._set_back_who_failed(event, exc)
        self._deliveries.fetch()
        for backend in self._holdings.call(self._now_s):
            self._deliveries.close(backend)
        instructions = self._out[:]
        self._out.clear()
        return instructions

    def _set_back_who_failed(self, event: ev.Event, error: Exception) -> None:
        """We made a mistake with one connection's message: close it, and let its session go on from the store.

        None of the new instructions is carried out: all belong to that session. An error of no session is raised again.
        """
        connection, session = self._arrivals.concerned(event)
        if connection is None:
            raise error
        self._undo(connection, session, error, 0)

    def _undo(self, connection: ev.ConnectionId, session: Session | None, error: Exception, begin: int) -> None:
        """Drop the instructions from `begin` on, and set back their session."""
        # Connections that it replaces are forgotten already, and have to be closed.
        self._out[begin:] = [
            one for one in self._out[begin:] if isinstance(one, ins.Close) and one.connection != connection
        ]
        self._out.append(ins.NoteFailure(connection, error))
        self._out.append(ins.Close(connection, CLOSE_FAILED, _FAILED))
        self._admission.lose(connection)
        if session is not None:
            self._set_back(session, _FAILED)

    def _set_back(self, session: Session, reason: str) -> None:
        """Forget a session as it is in memory, and go on with the stored one."""
        if session.connection is not None:
            self._out.append(ins.Close(session.connection, CLOSE_FAILED, reason))
            self._connections.disconnect(session)
        self._claims.drop(session, lingers=True)
        self._out.append(ins.RecallSession(session.subscriber))

    def validate(self) -> None:
        """Raises InvalidState if the parts disagree. It looks at everything: this is for tests."""
        parts = (self._claims, self._connections, self._holdings)
        self._story.raise_if_any(one for part in parts for one in part.violations())

    # Figures for others

    @property
    def through(self) -> int:
        return self._deliveries.through

    @property
    def connections(self) -> int:
        return len(self._connections)

    @property
    def sessions(self) -> int:
        return len(self._claims.sessions)

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
    def filter_counts(self) -> FilterCounts:
        filters = (one.filters for one in self._holdings.backends())
        count = sum(len(one) for one in filters if one is not None)
        return FilterCounts(count, self._deliveries.matched, self._deliveries.skipped)

    @property
    def resumed(self) -> int:
        """Subscriptions that went on after a position."""
        return self._subscriptions.resumed

    @property
    def resume_gaps(self) -> int:
        """Subscriptions that could not, or not without a gap."""
        return self._subscriptions.not_resumed + self._deliveries.gaps_sent

    @property
    def is_draining(self) -> bool:
        return self._admission.is_draining

    @property
    def is_started(self) -> bool:
        return self._admission.is_started

    @property
    def unwritable(self) -> str:
        """Why the store takes no changes; empty while it does."""
        return self._subscriptions.unwritable

    def kept(self) -> list[KeptSession]:
        """The sessions in the store, once all requested changes are stored."""
        return [session.kept() for session in self._claims.sessions.values()]

    def connection_of(self, subscriber: SubscriberId) -> ev.ConnectionId | None:
        session = self._claims.sessions.get(subscriber)
        return None if session is None else session.connection

    def held(self) -> frozenset[int]:
        """The backend subscriptions that the cluster lists as ours, as far as we know."""
        return frozenset(backend.id for backend in self._holdings.backends() if not backend.has_ended)

    # Starting

    def _started(self, event: ev.Started) -> None:
        self._admission.is_started = True
        self._deliveries.start(event.cursor)
        for held in event.held:
            self._filling.learn(held.channel, held.filled)
            self._deliveries.open(self._holdings.add(held, next_pull=0))
        self._claims.start(event.sessions)

    # Storing

    def _not_stored(self, event: ev.NotStored) -> None:
        for subscriber in event.subscribers:
            if (session := self._claims.sessions.get(subscriber)) is not None:
                if session.connection is not None:
                    self._out.append(ins.Send(session.connection, error_message(event.error, event.request)))
                self._set_back(session, event.error.message)
        for subscriber, key, position in event.positions:
            known = self._claims.sessions.get(subscriber)
            frontend = None if known is None else known.frontends.get(position.epoch)
            if frontend is not None and frontend.key == key:
                self._acked[frontend] = None
        self._claims.not_stored(event.presence)

    def _session_recalled(self, event: ev.SessionRecalled) -> None:
        # A subscriber who has come meanwhile waits for the coordinator's answer, as everybody does.
        if event.session is not None and event.subscriber not in self._claims.sessions:
            self._claims.take_from_store(event.session)

    def _store_checked(self, event: ev.StoreChecked) -> None:
        self._subscriptions.unwritable = event.reason

    # The cluster

    def _backends_acquired(self, event: ev.BackendsAcquired) -> None:
        self._retyping.described((held for _, held in event.acquired), event.now_s)
        woken = self._subscriptions.acquired(event)
        self._moves.acquired(event)
        for session in woken:
            if session.restoring or self._claims.sessions.get(session.subscriber) is not session:
                continue
            if (connection := session.connection) is not None and not session.is_welcomed:
                begin = len(self._out)
                try:
                    self._connections.welcome(session)
                except Exception as exc:  # noqa: BLE001 it is noted
                    self._undo(connection, session, exc, begin)
            else:
                self._deliveries.bring_forward(session)
                self._claims.claim_when_whole(session)

    # The coordinator

    def _report_due(self, _event: ev.ReportDue) -> None:
        self._claims.ask()
        pulled_bytes, prepared = self._deliveries.pulled_bytes(), self._moves.prepared()
        locations, located = self._locations.unreported(), self._locations.unreported_located()
        self._out.append(self._reports.next_report(self._now_s, pulled_bytes, prepared, locations, located))

    def _reported(self, event: ev.Reported) -> None:
        self._reports.reported(event.subscribers, event.ended, frozenset(event.lost))
        self._moves.reported(event.prepared)
        self._locations.reported(event.locations, event.located)
        for subscriber in event.lost:
            session = self._claims.sessions.get(subscriber)
            if session is not None and session.state.is_owned:
                self._connections.give_up(session)
            # Else it has come back since, and is not claimed yet: the claim decides.
        self._connections.close_revoked(event.revoked)
        if event.forgotten:
            self._forgetting.forget(event.forgotten, self._now_s)

    def _ordered(self, event: ev.Ordered) -> None:
        if not self._admission.is_started:
            # The cluster does not know this broker yet and would refuse every hold. The coordinator repeats orders.
            return
        for subscriber, keys in event.prepare.items():
            self._moves.prepare(subscriber, keys, event.now_s)
        self._claims.adopt(event.adopt)
        for subscriber, (broker, url) in event.move.items():
            if (session := self._claims.sessions.get(subscriber)) is not None:
                self._moves.send_away(session, broker, url, event.now_s)

    # Leaving

    def _drain_started(self, event: ev.DrainStarted) -> None:
        self._admission.drain(is_ending=event.is_ending)
        if self._connections and event.is_ending:
            # When an operator drains a broker, the coordinator does it by a plan.
            self._out.append(ins.RequestMoves(self._connections.subscribers()))

    def _moves_placed(self, event: ev.MovesPlaced) -> None:
        within_ms = int(self._drain_timeout_s * _MOVE_SPREAD * 1000)
        is_ending = self._admission.is_ending
        self._connections.send_elsewhere(event.placements, self._chance, within_ms, is_ending=is_ending)

    # Time

    def _ticked(self, event: ev.Ticked) -> None:
        self._locations.publish_if_due(event.now_s)
        self._deliveries.look_further()
        if self._acked:
            acked = list(self._acked)
            self._acked.clear()
            for frontend in acked:
                self._reports.moved_on(frontend.session)
            self._out.append(
                ins.StorePositions(
                    [(one.session.subscriber, one.key, Position(one.backend.id, one.acked)) for one in acked]
                )
            )
        self._claims.store_presence()
        self._connections.close_slow(event.now_s, self._limits.slow_after_s)
        self._connections.close_overdue(event.now_s)
        if event.now_s >= self._next_sweep_s:
            self._next_sweep_s = event.now_s + _SWEEP_EVERY_S
            self._sweep(event.now_s)

    def _sweep(self, now_s: float) -> None:
        """Close connections whose token has expired; end sessions whose subscriber has stayed away too long."""
        self.cache.expire(now_s)
        if now_s >= self._next_pass_s:
            self._next_pass_s = now_s + _PASS_EVERY_S
            self._deliveries.pass_over()
            self._quotas.forget_full_buckets(now_s)
        self._connections.close_expired(now_s)
        for session in [one for one in self._claims.sessions.values() if one.connection is None]:
            limit_s = self._limits.nameless_retention_s if session.is_nameless else self._limits.device_retention_s
            if now_s - session.left_at_s >= limit_s:
                self._claims.expire(session)

    # Parts

    def _behind(self, subscription: int) -> int:
        """How many subscribers may still need the cached results."""
        backend = self._holdings.get(subscription)
        return 0 if backend is None else behind(list(backend.frontends.values()))
