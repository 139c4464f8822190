"""The broker's exchange with the coordinator: registration, reports, and the keys and revocations of tokens.

Everything here is retried in the background. Deliveries go on without the coordinator; so do arrivals, since the key
that checks tokens is kept on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import secrets
from collections.abc import Callable, Mapping, Sequence

import structlog

from tocsin.broker.core import events as ev
from tocsin.broker.core.instructions import Report
from tocsin.broker.core.peers import Peers
from tocsin.broker.shell.coordinator_link import to_orders, to_wire, to_wire_pulled
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.server_links import ENDING
from tocsin.broker.shell.session_questions import SessionQuestions
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import AlreadyExists, NotFound, Superseded, TocsinError, Unavailable
from tocsin.model.backoff import Backoff, Pauses
from tocsin.model.people import is_fingerprint
from tocsin.protocol.coordination import BrokerRegistration, BrokerState, Heartbeat, HeartbeatAnswer
from tocsin.protocol.ports import CoordinatorPort, KeptSession
from tocsin.runtime.clock import Clock
from tocsin.runtime.tokens import Identity, TokenChecker, keys_version

log = structlog.get_logger(__name__)

_KEYS = "coordinator public keys"
_BACKOFF = Backoff(0.25, 1.0)
#: Changes are reported together: with thousands of arrivals, ten reports a second.
_GATHER_S = 0.1
#: The wait for a newcomer's session is at most this long; then the newcomer goes on with what it brings itself.
_SESSION_PATIENCE_S = 2.0


class Coordination:
    def __init__(
        self,
        link: CoordinatorPort,
        store: SessionStore,
        registration: BrokerRegistration,
        clock: Clock,
        metrics: BrokerMetrics,
    ) -> None:
        self._link = link
        self._questions = SessionQuestions(link.sessions)
        self._store = store
        self._registration = registration
        self._clock = clock
        self._metrics = metrics
        self.peers = Peers(random.Random(secrets.randbits(64)))
        self._report: Report | None = None
        self._reporting = asyncio.Lock()
        self._changed = asyncio.Event()
        self._happened: Callable[[ev.Event], None] = lambda _: None
        self._revocations_seen = 0
        self._every_s = 1.0
        self._state = BrokerState.ACTIVE
        self._is_registered = False
        #: The cluster has given us our name.
        self._has_name = False
        self.is_draining = False
        self.connections: Callable[[], int] = lambda: 0
        self._stored_keys: list[str] = json.loads(store.fact(_KEYS) or "[]")
        self._keys = self._stored_keys
        self._tokens = TokenChecker(*self._keys)
        #: People whom this broker has forgotten, so that a later user of such a name is not affected.
        self._forgotten: dict[str, int] = {}
        for user, before_us in store.revocations().items():
            self._tokens.revoke(user, before_us)
            if is_fingerprint(user):
                self._forgotten[user] = before_us

    def check(self, token: str, now_us: int) -> Identity:
        """The user that this token names; raises Unauthorised."""
        if not self._keys:
            raise Unavailable("this broker has not reached the coordinator yet", retry_after_s=1)
        return self._tokens.check(token, now_us)

    async def introduce(self) -> None:
        """Try once to register, before anything is changed elsewhere. Raises if another live broker has our name. If
        the coordinator can't be asked, or that broker fell silent, `run` goes on trying, and the cluster decides."""
        try:
            await self._register()
            self._is_registered = True
        except ENDING:
            raise
        except TocsinError as exc:
            log.warning("not registered at the coordinator yet; starting without it", reason=exc.message)

    def name_given(self) -> None:
        """The cluster has given us our name. Only now may we take it from a broker that the coordinator no longer
        hears: one that is merely cut off from the coordinator still pulls, and the cluster would not give us its
        name."""
        self._has_name = True

    async def run(self, happened: Callable[[ev.Event], None]) -> None:
        """Register, then report at the interval that the coordinator sets."""
        self._happened = happened
        is_registered = self._is_registered
        pauses = Pauses(_BACKOFF, random.random)
        while True:
            try:
                if not is_registered:
                    await self._register()
                    is_registered = True
                await self.report_once()
                pauses.reset()
                await self._until_due()
            except NotFound:
                is_registered = False  # It does not know us any more.
                await asyncio.sleep(pauses.next_s())
            except Superseded:
                raise
            except AlreadyExists as exc:
                # If the cluster has given us the name, the other broker ends when it hears that, and falls silent.
                if not self._has_name:
                    raise
                log.warning("another broker has our name at the coordinator; trying again", reason=exc.message)
                await asyncio.sleep(pauses.next_s())
            except TocsinError as exc:
                log.warning("the coordinator does not answer; trying again", reason=exc.message)
                await asyncio.sleep(pauses.next_s())

    def report_soon(self) -> None:
        """Something has changed that another broker would need to know if we died now."""
        self._changed.set()

    async def _until_due(self) -> None:
        """Wait for the next report's time, or for a change; changes at nearly the same time go together."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), self._every_s)
            await asyncio.sleep(_GATHER_S)
        self._changed.clear()

    async def report_now(self) -> None:
        """One report out of turn, if the coordinator can be reached."""
        try:
            await self.report_once()
        except TocsinError as exc:
            log.warning("a report to the coordinator failed", reason=exc.message)

    async def report_once(self) -> None:
        async with self._reporting:
            report = self._next_report()
            if report is None:
                return
            if report.claims:
                generations, sessions = await self._link.claim(report.claims)
                self._happened(ev.Claimed(generations))
                for session in sessions:
                    self._happened(ev.SessionFetched(session.subscriber, session, True, self._clock.monotonic_s()))
                report = self._next_report() or report  # With the sessions that have just become ours.
            counted, measured = self._metrics.counted(), self.peers.unreported()
            heartbeat = Heartbeat(
                connections=self.connections(),
                **self._metrics.rates(self._clock.monotonic_s()),
                changed=[to_wire(one, connected=connected) for _, connected, one in report.changed.values()],
                ended=list(report.ended),
                pulled=[to_wire_pulled(key, size_bytes) for key, size_bytes in report.pulled_bytes.items()],
                revocations_seen=self._revocations_seen,
                keys_seen=keys_version(self._stored_keys),
                draining=self.is_draining,
                prepared=list(report.prepared),
                locations=dict(report.locations),
                located=dict(report.located),
                coordinate=measured.coordinate,
                round_trips_ms=dict(measured.round_trips_ms),
                peers_seen=self.peers.seen,
                **self._metrics.unreported(counted),
            )
            answer = await self._link.report(heartbeat)
            self._metrics.reported(counted)
            self.peers.reported(measured)
            if answer.peers is not None:
                self.peers.learn(answer.peers, answer.peers_version)
            forgotten = self._learn(answer)
            known = {subscriber: version for subscriber, (version, _, _) in report.changed.items()}
            now_s = self._clock.monotonic_s()
            self._happened(
                ev.Reported(
                    known,
                    report.ended,
                    answer.lost,
                    answer.revoked,
                    now_s,
                    report.prepared,
                    report.locations,
                    forgotten,
                    report.located,
                )
            )
            if forgotten:
                self._erase(forgotten)
            self._every_s = answer.next_in_s
            if answer.prepare or answer.adopt or answer.move:
                self._happened(to_orders(answer, now_s))
            self._obey(answer.state, now_s)

    def _next_report(self) -> Report | None:
        self._happened(ev.ReportDue())
        return self._report

    def _learn(self, answer: HeartbeatAnswer) -> dict[str, int]:
        """Learn the coordinator's key and revocations, and store them: this broker may restart while it is away.

        Returns the people who have to be forgotten and have not been, by the fingerprints of their names."""
        if answer.public_keys is not None:
            self._learn_keys(answer.public_keys)
        for user, before_us in answer.revoked.items():
            self._tokens.revoke(user, before_us)
        new = {one: at for one, at in answer.revoked.items() if is_fingerprint(one) and self._forgotten.get(one) != at}
        done = {user: at for user, at in answer.revoked.items() if user not in new}
        try:
            if answer.revoked or not self._revocations_seen:
                self._store.store_revocations(done, are_all=not self._revocations_seen)
        except Unavailable as exc:
            log.warning("revocations could not be stored; the broker asks for them again", reason=exc.message)
        else:
            self._revocations_seen = answer.revocations_version
        return new

    def _erase(self, people: Mapping[str, int]) -> None:
        """The machine keeps nothing of these people any more; remove them from the files too. That is noted last, so
        that a broker that ends in between is told again. The next report tells the coordinator that it is done, so it
        is sent soon."""
        try:
            self._store.erase_traces(people.keys())
            self._store.store_revocations(people, are_all=False)
        except Unavailable as exc:
            log.warning("deleted rows can't be removed from files yet; trying again", reason=exc.message)
            self._revocations_seen = 0  # We are told again, of these people too.
        else:
            self._forgotten.update(people)
        self.report_soon()

    def _learn_keys(self, keys: list[str]) -> None:
        self._tokens.trust(keys)
        self._keys = keys
        if keys == self._stored_keys:
            return
        try:
            self._store.store_fact(_KEYS, json.dumps(keys))
        except Unavailable as exc:
            log.warning(
                "the coordinator's keys could not be stored; the broker asks for them again", reason=exc.message
            )
        else:
            self._stored_keys = keys

    def _obey(self, state: BrokerState, now_s: float) -> None:
        """Drain, or stop draining, as operators want it."""
        if state == self._state or self.is_draining:
            return
        if state is BrokerState.DRAINING:
            self._happened(ev.DrainStarted(is_ending=False, now_s=now_s))
        elif self._state is BrokerState.DRAINING:
            self._happened(ev.DrainEnded())
        log.info("the coordinator has changed our state", state=state)
        self._state = state

    def take(self, report: Report) -> None:
        """Take the machine's part of the report that is being made."""
        self._report = report

    async def session(self, subscriber: str) -> tuple[KeptSession | None, bool]:
        """A subscriber's known session, and whether the coordinator could be asked."""
        try:
            return await asyncio.wait_for(self._questions.session(subscriber), _SESSION_PATIENCE_S), True
        except (TocsinError, TimeoutError) as exc:
            log.warning("the session of a new subscriber could not be fetched", reason=str(exc))
            return None, False

    async def request_moves(self, subscribers: Sequence[str]) -> None:
        try:
            placements = await self._link.request_moves(subscribers)
        except TocsinError as exc:
            log.warning("no subscriber could be placed elsewhere", reason=exc.message)
            placements = {}
        self._happened(ev.MovesPlaced(placements))

    async def close(self) -> None:
        await self._questions.close()
        await self._link.close()

    async def _register(self) -> None:
        registration = self._registration.model_copy(update={"takes_over": self._has_name})
        welcome = await self._link.register(registration)
        self._learn_keys(welcome.public_keys)
        self._revocations_seen = 0
        self.peers.untold()
        self._every_s = welcome.heartbeat_every_s
        log.info("registered at the coordinator", state=welcome.state)
