"""Runs balancing: looks at the loads, has plans made in a thread, and has them carried out. It decides nothing itself.

The compiler of the policies' loops takes a while to import, so that is done when the first plan is wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from tocsin.balancing.plugins import policy_named, with_plugins
from tocsin.coordinator.load.promises import Promises
from tocsin.coordinator.load.stages import BalancingSettings, Stage
from tocsin.coordinator.moves.table import PlanRun
from tocsin.coordinator.registry.events import Event, PlanBegun, PlanStopped, PromiseMeasured
from tocsin.coordinator.registry.instructions import Instruction
from tocsin.coordinator.registry.machine import CoordinatorState
from tocsin.errors import InUse, NotFound
from tocsin.runtime.clock import Clock

if TYPE_CHECKING:
    from tocsin.coordinator.load.controller import StageController
    from tocsin.coordinator.load.plan import Plan
    from tocsin.coordinator.load.requested_plans import KeptPlan, Planning
    from tocsin.protocol.plans import PlanRequest

log = structlog.get_logger(__name__)

#: Stands for the operator in plans that no operator asked for.
AUTOMATIC = "automatic"


@dataclass(slots=True, eq=False)
class Balancer:
    _state: CoordinatorState
    _happened: Callable[[Event], Awaitable[list[Instruction]]]
    _clock: Clock
    _settings: BalancingSettings
    #: What balancing does at the moment, or why it does nothing, for people.
    verdict: str = field(init=False, default="")
    #: Whether plans kept what they promised, since the coordinator began.
    promises: Promises = field(init=False, default_factory=Promises)
    #: Who can't be moved off brokers that are leaving, and why; empty if all can.
    _confined: str = field(init=False, default="")
    _made_planning: Planning | None = field(init=False, default=None)
    _made_controller: StageController | None = field(init=False, default=None)
    _was_running: bool = field(init=False, default=False)
    _woken: asyncio.Event = field(init=False, default_factory=asyncio.Event)

    # Operators' requests

    @property
    def settings(self) -> BalancingSettings:
        return self._settings

    def change(self, settings: BalancingSettings) -> None:
        """Raises InvalidValue, and changes nothing, if there is no such policy."""
        policies = self.planning.policies
        for stage, name in ((Stage.MIGRATION, settings.stages.migration), (Stage.SHUFFLE, settings.stages.shuffle)):
            if name:
                policy_named(stage, name, policies[stage])
        self._settings = settings
        if self._made_controller is not None:
            self._made_controller.settings = settings.stages
        self.wake()

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    @property
    def planning(self) -> Planning:
        if self._made_planning is None:
            from tocsin.balancing.migration import POLICIES as MIGRATIONS
            from tocsin.balancing.shuffle import POLICIES as SHUFFLES
            from tocsin.coordinator.load.requested_plans import Planning

            migrations, shuffles = with_plugins("migration", MIGRATIONS), with_plugins("shuffle", SHUFFLES)
            self._made_planning = Planning(migrations, shuffles)
        return self._made_planning

    async def plan(self, request: PlanRequest) -> KeptPlan:
        """Make a plan for the network as it is now, in a thread."""
        from tocsin.balancing.proposal import Goal

        goal = Goal(request.cov_at_most, request.mean_above, max_moves=request.max_moves)
        wish = self.planning.wish(Stage(request.stage), request.policy, goal, request.reason)
        if not self._state.balance().brokers:
            raise NotFound("there is no broker to plan for")
        view = self._state.assignment(reach_ms=self._settings.reach_ms)
        plan = await asyncio.to_thread(self.planning.propose, view, wish)
        return self.planning.keep(_new_id(), self._clock.now_us(), wish, plan)

    async def execute(self, plan_id: str, by: str, reason: str) -> PlanRun:
        """Carry out a plan that was made before; refused if the network has changed since."""
        from tocsin.coordinator.load.plan import changed_since

        kept = self.planning.get(plan_id)
        view = self._state.assignment(reach_ms=self._settings.reach_ms)
        if changes := await asyncio.to_thread(changed_since, kept.plan, view):
            more = f", and {len(changes) - 1} more changes" if len(changes) > 1 else ""
            raise InUse(f"the network has changed since {plan_id} was made: {changes[0]}{more}; make a new plan")
        return await self._begin(plan_id, kept.plan, reason or kept.wish.reason, by)

    async def stop(self, plan_id: str, by: str) -> None:
        await self._happened(PlanStopped(plan_id, by))

    # Automatic balancing

    async def run(self) -> None:
        """Look every now and then, until cancelled."""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), self._settings.every_s)
            self._woken.clear()
            try:
                await self.look()
            except Exception as exc:
                # Whatever has failed, such as a plugin's policy, the next look may succeed.
                log.error("balancing failed", exc_info=exc)

    async def look(self) -> None:
        """Carry out a stage or an evacuation, if one is due."""
        now_s = self._clock.monotonic_s()
        is_running = bool(self._state.execution.runs)
        if self._was_running and not is_running:
            self.promises.ended(now_s, self._state.carried())
            if self._made_controller is not None:
                self._made_controller.ended(now_s)
        self._was_running = is_running
        await self._measure_promises(now_s)
        leaving = self._state.leaving(now_s, self._settings.evacuate_after_s)
        self._confined = self._confined if leaving else ""
        if leaving and await self._evacuate(leaving):
            return
        await self._even_out(now_s, is_running=is_running)
        if self._confined:
            self.verdict = f"{self._confined}; {self.verdict}"
        if stopped := self._state.stopped_evacuations:
            names = ", ".join(sorted(stopped))
            self.verdict = f"emptying {names} was stopped: drain it again to go on; {self.verdict}"

    async def _measure_promises(self, now_s: float) -> None:
        for kept in self.promises.look(now_s, self._state.carried()):
            await self._happened(PromiseMeasured(kept.plan, kept.kept_cov))
            if self._made_controller is not None:
                self._made_controller.kept(now_s, kept)

    async def _even_out(self, now_s: float, *, is_running: bool) -> None:
        if is_running:
            self.verdict = "a plan is being carried out"
        elif not self._settings.automatic:
            self.verdict = "automatic balancing is off"
        else:
            await self._balance(now_s)

    async def _balance(self, now_s: float) -> None:
        from tocsin.coordinator.load.plan import verify

        controller = self._controller
        balance = self._state.balance()
        if not balance.brokers:
            self.verdict = "there is no broker"
            return
        if unheard := self._state.unheard(now_s):
            self.verdict = f"no heartbeat came from {', '.join(unheard)} for a while; waiting"
            return
        verdict = controller.look(now_s, balance)
        self.verdict = verdict.reason
        if verdict.stage is None:
            return
        view = self._state.assignment(controller.resting(now_s), self._settings.reach_ms)
        decision = await asyncio.to_thread(controller.decide, now_s, view, verdict, self._state.outlook)
        self.verdict = decision.reason
        if (plan := decision.plan) is None:
            return
        controller.begun(self._clock.monotonic_s(), plan)
        if faults := await asyncio.to_thread(verify, view, plan):
            self.verdict = f"policy {plan.policy} made a plan that can't be carried out: {faults[0]}"
            log.error("a plan was refused", policy=plan.policy, faults=faults[:5])
        elif plan.move_count:
            await self._begin(_new_id(), plan, decision.reason, AUTOMATIC)

    async def _evacuate(self, leaving: frozenset[str]) -> bool:
        """Empty brokers that are leaving, dead or gone; returns whether there was anybody to move. An evacuation stops
        any other plan."""
        from tocsin.balancing.evacuation import NAME, evacuate
        from tocsin.coordinator.load.plan import make_plan

        runs = self._state.execution.runs
        if any(run.stage == Stage.EVACUATION for run in runs):
            self.verdict = f"{', '.join(sorted(leaving))} is being emptied"
            return True
        view = self._state.evacuation(leaving, self._settings.reach_ms)
        if not view.takes.any() or not view.movable.any():
            return False
        for run in runs:
            if not run.is_stopped:
                await self._happened(PlanStopped(run.plan, AUTOMATIC))
        names = ", ".join(sorted(leaving))
        plan = await asyncio.to_thread(lambda: make_plan(view, Stage.EVACUATION, NAME, evacuate(view)))
        self._confined = (
            f"{plan.confined} subscribers stay at {names}: no other broker is within reach_ms" if plan.confined else ""
        )
        if not plan.move_count:
            return False
        self.verdict = f"{names} is being emptied"
        await self._begin(_new_id(), plan, f"{names} is drained, dead or gone", AUTOMATIC)
        return True

    # Parts

    @property
    def _controller(self) -> StageController:
        if self._made_controller is None:
            from tocsin.coordinator.load.controller import StageController

            policies = self.planning.policies
            self._made_controller = StageController(
                self._settings.stages, policies[Stage.MIGRATION], policies[Stage.SHUFFLE]
            )
        return self._made_controller

    async def _begin(self, plan_id: str, plan: Plan, reason: str, by: str) -> PlanRun:
        from tocsin.coordinator.load.plan import to_run
        from tocsin.coordinator.load.worth import promise_of

        promise = None if plan.stage is Stage.EVACUATION else promise_of(plan, plan_id, self._state.outlook.chance)
        promised_cov = promise.promised_cov if promise else None
        run, moves = await asyncio.to_thread(to_run, plan, plan_id, reason, by, promised_cov)
        await self._happened(PlanBegun(run, moves))
        if promise:
            self.promises.begun(promise)
        self._was_running = True
        return run


def _new_id() -> str:
    return f"plan-{secrets.token_hex(4)}"
