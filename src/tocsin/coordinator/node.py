"""The coordinator's shell: passes events to the state, stores the changes, and returns the answers.

Events are handled one after the other on the event loop. An answer goes out only when all that led to it is on disk.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TypeVar, assert_never

import structlog

from tocsin.balancing.placement import POLICIES
from tocsin.balancing.plugins import with_plugins
from tocsin.coordinator.accounts.key_store import DatabaseKeys, FolderKeys
from tocsin.coordinator.accounts.keys import Keys
from tocsin.coordinator.accounts.users import Users
from tocsin.coordinator.forgetting import Acknowledgements, Forgotten
from tocsin.coordinator.load.lasting_rates import LastingRates
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.load.stages import BalancingSettings
from tocsin.coordinator.metrics import Metrics
from tocsin.coordinator.moves.execution import Execution, MoveLimits
from tocsin.coordinator.registry import instructions as ins
from tocsin.coordinator.registry.events import Event, PersonForgotten, TimePassed
from tocsin.coordinator.registry.machine import CoordinatorState, Limits
from tocsin.coordinator.registry.records import user_of
from tocsin.coordinator.stage_runner import Balancer
from tocsin.coordinator.store.group_commit import GroupCommit
from tocsin.coordinator.store.plan_store import PlanStore
from tocsin.coordinator.store.registry_store import Store
from tocsin.coordinator.store.tables import open_tables
from tocsin.errors import InvalidValue
from tocsin.model.people import FORGOTTEN
from tocsin.protocol.coordination import BrokerState
from tocsin.runtime.clock import Clock, SystemClock
from tocsin.runtime.database_address import is_server
from tocsin.runtime.files import make_private
from tocsin.runtime.leadership import Term
from tocsin.settings import CoordinatorSettings

log = structlog.get_logger(__name__)

_DATABASE_FILE = "coordinator.sqlite"
#: A new key signs when brokers have had time to hear of it.
_ANNOUNCE_S = 5.0
_ANNOUNCE_HEARTBEATS = 3
_BALANCING = "balancing"
#: How many times liveness is checked within the time that makes a broker dead.
_LOOKS = 10
#: Rates are updated so many times in a window.
_BUCKETS = 12
_RATES: dict[str, type[Rates]] = {"lasting": LastingRates, "window": Rates}

_Answer = TypeVar(
    "_Answer", ins.AnswerBroker, ins.AnswerHeartbeat, ins.AnswerClaim, ins.AnswerPlacement, ins.AnswerMoves
)


class CoordinatorNode:
    """Everything behind the coordinator's HTTP API."""

    def __init__(self, settings: CoordinatorSettings, clock: Clock | None = None, term: Term | None = None) -> None:
        _check_tokens(settings)
        self.settings = settings
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        make_private(settings.data_dir)
        database = open_tables(settings.database_url or settings.data_dir / _DATABASE_FILE, term)
        self._store = Store(database, self.clock)
        announce_s = max(_ANNOUNCE_S, _ANNOUNCE_HEARTBEATS * settings.heartbeat_every_s)
        folder = FolderKeys(settings.data_dir)
        kept = DatabaseKeys(self._store, folder) if is_server(settings.database_url) else folder
        self.keys = Keys(kept, self._store, self.clock, announce_s)
        self.users = Users(self._store, self.keys, self.clock, self.metrics, settings.token_lifetime_s)
        self.state = self._restored()
        self._commits = GroupCommit(self._store)
        chosen = BalancingSettings.of_text(self._store.setting(_BALANCING))
        self.balancer = Balancer(self.state, self.happened, self.clock, chosen)
        self._tasks: list[asyncio.Task[None]] = []
        self.acknowledgements = Acknowledgements()
        #: How many entries the audit log has received since the start.
        self.audited = 0

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._watch()), asyncio.create_task(self.balancer.run())]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._commits.close()
        self._store.close()

    async def happened(self, event: Event) -> list[ins.Instruction]:
        """Let the state handle `event`. Returns when the resulting changes are on disk."""
        instructions = self.state.handle(event)
        changes: list[ins.Storing] = []
        for one in instructions:
            if isinstance(one, ins.Storing):
                changes.append(one)
            elif isinstance(one, ins.Note):
                log.warning(one.text, **one.details)
            elif isinstance(one, ins.MoveEnded):
                self.metrics.moved(one.step, one.took_s)
            elif not isinstance(one, ins.Answer):  # The caller takes answers.
                assert_never(one)
        await self._commits.store(changes)
        self.audited += sum(isinstance(one, ins.Audit) for one in instructions)
        return instructions

    async def ask(self, event: Event, kind: type[_Answer]) -> _Answer:
        """The same, for an event that has an answer."""
        return next(one for one in await self.happened(event) if isinstance(one, kind))

    async def change_balancing(self, settings: BalancingSettings, by: str) -> None:
        """Raises InvalidValue, and changes nothing, if a setting is wrong."""
        before = self.balancer.settings.listed()
        self.balancer.change(settings)
        changes = {name: value for name, value in settings.listed().items() if before[name] != value}
        if changes:
            await asyncio.to_thread(self._store.choose, _BALANCING, settings.to_text())
            await self.audit(ins.Audit(by, "balancing", "settings", changes))

    async def forget(self, name: str, by: str, wait_s: float) -> Forgotten:
        """Remove all data that names this person, here and at all live brokers. Returns when that is done, or after
        waiting `wait_s` for brokers."""
        version, was_user = await self.users.forget(name)
        sessions = sum(user_of(one.subscriber) == name for one in self.state.sessions())
        await self.happened(PersonForgotten(name))
        reports = self.state.brokers(self.now_s())
        silent = {one.record.name for one in reports if one.state is BrokerState.DEAD}
        asked = [one.record.name for one in reports if one.record.name not in silent]
        late = await self.acknowledgements.wait(asked, version, wait_s)
        await self.audit(ins.Audit(by, "forget", FORGOTTEN))
        await asyncio.to_thread(self._store.erase_traces, name)
        return Forgotten(
            was_user, sessions, tuple(one for one in asked if one not in late), tuple(sorted(silent | set(late)))
        )

    async def audit(self, done: ins.Audit) -> None:
        """Add an entry to the audit log. Returns when it is on disk."""
        await self._commits.store([done])
        self.audited += 1

    @property
    def plans(self) -> PlanStore:
        """Its methods wait for the disk."""
        return self._store.plans

    def now_s(self) -> float:
        return self.clock.monotonic_s()

    def broker_states(self) -> Counter[BrokerState]:
        return Counter(report.state for report in self.state.brokers(self.now_s()))

    def _restored(self) -> CoordinatorState:
        policies = with_plugins("placement", POLICIES)
        if self.settings.placement not in policies:
            known = ", ".join(sorted(policies))
            raise InvalidValue(f"setting placement: no policy called {self.settings.placement!r}; there are: {known}")
        if self.settings.rates not in _RATES:
            raise InvalidValue(f"setting rates: {self.settings.rates!r} is none; there are: {', '.join(_RATES)}")
        remembered = self._store.load()
        policy = remembered.policy or self.settings.placement
        if policy not in policies:
            log.warning("the stored placement policy does not exist any more", policy=policy)
            policy = self.settings.placement
        limits = Limits(self.settings.heartbeat_every_s, self.settings.dead_after_s, self.settings.mass_outage)
        window_s = self.settings.rates_window_s
        return CoordinatorState(
            self.now_s(),
            limits,
            policies,
            policy,
            random.Random(),
            remembered.brokers,
            remembered.sessions,
            _RATES[self.settings.rates](window_s, window_s / _BUCKETS),
            Execution(
                self.now_s(),
                MoveLimits(self.settings.moves_in_flight, self.settings.moves_per_s),
                remembered.runs,
                remembered.moves,
            ),
            remembered.stopped_evacuations,
        )

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.dead_after_s / _LOOKS)
            try:
                await self.happened(TimePassed(self.now_s()))
                await self._commits.retry()
                await asyncio.to_thread(self.keys.advance)
            except Exception as exc:
                # Whatever has failed, liveness must still be watched.
                log.error("the check for silent brokers failed", exc_info=exc)


def _check_tokens(settings: CoordinatorSettings) -> None:
    if settings.viewer_token and not settings.api_token:
        raise InvalidValue("setting viewer_token: without api_token everybody is an operator; set that one too")
    if settings.viewer_token and settings.viewer_token == settings.api_token:
        raise InvalidValue("setting viewer_token: it must differ from api_token")
    if settings.broker_token and settings.broker_token in (settings.api_token, settings.viewer_token):
        raise InvalidValue("setting broker_token: it must differ from api_token and viewer_token")
