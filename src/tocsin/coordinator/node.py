"""The coordinator's shell: feeds events to the state, stores what it says, and hands out the answers.

Events are handled one after the other on the event loop. An answer goes out only when all that led to it is on disk.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import Counter
from typing import TYPE_CHECKING, TypeVar

import structlog

from tocsin.coordinator.balancing.outsiders import with_outsiders
from tocsin.coordinator.balancing.placement import POLICIES
from tocsin.coordinator.commits import GroupCommit
from tocsin.coordinator.events import Event, TimePassed
from tocsin.coordinator.instructions import (
    AnswerBroker,
    AnswerClaim,
    AnswerHandover,
    AnswerHeartbeat,
    AnswerPlacement,
    Instruction,
    Note,
    Storing,
)
from tocsin.coordinator.metrics import Metrics
from tocsin.coordinator.rates import Rates
from tocsin.coordinator.state import CoordinatorState, Limits
from tocsin.coordinator.store import Store, open_database
from tocsin.coordinator.users import Users
from tocsin.errors import InvalidValue, NotFound
from tocsin.protocol.coordination import BrokerState
from tocsin.runtime.clock import Clock, SystemClock
from tocsin.runtime.tokens import TokenSigner
from tocsin.settings import CoordinatorSettings

if TYPE_CHECKING:
    from tocsin.coordinator.planning import KeptPlan, Planning
    from tocsin.protocol.plans import PlanRequest

log = structlog.get_logger(__name__)

_DATABASE_FILE = "coordinator.sqlite"
_KEY_FILE = "signing-key.pem"
#: How many times silence is looked at within the time that makes a broker dead.
_LOOKS = 10
#: Rates move on so many times in a window.
_BUCKETS = 12

_Answer = TypeVar("_Answer", AnswerBroker, AnswerHeartbeat, AnswerClaim, AnswerPlacement, AnswerHandover)


class CoordinatorNode:
    """Everything behind the coordinator's HTTP face."""

    def __init__(self, settings: CoordinatorSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        signer = TokenSigner.load(settings.data_dir / _KEY_FILE)
        self._store = Store(open_database(settings.database_url or settings.data_dir / _DATABASE_FILE))
        self.users = Users(self._store, signer, self.clock, self.metrics, settings.token_lifetime_s)
        self.state = self._restored()
        self._commits = GroupCommit(self._store)
        self._planning: Planning | None = None
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        await self._commits.close()
        self._store.close()

    async def happened(self, event: Event) -> list[Instruction]:
        """Let the state handle `event`. Returns when what follows from it is on disk."""
        instructions = self.state.handle(event)
        for one in instructions:
            if isinstance(one, Note):
                log.warning(one.text, **one.details)
        await self._commits.store([one for one in instructions if isinstance(one, Storing)])
        return instructions

    async def ask(self, event: Event, kind: type[_Answer]) -> _Answer:
        """The same, for an event that is answered."""
        return next(one for one in await self.happened(event) if isinstance(one, kind))

    @property
    def planning(self) -> Planning:
        """Made when it is first wanted: what compiles its loops takes a while to be imported."""
        if self._planning is None:
            from tocsin.coordinator.balancing.migration import POLICIES as MIGRATIONS
            from tocsin.coordinator.balancing.shuffle import POLICIES as SHUFFLES
            from tocsin.coordinator.planning import Planning

            self._planning = Planning(
                with_outsiders("migration", MIGRATIONS),
                with_outsiders("shuffle", SHUFFLES),
            )
        return self._planning

    async def plan(self, request: PlanRequest) -> KeptPlan:
        """What could be moved, as things are now; worked out in a thread, while everything goes on."""
        from tocsin.coordinator.balancing.proposal import Goal
        from tocsin.coordinator.plan import Stage

        goal = Goal(request.cov_at_most, request.mean_above, max_moves=request.max_moves)
        wish = self.planning.wish(Stage(request.stage), request.policy, goal, request.reason)
        if not self.state.balance().brokers:
            raise NotFound("no broker is there to plan for")
        view = self.state.assignment()
        plan = await asyncio.to_thread(self.planning.propose, view, wish)
        return self.planning.keep(f"plan-{secrets.token_hex(4)}", self.clock.now_us(), wish, plan)

    def now_s(self) -> float:
        return self.clock.monotonic_s()

    def broker_states(self) -> Counter[BrokerState]:
        return Counter(report.state for report in self.state.brokers(self.now_s()))

    def _restored(self) -> CoordinatorState:
        policies = with_outsiders("placement", POLICIES)
        if self.settings.placement not in policies:
            known = ", ".join(sorted(policies))
            raise InvalidValue(f"setting placement: no policy called {self.settings.placement!r}; there are: {known}")
        remembered = self._store.load()
        policy = remembered.policy or self.settings.placement
        if policy not in policies:
            log.warning("the placement policy chosen before is not there any more", policy=policy)
            policy = self.settings.placement
        limits = Limits(self.settings.heartbeat_every_s, self.settings.dead_after_s, self.settings.mass_silence)
        window_s = self.settings.rates_window_s
        return CoordinatorState(
            self.now_s(),
            limits,
            policies,
            policy,
            random.Random(),
            remembered.brokers,
            remembered.sessions,
            Rates(window_s, window_s / _BUCKETS),
        )

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.dead_after_s / _LOOKS)
            try:
                await self.happened(TimePassed(self.now_s()))
                await self._commits.retry()
            except Exception as exc:
                # Whatever it was, silence must go on being watched.
                log.error("watching for silence failed", exc_info=exc)
