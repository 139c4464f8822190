"""Sends results to subscribers: live ones as they are pulled, missed ones from the cache or from the cluster.

A frontend subscription is live when everything up to the cursor has been sent; then each pull's results go to it at
once. Otherwise it is behind, and is brought forward from the cache, or from history that is fetched from the cluster
for all that need it, until it has caught up with the cursor. One machine does both, so no result is lost in between.

A connection that can't keep up is parked: its subscriptions are behind from then on, its queue stays bounded, and it is
brought forward again when it has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tocsin.broker.core import events as ev
from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.cache import ResultCache
from tocsin.broker.core.instructions import (
    Deliver,
    FetchHistory,
    Instruction,
    NoteDelivered,
    RequestSnapshots,
    Send,
)
from tocsin.broker.core.matching import SourceFilters
from tocsin.broker.core.session_table import SessionFact
from tocsin.broker.core.sessions import Backend, Frontend, Session
from tocsin.model.position import Phase, Position, reached
from tocsin.model.results import ResultKind, next_phase
from tocsin.protocol.messages import HistoryGone, Passed
from tocsin.protocol.ports import Delivery, SubscriberId
from tocsin.protocol.subscription_keys import SubscriptionKey

_REMOVED = "results before this position are gone: they are past the cluster's retention"
_REWOUND = "the cluster was started from a back-up: results since the back-up are gone, and may come again"
#: Kinds that nobody is sent who waits for a snapshot, and everybody else.
_AFTER_SNAPSHOTS = frozenset({ResultKind.RESULT, ResultKind.EXIT})
#: Subscriptions in one request for history; the cluster takes 10,000.
_MAX_PER_FETCH = 1_000


class Delivering:
    def __init__(self, holdings: Holdings, cache: ResultCache, out: list[Instruction], *, chunk_bytes: int) -> None:
        self._holdings = holdings
        self._cache = cache
        self._out = out
        self._chunk_bytes = chunk_bytes
        #: Every result up to here has been pulled, and sent to all live subscriptions.
        self.through = 0
        #: Held for a short time only: the pull that is under way may not know of them.
        self._untrusted: dict[int, Backend] = {}
        #: They were sent more than has been pulled, and wait for the pulls to reach them.
        self._ahead: dict[Frontend, None] = {}
        #: Backend subscriptions whose history is needed: the sequence to begin after, and the frontends that need it.
        self._missed: dict[int, dict[Frontend, None]] = {}
        self._fetching: set[int] = set()
        #: The last part of their history had nothing that matches; they go on with the next tick.
        self._looking_through: dict[Session, None] = {}
        self._snapshots_wanted: dict[int, None] = {}
        self.deliveries = 0
        #: Results times live subscriptions with filters: those that were sent, and those that did not match.
        self.matched = 0
        self.skipped = 0
        #: How often a subscriber had to be told that results are missing.
        self.gaps_sent = 0
        #: By subscription, since the last call of `pulled_bytes`.
        self._pulled_bytes: dict[int, int] = {}

    def start(self, through: int) -> None:
        self.through = through

    def open(self, backend: Backend) -> None:
        """A backend subscription that is held from now on."""
        self._untrusted[backend.id] = backend

    def close(self, backend: Backend) -> None:
        self._untrusted.pop(backend.id, None)
        self._missed.pop(backend.id, None)
        self._pulled_bytes.pop(backend.id, None)
        self._cache.drop(backend.id)

    # Live results

    def take(self, event: ev.ResultsPulled) -> None:
        """Send a pull's results to all live subscriptions."""
        self._trust(event.pull)
        special = {one.subscription for one in event.deliveries if one.kind not in _AFTER_SNAPSHOTS or one.failure}
        served: list[Frontend] = []
        touched: list[Session] = []
        receivers: dict[int, int] = {}
        for subscription, deliveries in _by_subscription(event.deliveries).items():
            known = self._holdings.get(subscription)
            if known is None or subscription in self._untrusted:
                continue
            self._cache.put(subscription, deliveries, event.now_s)
            self._note_end(known, deliveries)
            self._pulled_bytes[subscription] = self._pulled_bytes.get(subscription, 0) + _size_bytes(deliveries)
            new = deliveries
            if subscription in special:
                served += self._waiting_for(known, deliveries)
                new = [one for one in deliveries if next_phase(Phase.NEW, one.kind)[1]]
            wires = [one.wire for one in new]
            for session in known.live.values():
                if not session.outbox:
                    touched.append(session)
                session.outbox += wires
            if live := len(known.live):
                for one in new:
                    receivers[one.committed_at_us] = receivers.get(one.committed_at_us, 0) + live
            self._match(known.filters, new, deliveries[-1].sequence, touched, receivers)
        too_much = self._park_who_get_too_much(touched, event.deliveries)
        self.through = max(self.through, event.through)
        for session in touched:
            if session.outbox:
                self._write(session, session.outbox)
                session.outbox = []
        for session in too_much:
            self.bring_forward(session)
        for frontend in served:
            self.bring_forward(frontend.session, frontend)
        receivers.pop(0, None)
        if receivers:
            self._out.append(NoteDelivered(receivers))
        for frontend in [one for one in self._ahead if one.sent <= self.through]:
            del self._ahead[frontend]
            self.bring_forward(frontend.session)

    def _trust(self, pull: int) -> None:
        """Pulls know of these backend subscriptions from this one on."""
        for backend in [one for one in self._untrusted.values() if one.trusted_from_pull <= pull]:
            del self._untrusted[backend.id]
            self._cache.open(backend.id, self.through)
            backend.is_snapshot_requested = False  # It may have come before.

    def _waiting_for(self, backend: Backend, deliveries: Sequence[Delivery]) -> list[Frontend]:
        """Those who wait for a snapshot, which these results may belong to: from now on they are behind."""
        if any(one.kind is ResultKind.SNAPSHOT_BEGIN for one in deliveries):
            backend.is_snapshot_requested = False
        waiting = list(backend.awaiting.values())
        for frontend in waiting:
            self.leave(frontend)
        return waiting

    def _match(
        self,
        filters: SourceFilters | None,
        deliveries: Sequence[Delivery],
        last: int,
        touched: list[Session],
        receivers: dict[int, int],
    ) -> None:
        """Put results into the outboxes of those whose filters they match. Everything up to `last` is decided on."""
        if filters is None or not filters.live:
            return
        for one in deliveries:
            count = 0
            for group in filters.wanted(one):
                count += len(group.live)
                for frontend in group.live.values():
                    frontend.last_match = one.sequence
                    session = frontend.session
                    if not session.outbox:
                        touched.append(session)
                    session.outbox.append(one.wire)
            self.matched += count
            self.skipped += filters.live - count
            if count:
                receivers[one.committed_at_us] = receivers.get(one.committed_at_us, 0) + count
        filters.last = last

    def pass_over(self) -> None:
        """Tell live subscribers with filters how far nothing else has matched. They acknowledge it: else the position
        of somebody whose filter seldom matches would stay where it was, until its history is gone."""
        for backend in self._holdings.backends():
            if (filters := backend.filters) is None or not filters.live:
                continue
            position = str(Position(backend.id, filters.last))
            for frontend in filters.all_live():
                connection = frontend.session.connection
                if connection is not None and max(frontend.last_match, frontend.passed) < filters.last:
                    frontend.passed = filters.last
                    self._out.append(Send(connection, Passed(backend.id, position)))

    def _note_end(self, backend: Backend, deliveries: Sequence[Delivery]) -> None:
        """Note a subscription's end: the result that gives the reason is its last."""
        last = deliveries[-1]
        backend.failure = last.failure or backend.failure
        if last.is_end:
            backend.has_ended = True
            self._holdings.unspell(backend)

    def _park_who_get_too_much(self, touched: list[Session], deliveries: Sequence[Delivery]) -> list[Session]:
        """Sessions for which one pull has more than may be queued get it in parts, like slow readers."""
        largest_bytes = max((len(one.wire) for one in deliveries), default=0)
        # Most pulls are small: to know that, nothing needs to be added up for each session.
        if largest_bytes * len(deliveries) <= self._chunk_bytes:
            return []
        too_much = [
            one
            for one in touched
            if len(one.outbox) * largest_bytes > self._chunk_bytes and sum(map(len, one.outbox)) > self._chunk_bytes
        ]
        for session in too_much:
            session.outbox = []
            self.park(session)
        return too_much

    def pulled_bytes(self) -> dict[SubscriptionKey, int]:
        """How many bytes have come for each subscription, under all its spellings, since the last call."""
        pulled, self._pulled_bytes = self._pulled_bytes, {}
        known = ((self._holdings.get(subscription), size) for subscription, size in pulled.items())
        return {key: size for backend, size in known if backend is not None for key in backend.spellings}

    def lose_cursor(self, event: ev.CursorLost) -> list[Frontend]:
        """Go on from another cursor. Tells, and returns, those who were live and got results of a history that is gone.

        If retention has removed results, only the cluster knows whose they were. So all who were live are behind from
        now on, and catch up from their own positions."""
        live = [one for backend in self._holdings.backends() for one in backend.frontends.values() if one.live]
        if not event.is_rewound:
            for frontend in live:
                self.leave(frontend)
        self.through = event.through
        for backend in self._holdings.backends():
            self._cache.open(backend.id, event.through)
            backend.is_snapshot_requested = False
        if not event.is_rewound:
            for session in {one.session: None for one in live}:
                self.bring_forward(session)
            return []
        for frontend in live:
            self.leave(frontend)
            self.tell_gone(frontend, event.through, is_rewound=True)
            self._go_live(frontend)
        # Some seem to be ahead; the cluster knows whether their positions exist.
        for frontend in self._ahead:
            frontend.is_sent_known = False
            self._need_history(frontend)
        self._ahead.clear()
        return live

    # Coming, going, parking

    def leave(self, frontend: Frontend) -> None:
        """Send no more to this one."""
        if frontend.live:
            frontend.end_live(frontend.session.connection)
            frontend.sent = self.through
        self._ahead.pop(frontend, None)
        if self._missed:
            self._missed.get(frontend.backend.id, {}).pop(frontend, None)

    def park(self, session: Session) -> None:
        for frontend in session.frontends.values():
            self.leave(frontend)

    def bring_forward(self, session: Session, only: Frontend | None = None) -> None:
        """Send a connection the results that it has missed, a part at a time, until all its subscriptions are live.

        With `only`, the others are left as they are: each is live, or waits for something that brings it forward.
        """
        connection = session.connection
        if connection is None or not session.takes_more:
            return
        wires: list[bytes] = []
        room_bytes = self._chunk_bytes
        for frontend in session.frontends.values() if only is None else (only,):
            if frontend.live:
                continue
            if room_bytes <= 0:
                break
            if frontend.sent > self.through:
                if frontend.is_sent_known:
                    self._ahead[frontend] = None
                else:
                    self._need_history(frontend)  # If there is no such position, the cluster says so.
                continue
            if frontend.backend.id in self._untrusted and frontend.sent == self.through:
                # Nothing is missing yet; whether the next pull can be trusted is known when it comes.
                self._ahead[frontend] = None
                self._request_snapshot(frontend)
                continue
            found = self._cache.after(frontend.backend.id, frontend.sent)
            if found is None:
                self._need_history(frontend)
                continue
            room_bytes = _add(frontend, found, wires, room_bytes)
            if not found or frontend.sent == found[-1].sequence:
                self._go_live(frontend)
                # History that was asked for before, and is still on its way, would come a second time.
                self._missed.get(frontend.backend.id, {}).pop(frontend, None)
        if wires:
            session.learn(SessionFact.PART_SENT)
            self._write(session, wires, confirm=True)

    def _go_live(self, frontend: Frontend) -> None:
        """Everything up to now has been sent."""
        connection = frontend.session.connection
        assert connection is not None, "only who is connected is live"
        frontend.set_live(connection)
        self._request_snapshot(frontend)

    def _request_snapshot(self, frontend: Frontend) -> None:
        """If it waits for a snapshot, see to it that one comes. One is enough for all who wait for it."""
        backend = frontend.backend
        if frontend.phase is Phase.AHEAD and not backend.is_snapshot_requested and not backend.failure:
            backend.is_snapshot_requested = True
            self._snapshots_wanted[backend.id] = None

    # History

    def fetch(self) -> None:
        """Ask the cluster for snapshots, and for history that is needed and not under way."""
        while self._snapshots_wanted:
            ids = list(self._snapshots_wanted)[:_MAX_PER_FETCH]
            for one in ids:
                del self._snapshots_wanted[one]
            self._out.append(RequestSnapshots(ids))
        if not self._missed:
            return
        after = {
            subscription: min(one.sent for one in frontends)
            for subscription, frontends in self._missed.items()
            if frontends and subscription not in self._fetching
        }
        while after:
            part = dict(list(after.items())[:_MAX_PER_FETCH])
            self._fetching.update(part)
            self._out.append(FetchHistory(part))
            after = dict(list(after.items())[_MAX_PER_FETCH:])

    def take_history(self, event: ev.HistoryPulled, now_s: float) -> None:
        """Send fetched history to those who need it, and keep it for others."""
        by_subscription = _by_subscription(event.deliveries)
        sessions: dict[Session, list[bytes]] = {}
        room: dict[Session, int] = {}
        looked_through: set[SubscriberId] = set()
        for subscription, after in event.after.items():
            self._fetching.discard(subscription)
            deliveries = by_subscription.get(subscription, [])
            if deliveries and (known := self._holdings.get(subscription)) is not None:
                self._note_end(known, deliveries)
            if event.through > after:
                reach = self._cache.reaches_back_to(subscription)
                if reach is not None and event.through >= reach:
                    self._cache.put_history(subscription, after, deliveries, now_s)
            for frontend in list(self._missed.pop(subscription, {})):
                session = frontend.session
                if frontend.sent < after:
                    self._need_history(frontend)  # It came when this was already under way.
                    continue
                frontend.is_sent_known = True
                if not session.takes_more:
                    continue  # It is brought forward when it is back, or has read.
                wires = sessions.setdefault(session, [])
                found = [one for one in deliveries if one.sequence > frontend.sent]
                room[session] = _add(frontend, found, wires, room.get(session, self._chunk_bytes))
                if found:
                    looked_through.add(session.subscriber)
                if not found or frontend.sent == found[-1].sequence:
                    frontend.sent = max(frontend.sent, event.through)
        for session, wires in sessions.items():
            if wires:
                session.learn(SessionFact.PART_SENT)
                self._write(session, wires, confirm=True)
            elif session.subscriber in looked_through:
                self._looking_through[session] = None
            else:
                self.bring_forward(session)

    def look_further(self) -> None:
        """Go on with those for whom a part of the history had nothing. Nobody's reading slows them down: without a
        pause, a filter that matches nothing would have the whole history fetched as fast as the cluster can."""
        looking, self._looking_through = self._looking_through, {}
        for session in looking:
            self.bring_forward(session)

    def lose_history(self, event: ev.HistoryLost) -> list[Frontend]:
        """Tell those who asked that results are gone, and go on with the rest; returns those that were told."""
        concerned = []
        for subscription, after in event.after.items():
            self._fetching.discard(subscription)
            for frontend in list(self._missed.pop(subscription, {})):
                session = frontend.session
                if session.connection is None:
                    continue
                is_concerned = frontend.sent < event.earliest or event.is_rewound
                if after <= frontend.sent and is_concerned:
                    self.tell_gone(frontend, event.earliest, is_rewound=event.is_rewound)
                    concerned.append(frontend)
                self.bring_forward(session)
        return concerned

    def tell_gone(self, frontend: Frontend, earliest: int, *, is_rewound: bool = False) -> None:
        """Make a subscriber go on from `earliest`, or back to it, if its history is gone."""
        frontend.put_back(earliest if is_rewound else max(frontend.sent, earliest))
        if is_rewound and frontend.group is not None:
            frontend.group.source.rewind(earliest)
        frontend.is_sent_known = True
        if frontend.phase is Phase.AHEAD:
            frontend.acked = reached(frontend.sent, Phase.AHEAD)
            return  # It misses nothing: its snapshot is still to come.
        self.gaps_sent += 1
        if frontend.backend.has_snapshot:
            # What is gone can't be told; a snapshot makes up for it.
            frontend.phase = Phase.AHEAD
            frontend.acked = reached(frontend.sent, Phase.AHEAD)
        else:
            frontend.acked = earliest if is_rewound else max(frontend.acked, earliest)
        if frontend.session.connection is not None:
            position = str(Position(frontend.backend.id, reached(earliest, frontend.phase)))
            text = _REWOUND if is_rewound else _REMOVED
            message = HistoryGone(frontend.backend.id, position, text, is_rewound)
            self._out.append(Send(frontend.session.connection, message))

    # Parts

    def _need_history(self, frontend: Frontend) -> None:
        self._missed.setdefault(frontend.backend.id, {})[frontend] = None

    def _write(self, session: Session, wires: list[bytes], *, confirm: bool = False) -> None:
        assert session.connection is not None
        self.deliveries += len(wires)
        self._out.append(Deliver(session.connection, wires, confirm))


def _by_subscription(deliveries: Iterable[Delivery]) -> dict[int, list[Delivery]]:
    grouped: dict[int, list[Delivery]] = {}
    for one in deliveries:
        found = grouped.get(one.subscription)
        if found is None:
            grouped[one.subscription] = [one]
        else:
            found.append(one)
    return grouped


def _size_bytes(deliveries: Iterable[Delivery]) -> int:
    return sum(len(one.wire) for one in deliveries)


def _add(frontend: Frontend, found: Iterable[Delivery], wires: list[bytes], room_bytes: int) -> int:
    """Take the results that a subscription gets, as long as there is room; returns the room that is left. There is
    always room for one."""
    group = frontend.group
    for one in found:
        if room_bytes <= 0:
            break
        frontend.phase, is_sent = next_phase(frontend.phase, one.kind)
        if one.failure or (is_sent and (group is None or group.matches(one))):
            wires.append(one.wire)
            room_bytes -= len(one.wire)
            frontend.last_match = one.sequence
        frontend.sent = one.sequence
    return room_bytes
