"""The simulated coordinator: the shell over its machine, which places, takes reports, and carries out plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.placement import PlacementPolicy
from tocsin.broker.core.instructions import Report
from tocsin.coordinates.located import Located
from tocsin.coordinator.load.controller import StageController
from tocsin.coordinator.load.lasting_rates import LastingRates
from tocsin.coordinator.load.plan import Plan, to_run
from tocsin.coordinator.load.promises import Promises
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.load.stages import StageSettings
from tocsin.coordinator.load.worth import promise_of
from tocsin.coordinator.moves.execution import Execution, MoveLimits
from tocsin.coordinator.moves.table import Step
from tocsin.coordinator.registry.events import (
    BrokerRegistered,
    Event,
    HeartbeatReceived,
    Measured,
    PlacementAsked,
    PlanBegun,
    ReportedSession,
    SubscribersClaimed,
    TimePassed,
    Traffic,
)
from tocsin.coordinator.registry.instructions import (
    AnswerClaim,
    AnswerHeartbeat,
    AnswerPlacement,
    Instruction,
    MoveEnded,
)
from tocsin.coordinator.registry.machine import BrokerReport, CoordinatorState, Limits
from tocsin.coordinator.registry.records import SessionSubscription
from tocsin.model.position import Position
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.simulator.chance import Dice
from tocsin.simulator.cluster import ChannelRun, Cluster
from tocsin.simulator.combinations import migrations, shuffles
from tocsin.simulator.kernel import Kernel
from tocsin.simulator.scenario import Balancing, Broker, Scenario
from tocsin.simulator.tally import Tally
from tocsin.simulator.timeline import PlanRecord

#: Rates are averaged over this many buckets.
_BUCKETS = 12
_RATES: Mapping[str, type[Rates]] = {"lasting": LastingRates, "window": Rates}
_Answer = TypeVar("_Answer", AnswerClaim, AnswerHeartbeat, AnswerPlacement)


class Coordination:
    def __init__(
        self,
        scenario: Scenario,
        kernel: Kernel,
        cluster: Cluster,
        tally: Tally,
        seed: int,
        placements: Mapping[str, PlacementPolicy],
    ) -> None:
        balancing, network = scenario.balancing, scenario.network
        self._kernel = kernel
        self._cluster = cluster
        self._tally = tally
        self._balancing = balancing
        self._bucket_s = balancing.rates_window_s / _BUCKETS
        self._state = CoordinatorState(
            0.0,
            Limits(network.heartbeat_every_s, network.dead_after_s),
            placements,
            balancing.placement,
            Dice(seed, "coordinator"),
            rates=_RATES[balancing.rates](balancing.rates_window_s, self._bucket_s),
            execution=Execution(0.0, MoveLimits(balancing.moves_in_flight, balancing.moves_per_s)),
        )
        self._controller = StageController(_settings(balancing), migrations(), shuffles())
        self._watch_every_s = min(network.heartbeat_every_s, network.dead_after_s / 4)
        self._promises = Promises()
        self._plans: dict[str, PlanRecord] = {}
        self._kept_cov: dict[str, float] = {}
        #: Bytes in and out of each broker, since the beginning, in the order of their names.
        self.counted: Callable[[], tuple[NDArray[np.int64], NDArray[np.int64]]]
        self._reported: dict[str, tuple[float, int, int]] = {}
        self._number_of = {name: number for number, name in enumerate(scenario.broker_names)}
        self.on_plan: Callable[[Plan], None] = lambda _: None
        self._was_running = False
        #: One object for each subscription: positions are all the same while deliveries are summed.
        self._held_at: dict[int, SessionSubscription] = {}
        self._kept_at: dict[str, Kept] = {}

    def start(self) -> None:
        self._watch()
        self._average()
        if self._balancing.migration or self._balancing.shuffle:
            self._kernel.at(max(self._balancing.begins_at_s, self._balancing.every_s), self._look)

    @property
    def plans(self) -> list[PlanRecord]:
        """The oldest first."""
        return [replace(record, kept_cov=self._kept_cov.get(plan)) for plan, record in self._plans.items()]

    def broker_reports(self) -> list[BrokerReport]:
        return self._state.brokers(self._kernel.now_s)

    # Requests of subscribers and brokers

    def place(
        self, user: str, device: str, at: tuple[float, float], avoid: frozenset[str], located: Located | None
    ) -> tuple[str, str]:
        placed = self._ask(PlacementAsked(self._kernel.now_s, user, device, at, avoid, located), AnswerPlacement).placed
        return placed.broker, placed.url

    def register(self, broker: Broker) -> None:
        self._happened(
            BrokerRegistered(self._kernel.now_s, broker.name, url_of(broker.name), broker.location, broker.capacity)
        )

    def session(self, subscriber: str) -> KeptSession | None:
        session = self._state.session(subscriber)
        if session is None:
            return None
        return KeptSession(subscriber, session.generation, [self._kept(held) for held in session.subscriptions])

    def claim(self, broker: str, subscribers: Sequence[str]) -> Mapping[str, int]:
        return self._ask(SubscribersClaimed(broker, tuple(subscribers)), AnswerClaim).generations

    def heartbeat(self, broker: str, connections: int, report: Report, measured: Measured) -> AnswerHeartbeat:
        changed = tuple(
            ReportedSession(
                subscriber,
                session.generation,
                connected,
                tuple([self._held(one.position) for one in session.subscriptions]),
            )
            for subscriber, (_, connected, session) in report.changed.items()
        )
        traffic = Traffic(connections, *self._traffic(broker))
        ended, prepared = tuple(report.ended), tuple(report.prepared)
        event = HeartbeatReceived(
            self._kernel.now_s, broker, traffic, changed, ended, prepared=prepared, measured=measured
        )
        return self._ask(event, AnswerHeartbeat)

    def _traffic(self, broker: str) -> tuple[float, float]:
        """Bytes in and out per second since the broker's last report."""
        now_s, number = self._kernel.now_s, self._number_of[broker]
        counted = [int(one[number]) for one in self.counted()]
        before_s, *before = self._reported.get(broker, (0.0, 0, 0))
        self._reported[broker] = (now_s, counted[0], counted[1])
        elapsed_s = now_s - before_s
        if elapsed_s <= 0:
            return 0.0, 0.0
        return (counted[0] - before[0]) / elapsed_s, (counted[1] - before[1]) / elapsed_s

    # Rates

    def observe(self, run: ChannelRun) -> None:
        observe, keys = self._state.rates.observe, self._cluster.key_texts
        ids = self._cluster.ids[run.first : run.last]
        held = np.flatnonzero((ids > 0) & (run.sizes_bytes > 0))
        for backend, size_bytes in zip((run.first + held).tolist(), run.sizes_bytes[held].tolist(), strict=True):
            observe(keys[backend], size_bytes)

    # Time

    def _watch(self) -> None:
        self._happened(TimePassed(self._kernel.now_s))
        self._kernel.after(self._watch_every_s, self._watch)

    def _average(self) -> None:
        self._state.rates.advance(self._kernel.now_s)
        self._kernel.after(self._bucket_s, self._average)

    # Plans

    def _look(self) -> None:
        """Look at the loads as `coordinator.stage_runner` does, without its thread."""
        now_s = self._kernel.now_s
        is_running = bool(self._state.execution.runs)
        if self._was_running and not is_running:
            self._controller.ended(now_s)
            self._promises.ended(now_s, self._state.carried())
        self._was_running = is_running
        for kept in self._promises.look(now_s, self._state.carried()):
            self._controller.kept(now_s, kept)
            self._kept_cov[kept.plan] = kept.kept_cov
        balance = self._state.balance()
        if not is_running and balance.loads and not self._state.unheard(now_s):
            verdict = self._controller.look(now_s, balance)
            if verdict.stage is not None:
                view = self._state.assignment(self._controller.resting(now_s), self._balancing.reach_ms)
                decision = self._controller.decide(now_s, view, verdict, self._state.outlook)
                if (plan := decision.plan) is not None:
                    self._controller.begun(now_s, plan)
                    if plan.move_count:
                        self._begin(plan, decision.reason)
        self._kernel.after(self._balancing.every_s, self._look)

    def _begin(self, plan: Plan, reason: str) -> None:
        """Make the coordinator's machine carry out a plan, with the answers to heartbeats."""
        self._tally.plans += 1
        plan_id = f"plan-{self._tally.plans}"
        promise = promise_of(plan, plan_id, self._state.outlook.chance)
        self.on_plan(plan)
        self._promises.begun(promise)
        self._plans[plan_id] = PlanRecord(
            self._kernel.now_s,
            plan.stage.value,
            plan.policy,
            reason,
            plan.move_count,
            float(plan.before.cov),
            float(plan.after.cov),
            float(plan.before.max),
            float(plan.after.max),
            float(plan.gap),
            float(promise.promised_cov),
        )
        self._happened(PlanBegun(*to_run(plan, plan_id, reason, "automatic")))
        self._was_running = True

    # Parts

    def _happened(self, event: Event) -> list[Instruction]:
        instructions = self._state.handle(event)
        for one in instructions:
            if isinstance(one, MoveEnded) and one.step is Step.DONE:
                self._tally.migrations += 1
        return instructions

    def _ask(self, event: Event, kind: type[_Answer]) -> _Answer:
        return next(one for one in reversed(self._happened(event)) if isinstance(one, kind))

    def _held(self, position: Position) -> SessionSubscription:
        held = None if position.sequence else self._held_at.get(position.epoch)
        if held is None:
            held = SessionSubscription(self._cluster.key_texts[self._cluster.backend_of(position.epoch)], str(position))
            if not position.sequence:
                self._held_at[position.epoch] = held
        return held

    def _kept(self, held: SessionSubscription) -> Kept:
        kept = self._kept_at.get(held.position)
        if kept is None:
            kept = Kept(self._cluster.key_of(held.key), Position.parse(held.position))
            if not kept.position.sequence:
                self._kept_at[held.position] = kept
        return kept


def _settings(balancing: Balancing) -> StageSettings:
    """The scenario's settings have the same names."""
    return StageSettings(**{one.name: getattr(balancing, one.name) for one in fields(StageSettings)})


def url_of(broker: str) -> str:
    return f"http://{broker}"
