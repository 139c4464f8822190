"""The coordinator's machine: the states of brokers, and their consequences for subscribers (pure).

Rules:

1.  A broker is in the mode that operators want (ACTIVE, CORDONED, DRAINING), or DEAD. A broker that shuts down reports
    itself as DRAINING; registering again ends that.
2.  Silence makes a broker DEAD; `liveness.py` says when. The next heartbeat brings it back in its mode.
3.  Plans are carried out with the answers to heartbeats; `moves/execution.py` says how.
4.  A silent broker loses no sessions: a session stays with its owner, dead or removed, until another broker claims it.
    `sessions.py` keeps that rule.
5.  A broker's name belongs to one data folder at a time, and its last registration counts; see
    `protocol/incarnations.py`. Calls of older ones change nothing.
6.  Newcomers go to ACTIVE brokers only; returning subscribers go to their own, if that is ACTIVE or CORDONED.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.evenness import Balance
from tocsin.balancing.placement import PlacementPolicy
from tocsin.balancing.views import Load
from tocsin.coordinates.coordinate import Coordinate
from tocsin.coordinates.located import Located
from tocsin.coordinator.load.deliveries import Deliveries, DeliveryCounts
from tocsin.coordinator.load.move_rate import MoveRate
from tocsin.coordinator.load.outlook import LEAST_HORIZON_S, ForecastErrors, MoveTimes, Outlook
from tocsin.coordinator.load.rates import Rates, Reporters
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.load.stopped_evacuations import StoppedEvacuations
from tocsin.coordinator.moves.execution import Execution, MoveLimits, Progress
from tocsin.coordinator.moves.table import MoveRecord, Step
from tocsin.coordinator.registry import events as ev
from tocsin.coordinator.registry import instructions as ins
from tocsin.coordinator.registry.assignments import Assignments
from tocsin.coordinator.registry.brokers import Brokers
from tocsin.coordinator.registry.liveness import KnownBroker, Liveness
from tocsin.coordinator.registry.newcomers import Newcomers
from tocsin.coordinator.registry.placement import Placements
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord
from tocsin.coordinator.registry.round_trips import RoundTrips
from tocsin.coordinator.registry.sessions import Sessions
from tocsin.errors import InUse, InvalidValue, TocsinError
from tocsin.model.chance import Chance
from tocsin.model.location import Location
from tocsin.model.story import Story
from tocsin.protocol.coordination import BrokerState

#: All brokers that fetch a result have reported it within so many heartbeats.
_REPORTING_HEARTBEATS = 3
_REPORTERS_KEPT_S = 600.0
#: How often a broker that takes part in moves sends heartbeats.
_BUSY_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that the machine decides by; see `CoordinatorSettings`."""

    heartbeat_every_s: float = 1.0
    dead_after_s: float = 5.0
    mass_outage: float = 0.5


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """A broker as operators see it."""

    record: BrokerRecord
    state: BrokerState
    traffic: ev.Traffic
    subscribers: int
    load: Load
    silent_s: float
    deliveries: Deliveries
    coordinate: Coordinate | None


class CoordinatorState:
    """`handle` takes an event and returns instructions. An event that is refused raises and changes nothing."""

    def __init__(
        self,
        now_s: float,
        limits: Limits,
        policies: Mapping[str, PlacementPolicy],
        policy: str,
        chance: Chance,
        brokers: Iterable[BrokerRecord] = (),
        sessions: Iterable[SessionRecord] = (),
        rates: Rates | None = None,
        execution: Execution | None = None,
        stopped_evacuations: Iterable[str] = (),
    ) -> None:
        self._limits = limits
        #: Heartbeats report here how many bytes come for subscriptions.
        self.rates = rates if rates is not None else Rates()
        self._deliveries = DeliveryCounts()
        self._reporters = Reporters(_REPORTING_HEARTBEATS * limits.heartbeat_every_s)
        self._placements = Placements(policies, policy, chance, limits.heartbeat_every_s)
        self._liveness = Liveness(now_s, limits.dead_after_s, limits.mass_outage)
        #: Others only read it.
        self.execution = execution if execution is not None else Execution(now_s, MoveLimits())
        self._brokers = Brokers(brokers, now_s, self._liveness)
        self._story = Story()
        self._sessions = Sessions(self._brokers.names, sessions, self.rates, self._story)
        #: Others only read it.
        self.round_trips = RoundTrips()
        self._brokers_changed()
        self._assignments = Assignments(self._brokers, self._sessions, self.rates, self.round_trips)
        self._forecast_errors = ForecastErrors()
        self._compared_windows = 0
        self._move_times = MoveTimes()
        self._move_rate = MoveRate(now_s)
        self._stopped_evacuations = StoppedEvacuations(stopped_evacuations)
        self._newcomers = Newcomers(
            self._brokers,
            self._liveness,
            self._sessions,
            self.rates,
            self.execution,
            self._placements,
            self.round_trips,
        )
        self._handlers: dict[type[Any], Callable[[Any], list[ins.Instruction]]] = {
            ev.HeartbeatReceived: self._heartbeat_received,
            ev.SubscribersClaimed: self._subscribers_claimed,
            ev.PlacementAsked: self._newcomers.placement_asked,
            ev.MovesAsked: self._newcomers.moves_asked,
            ev.TimePassed: self._time_passed,
            ev.BrokerRegistered: self._broker_registered,
            ev.BrokerModeSet: self._broker_mode_set,
            ev.BrokerRemoved: self._broker_removed,
            ev.PolicyChosen: self._policy_chosen,
            ev.PlanBegun: lambda event: self.execution.begin(event.run, event.moves),
            ev.PlanStopped: self._plan_stopped,
            ev.PromiseMeasured: lambda event: [ins.StoreKeptCov(event.plan, event.kept_cov)],
            ev.UserRemoved: lambda event: [*self._sessions.end_all_of(event.user)],
            ev.PersonForgotten: lambda event: [
                *self._sessions.forget(event.name),
                *self.execution.forget(event.name).instructions(),
            ],
        }

    # ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def brokers(self, now_s: float) -> list[BrokerReport]:
        return [self._report(one, now_s) for one in self._brokers]

    def broker(self, name: str, now_s: float) -> BrokerReport:
        return self._report(self._brokers[name], now_s)

    def subscribers_of(self, broker: str) -> int:
        """How many subscribers' sessions a broker keeps, even if the broker is gone."""
        return self._sessions.loads.subscribers(broker)

    def session(self, subscriber: str) -> SessionRecord | None:
        return self._sessions.get(subscriber)

    def sessions(self) -> Iterator[SessionRecord]:
        return iter(self._sessions)

    def location_of(self, subscriber: str) -> Location | None:
        """Where the subscriber was last, if it reports its location."""
        return self._sessions.location_of(subscriber)

    def located_of(self, subscriber: str) -> Located | None:
        """Where the subscriber is in the network, if it has told that."""
        return self._sessions.located_of(subscriber)

    def balance(self) -> Balance:
        """The loads, by the model, of the brokers that subscribers may be at. Only ACTIVE ones take subscribers."""
        return self._balance(lambda one: self._sessions.loads.of(one.record.name).total)

    def measured(self) -> Balance:
        """The same as the brokers measure it: bytes in and out."""
        return self._balance(lambda one: one.traffic.bytes_in_per_s + one.traffic.bytes_out_per_s)

    def carried(self) -> Balance:
        """The same as bytes so far, to see what brokers carry over some time: its loads are sums that grow."""
        return self._balance(lambda one: one.carried_bytes)

    def _balance(self, load_of: Callable[[KnownBroker], float]) -> Balance:
        present = self._brokers.present()
        return Balance.of(
            [one.record.name for one in present],
            [load_of(one) for one in present],
            [one.record.capacity for one in present],
            [one.state is BrokerState.ACTIVE for one in present],
        )

    @property
    def outlook(self) -> Outlook:
        """How far the loads of the next minutes can be known, and how long moves take."""
        horizon_s = max(LEAST_HORIZON_S, self.rates.horizon_s)
        return Outlook(self._forecast_errors.chance, horizon_s, self._move_times.mean_s)

    def moves_per_person_hour(self, now_s: float) -> float:
        """How often subscribers were moved by plans, over the last hour."""
        return self._move_rate.per_person_hour(now_s, len(self._sessions))

    def deliveries(self, now_s: float, within_s: int) -> Deliveries:
        """How fast notifications were over the last seconds, over all brokers."""
        return self._deliveries.of(self._brokers.names, now_s, within_s)

    def assignment(self, resting: Collection[str] = frozenset(), reach_ms: float | None = None) -> AssignmentView:
        """The assignment for making plans."""
        return self._assignments.of_present(resting, reach_ms)

    def leaving(self, now_s: float, dead_for_s: float) -> frozenset[str]:
        """Brokers that should be emptied: they are drained, dead for `dead_for_s`, or gone; and no operator has stopped
        their evacuation."""
        there = self._brokers.to_be_emptied(now_s, dead_for_s)
        owners = self._sessions.loads.owners
        leaving = frozenset(one for one in owners if one in there or one not in self._brokers)
        return leaving - self._stopped_evacuations.brokers

    @property
    def stopped_evacuations(self) -> frozenset[str]:
        """Brokers that are not emptied, because an operator has stopped their evacuation."""
        return self._stopped_evacuations.brokers

    def evacuation(self, leaving: Collection[str], reach_ms: float | None = None) -> AssignmentView:
        """The assignment for planning the evacuation of brokers that are leaving."""
        return self._assignments.of_leaving(leaving, reach_ms)

    def unheard(self, now_s: float) -> list[str]:
        """Brokers whose reports are too old to plan by: they are about to be dead, or there is a mass outage."""
        return [one.record.name for one in self._brokers.present() if self._liveness.is_suspect(one, now_s)]

    @property
    def mass_outage(self) -> bool:
        return self._liveness.is_mass

    def takes(self, broker: str) -> bool:
        return self._brokers.takes(broker)

    def is_current(self, broker: str) -> bool:
        return self._brokers.is_current(broker)

    def is_dead(self, broker: str) -> bool:
        return self._brokers.is_dead(broker)

    @property
    def subscriber_count(self) -> int:
        return len(self._sessions)

    @property
    def policy(self) -> str:
        return self._placements.policy

    @property
    def policies(self) -> list[str]:
        return self._placements.policies

    # ── events ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, event: ev.Event) -> list[ins.Instruction]:
        self._story.now_s = getattr(event, "now_s", self._story.now_s)
        if not isinstance(event, ev.PlacementAsked):
            self._newcomers.network_changed()
        try:
            return self._handlers[type(event)](event)
        except TocsinError:
            raise
        except Exception as exc:
            names = (getattr(event, one, "") for one in ("broker", "subscriber", "user"))
            exc.add_note("\n".join((type(event).__name__, *self._story.of(*filter(None, names)))))
            raise

    def validate(self) -> None:
        """Raises InvalidState if the parts of the state contradict each other. For tests: it looks at everything."""
        self._story.raise_if_any((*self._sessions.violations(), *self.execution.violations()))

    def _policy_chosen(self, event: ev.PolicyChosen) -> list[ins.Instruction]:
        self._placements.choose_policy(event.policy)
        return [ins.StorePolicy(event.policy), ins.Audit(event.by, "placement", event.policy)]

    def _plan_stopped(self, event: ev.PlanStopped) -> list[ins.Instruction]:
        is_evacuation = any(run.plan == event.plan and run.stage == Stage.EVACUATION for run in self.execution.runs)
        sources = self.execution.sources_of(event.plan) if is_evacuation else ()
        stopped = self.execution.stop(event.plan)
        going_on = [ins.StorePlanRun(run) for run in self.execution.runs if run.plan == event.plan]
        noted = self._stopped_evacuations.stop(sources)
        return [ins.Audit(event.by, "stop", event.plan), *noted, *going_on, *stopped.instructions()]

    def _broker_registered(self, event: ev.BrokerRegistered) -> list[ins.Instruction]:
        known = self._brokers.register(event)
        self._sessions.add_broker(event.broker)
        self._brokers_changed()
        incarnation = known.record.holder.incarnation
        self._story.note(event.broker, f"registered, incarnation {incarnation}")
        return [ins.StoreBroker(known.record), *self._back(known), ins.AnswerBroker(known.state, incarnation)]

    def _broker_mode_set(self, event: ev.BrokerModeSet) -> list[ins.Instruction]:
        broker = self._brokers[event.broker]
        if event.mode is BrokerState.DEAD:
            raise InvalidValue("a broker can't be set to dead; drain it, or remove it")
        broker.record = replace(broker.record, mode=event.mode)
        self._story.note(event.broker, f"{event.mode}, wanted by {event.by}")
        entry = ins.Audit(event.by, "state", event.broker, {"state": str(event.mode)})
        allowed = self._stopped_evacuations.allow(event.broker)
        return [ins.StoreBroker(broker.to_store()), *allowed, entry, ins.AnswerBroker(broker.state)]

    def _broker_removed(self, event: ev.BrokerRemoved) -> list[ins.Instruction]:
        if event.broker not in self._brokers and event.broker in self._stopped_evacuations:
            # The broker is gone, and the operator wants its remaining subscribers moved after all.
            return [*self._stopped_evacuations.allow(event.broker), ins.Audit(event.by, "remove", event.broker)]
        broker = self._brokers[event.broker]
        if broker.state is BrokerState.ACTIVE and not self._liveness.is_overdue(broker, event.now_s):
            raise InUse(f"broker {event.broker} is active; drain it first")
        self._brokers.remove(event.broker)
        self._story.note(event.broker, f"removed by {event.by}")
        self._deliveries.forget(event.broker)
        self.round_trips.forget(event.broker)
        self._brokers_changed()
        entry = ins.Audit(event.by, "remove", event.broker)
        allowed = self._stopped_evacuations.allow(event.broker)
        return [ins.ForgetBroker(event.broker), entry, *allowed, *self._sessions.remove_broker(event.broker)]

    def _back(self, broker: KnownBroker) -> list[ins.Instruction]:
        """A broker that is neither dead nor drained any more need not be emptied. If it dies again, its evacuation is a
        new one, which nobody has stopped."""
        if broker.record.mode is BrokerState.DRAINING:
            return []
        return [*self._stopped_evacuations.allow(broker.record.name)]

    def _heartbeat_received(self, event: ev.HeartbeatReceived) -> list[ins.Instruction]:
        broker = self._brokers.caller(event.broker, event.incarnation)
        done: list[ins.Instruction] = []
        if broker.record.dead or broker.was_dead:
            broker.record = replace(broker.record, dead=False)
            self._story.note(event.broker, "back")
            self._brokers_changed()
            done += [
                ins.StoreBroker(broker.record),
                *self._back(broker),
                ins.Note("broker is back", {"broker": event.broker}),
            ]
        carried_per_s = event.traffic.bytes_in_per_s + event.traffic.bytes_out_per_s
        broker.carried_bytes += carried_per_s * max(0.0, event.now_s - broker.heard_s)
        broker.heard_s, broker.traffic = event.now_s, event.traffic
        counted = event.counted
        self._deliveries.observe(event.broker, event.now_s, counted.latencies, counted.cache_hits, counted.cache_misses)
        for subscription, size_bytes in event.pulled_bytes.items():
            if self._reporters.is_listened_to(event.broker, subscription, event.now_s):
                self.rates.observe(subscription, size_bytes)
        broker.shutting_down, broker.was_dead, broker.has_reported = event.draining, False, True
        changes, lost = self._sessions.reported(event.broker, event.changed, event.ended)
        self._sessions.moved(event.locations)
        measured = event.measured
        self._sessions.located(measured.located)
        self.round_trips.reported(event.now_s, event.broker, measured.coordinate, measured.round_trips_ms)
        self.execution.prepared(event.broker, event.prepared)
        progress = self._progressed(event.now_s, self.execution.advance(event.now_s, self, event.broker))
        orders, next_in_s = ins.BrokerOrders(), self._limits.heartbeat_every_s
        if self.execution.is_busy(event.broker):
            orders = self._orders(self.execution.orders(event.broker, event.now_s))
            next_in_s = min(next_in_s, _BUSY_EVERY_S)
        peers = self.round_trips.peers_of(event.broker, measured.peers_seen)
        answer = ins.AnswerHeartbeat(broker.state, tuple(lost), orders, next_in_s, peers)
        return [*done, *changes, *progress, answer]

    def _orders(self, moves: Mapping[Step, Sequence[MoveRecord]]) -> ins.BrokerOrders:
        preparing = [session for one in moves[Step.PREPARING] if (session := self._sessions.get(one.subscriber))]
        going = [one for one in moves[Step.MOVING] if one.destination in self._brokers]
        return ins.BrokerOrders(
            {one.subscriber: tuple(held.key for held in one.subscriptions) for one in preparing},
            tuple(one.subscriber for one in moves[Step.ADOPTING]),
            {
                one.subscriber: ins.Placed(one.destination, self._brokers[one.destination].record.url, "plan")
                for one in going
            },
        )

    def _subscribers_claimed(self, event: ev.SubscribersClaimed) -> list[ins.Instruction]:
        self._brokers.caller(event.broker, event.incarnation)
        claimed = self._sessions.claim(event.broker, event.subscribers)
        return [*map(ins.StoreSession, claimed), ins.AnswerClaim(claimed)]

    # ── time ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _time_passed(self, event: ev.TimePassed) -> list[ins.Instruction]:
        now_s = event.now_s
        self._placements.release(now_s)
        if self.rates.advance(now_s):
            self._reporters.forget(now_s, _REPORTERS_KEPT_S)
        if self.rates.windows > self._compared_windows:
            self._compared_windows = self.rates.windows
            self._compare_forecasts()
        done = self._liveness.look(list(self._brokers), now_s)
        for one in done:
            if isinstance(one, ins.StoreBroker):
                self._story.note(one.broker.name, "dead")
                self._brokers_changed()
        return [*done, *self._progressed(now_s, self.execution.advance(now_s, self))]

    def _compare_forecasts(self) -> None:
        present = self._brokers.present()
        pairs = [self._sessions.loads.forecast(one.record.name) for one in present]
        scores = [
            (pair[0] / one.record.capacity, pair[1] / one.record.capacity)
            for one, pair in zip(present, pairs, strict=True)
            if pair is not None
        ]
        self._forecast_errors.compare([before for before, _ in scores], [after for _, after in scores])

    def _progressed(self, now_s: float, progress: Progress) -> list[ins.Instruction]:
        done = progress.instructions()
        for one in done:
            if isinstance(one, ins.MoveEnded) and one.step == Step.DONE:
                self._move_times.add(one.took_s)
                self._move_rate.add(now_s)
        return done

    def _brokers_changed(self) -> None:
        """Dead brokers are measured by nobody."""
        self.round_trips.know({one.record.name: one.record.url for one in self._brokers if not one.record.dead})

    # ── small parts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _report(self, broker: KnownBroker, now_s: float) -> BrokerReport:
        name, loads = broker.record.name, self._sessions.loads
        return BrokerReport(
            broker.record,
            broker.state,
            broker.traffic,
            loads.subscribers(name),
            loads.of(name),
            self._liveness.silent_s(broker, now_s),
            self._deliveries.of((name,), now_s),
            self.round_trips.coordinate_of(name),
        )
