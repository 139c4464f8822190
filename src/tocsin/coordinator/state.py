"""The coordinator's machine: brokers and their states, and what follows for subscribers (pure).

Rules:

1.  A broker is in the mode that operators want (ACTIVE, CORDONED, DRAINING), or DEAD. DRAINING is also what a broker
    says of itself when it shuts down; registering again ends that.
2.  Silence makes a broker DEAD. Only silence that was watched counts: not the time before the start, nor while we
    were asleep ourselves. The next heartbeat brings it back in its mode.
3.  If too many would die at once, or soon after one another, nobody does: the fault is more likely here.
4.  Silence is never emptiness: a session stays with its owner, dead or removed, until another broker claims it.
    `sessions.py` keeps that rule.
5.  Newcomers go to ACTIVE brokers only; those who come back, to their own, if that is ACTIVE or CORDONED.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from tocsin.coordinator.balancing.assignment import AssignmentView, BrokerPlace
from tocsin.coordinator.balancing.balance import Balance
from tocsin.coordinator.balancing.placement import Newcomer, PlacementPolicy
from tocsin.coordinator.events import (
    BrokerModeSet,
    BrokerRegistered,
    BrokerRemoved,
    Event,
    HandoverAsked,
    HeartbeatReceived,
    PlacementAsked,
    PolicyChosen,
    SubscribersClaimed,
    TimePassed,
    Traffic,
    UserRemoved,
)
from tocsin.coordinator.instructions import (
    AnswerBroker,
    AnswerClaim,
    AnswerHandover,
    AnswerHeartbeat,
    AnswerPlacement,
    ForgetBroker,
    Instruction,
    Note,
    Placed,
    StoreBroker,
    StorePolicy,
)
from tocsin.coordinator.loads import BrokerView, Load
from tocsin.coordinator.placing import Placing
from tocsin.coordinator.rates import Rates, Reporters
from tocsin.coordinator.records import BrokerRecord, Point, SessionRecord
from tocsin.coordinator.sessions import Sessions
from tocsin.errors import InUse, InvalidValue, NotFound, Unavailable
from tocsin.model.chance import Chance
from tocsin.protocol.coordination import BrokerState

#: Fewer brokers than this can well all fail by themselves.
_MASS_MIN_BROKERS = 3
_RETRY_AFTER_S = 1.0
#: All brokers that fetch a result have told of it within so many heartbeats.
_REPORTING_HEARTBEATS = 3
_REPORTERS_KEPT_S = 600.0


@dataclass(frozen=True, slots=True)
class Limits:
    """The settings that the machine decides by; see `CoordinatorSettings`."""

    heartbeat_every_s: float = 1.0
    dead_after_s: float = 5.0
    mass_silence: float = 0.5


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """A broker as operators see it."""

    record: BrokerRecord
    state: BrokerState
    traffic: Traffic
    subscribers: int
    load: Load
    silent_s: float


@dataclass(slots=True)
class _Broker:
    record: BrokerRecord
    heard_s: float
    traffic: Traffic = field(default_factory=Traffic)
    shutting_down: bool = False
    #: It was dead when the coordinator stopped, and has not been heard since.
    was_dead: bool = False
    died_s: float = float("-inf")

    @property
    def state(self) -> BrokerState:
        if self.record.dead:
            return BrokerState.DEAD
        return BrokerState.DRAINING if self.shutting_down else self.record.mode


@dataclass(frozen=True, slots=True)
class _Choice:
    """What newcomers can choose from. It stays as it is while only placements happen, until somebody falls silent."""

    views: tuple[BrokerView, ...]
    until_s: float
    rates_version: int


class CoordinatorState:
    """`handle` takes what happened and returns what is to be done. What is refused raises and changes nothing."""

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
    ) -> None:
        self._limits = limits
        #: Whoever learns how much comes for a subscription tells this.
        self.rates = rates if rates is not None else Rates()
        self._reporters = Reporters(_REPORTING_HEARTBEATS * limits.heartbeat_every_s)
        self._placing = Placing(policies, policy, chance, limits.heartbeat_every_s)
        self._looked_s = now_s
        self._watching_since_s = now_s
        self.mass_silence = False
        self._brokers = {
            record.name: _Broker(replace(record, dead=False), now_s, was_dead=record.dead)
            for record in sorted(brokers, key=lambda one: one.name)
        }
        self._sessions = Sessions(self._brokers, sessions, self.rates)
        self._choice: _Choice | None = None

    # ── what can be seen ────────────────────────────────────────────────────────────────────────────────────────────

    def brokers(self, now_s: float) -> list[BrokerReport]:
        return [self._report(one, now_s) for one in self._brokers.values()]

    def broker(self, name: str, now_s: float) -> BrokerReport:
        return self._report(self._known(name), now_s)

    def session(self, subscriber: str) -> SessionRecord | None:
        return self._sessions.get(subscriber)

    def sessions(self) -> Iterator[SessionRecord]:
        return iter(self._sessions)

    def balance(self) -> Balance:
        """How the brokers stand that subscribers may be at."""
        loads, present = self._sessions.loads, self._present()
        names = [one.record.name for one in present]
        return Balance.of(names, [loads.of(name).total for name in names], [one.record.capacity for one in present])

    def assignment(self, resting: Collection[str] = frozenset()) -> AssignmentView:
        """Who is where and holds what, to be planned with. Only ACTIVE brokers take subscribers."""
        places = [
            BrokerPlace(one.record.name, one.record.capacity, one.state is BrokerState.ACTIVE)
            for one in self._present()
        ]
        return AssignmentView.of(places, self._sessions, self.rates.of, resting)

    @property
    def subscriber_count(self) -> int:
        return len(self._sessions)

    @property
    def policy(self) -> str:
        return self._placing.policy

    @property
    def policies(self) -> list[str]:
        return self._placing.policies

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, event: Event) -> list[Instruction]:
        if not isinstance(event, PlacementAsked):
            self._choice = None
        match event:
            case HeartbeatReceived():
                return self._heartbeat_received(event)
            case SubscribersClaimed():
                return self._subscribers_claimed(event)
            case PlacementAsked():
                return self._placement_asked(event)
            case HandoverAsked():
                return self._handover_asked(event)
            case TimePassed():
                return self._time_passed(event)
            case BrokerRegistered():
                return self._broker_registered(event)
            case BrokerModeSet():
                return self._broker_mode_set(event)
            case BrokerRemoved():
                return self._broker_removed(event)
            case PolicyChosen():
                self._placing.choose_policy(event.policy)
                return [StorePolicy(event.policy)]
            case UserRemoved():
                return [*self._sessions.end_all_of(event.user)]
            case _:
                assert_never(event)

    def _broker_registered(self, event: BrokerRegistered) -> list[Instruction]:
        known = self._brokers.get(event.broker)
        mode = known.record.mode if known else BrokerState.ACTIVE
        record = BrokerRecord(event.broker, event.url, event.place, event.capacity, mode)
        if known is None:
            known = _Broker(record, event.now_s)
            self._brokers = dict(sorted({**self._brokers, event.broker: known}.items()))
            self._sessions.add_broker(event.broker)
        known.record, known.heard_s = record, event.now_s
        known.shutting_down = known.was_dead = False
        return [StoreBroker(record), AnswerBroker(known.state)]

    def _broker_mode_set(self, event: BrokerModeSet) -> list[Instruction]:
        broker = self._known(event.broker)
        if event.mode is BrokerState.DEAD:
            raise InvalidValue("a broker can't be set to dead; drain it, or remove it")
        broker.record = replace(broker.record, mode=event.mode)
        return [StoreBroker(_to_store(broker)), AnswerBroker(broker.state)]

    def _broker_removed(self, event: BrokerRemoved) -> list[Instruction]:
        broker = self._known(event.broker)
        if broker.state is BrokerState.ACTIVE and self._silent_s(broker, event.now_s) < self._limits.dead_after_s:
            raise InUse(f"broker {event.broker} is active; drain it first")
        del self._brokers[event.broker]
        return [ForgetBroker(event.broker), *self._sessions.remove_broker(event.broker)]

    def _heartbeat_received(self, event: HeartbeatReceived) -> list[Instruction]:
        broker = self._known(event.broker)
        done: list[Instruction] = []
        if broker.record.dead or broker.was_dead:
            broker.record = replace(broker.record, dead=False)
            done += [StoreBroker(broker.record), Note("broker is back", {"broker": event.broker})]
        broker.heard_s, broker.traffic = event.now_s, event.traffic
        for subscription, size_bytes in event.pulled_bytes.items():
            if self._reporters.is_listened_to(event.broker, subscription, event.now_s):
                self.rates.observe(subscription, size_bytes)
        broker.shutting_down, broker.was_dead = event.draining, False
        changes, lost = self._sessions.reported(event.broker, event.changed, event.ended)
        return [*done, *changes, AnswerHeartbeat(broker.state, tuple(lost))]

    def _subscribers_claimed(self, event: SubscribersClaimed) -> list[Instruction]:
        self._known(event.broker)
        changes, generations = self._sessions.claim(event.broker, event.subscribers)
        return [*changes, AnswerClaim(generations)]

    # ── placement ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _placement_asked(self, event: PlacementAsked) -> list[Instruction]:
        session = self._sessions.get(f"{event.user}/{event.device}") if event.device else None
        if session is not None and session.owner not in event.avoid:
            owner = self._brokers.get(session.owner)
            if owner is not None and owner.state in {BrokerState.ACTIVE, BrokerState.CORDONED}:
                return [AnswerPlacement(Placed(owner.record.name, owner.record.url, "sticky"))]
        notes: list[Instruction] = []
        placed = self._place(event.now_s, self._choose_from(event), session, event.place, notes)
        if placed is None:
            raise Unavailable("no broker is there to take subscribers", retry_after_s=_RETRY_AFTER_S)
        return [*notes, AnswerPlacement(placed)]

    def _handover_asked(self, event: HandoverAsked) -> list[Instruction]:
        source = self._known(event.broker)
        open_ones = self._views(self._open(event.now_s, frozenset(), leaving=event.broker))
        notes: list[Instruction] = []
        placements: dict[str, Placed] = {}
        for subscriber in dict.fromkeys(event.subscribers):
            session = self._sessions.get(subscriber)
            # Where a subscriber is, is not kept; the broker it is at was chosen for it.
            placed = self._place(event.now_s, open_ones, session, source.record.place, notes)
            if placed is not None:
                placements[subscriber] = placed
        return [*notes[:1], AnswerHandover(placements)]

    def _place(
        self,
        now_s: float,
        candidates: tuple[BrokerView, ...],
        session: SessionRecord | None,
        place: Point | None,
        notes: list[Instruction],
    ) -> Placed | None:
        if not candidates:
            return None
        newcomer = Newcomer(place, tuple(held.key for held in session.subscriptions) if session else ())
        name, policy, note = self._placing.place(now_s, candidates, newcomer)
        if note is not None:
            notes.append(note)
        return Placed(name, self._brokers[name].record.url, policy)

    def _choose_from(self, event: PlacementAsked) -> tuple[BrokerView, ...]:
        """To look at every broker for every newcomer would be most of the work of placing a million."""
        if event.avoid:
            return self._views(self._open(event.now_s, event.avoid))
        choice = self._choice
        if choice is None or event.now_s >= choice.until_s or choice.rates_version != self.rates.version:
            open_ones = self._open(event.now_s, event.avoid)
            heard_s = [max(one.heard_s, self._watching_since_s) for one in open_ones]
            until_s = min(heard_s, default=event.now_s) + self._limits.dead_after_s / 2
            self._choice = choice = _Choice(self._views(open_ones), until_s, self.rates.version)
        return choice.views

    def _open(self, now_s: float, avoid: frozenset[str], leaving: str = "") -> list[_Broker]:
        """Who may take a newcomer: those heard of lately, if there are any. What to avoid is a wish: if nobody else is
        there, it may have come back meanwhile."""
        active = [
            one for one in self._brokers.values() if one.state is BrokerState.ACTIVE and one.record.name != leaving
        ]
        wished = [one for one in active if one.record.name not in avoid] or active
        return [one for one in wished if not one.was_dead and not self._is_suspect(one, now_s)] or wished

    def _views(self, brokers: Iterable[_Broker]) -> tuple[BrokerView, ...]:
        return tuple(self._view(one) for one in brokers)

    def _view(self, broker: _Broker) -> BrokerView:
        name, loads = broker.record.name, self._sessions.loads
        return BrokerView(
            name,
            broker.record.place,
            broker.record.capacity,
            broker.state,
            broker.traffic.connections,
            loads.of(name),
            held=loads.held(name),
            rate_of=self.rates.of,
        )

    # ── silence ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _time_passed(self, event: TimePassed) -> list[Instruction]:
        now_s, dead_after_s = event.now_s, self._limits.dead_after_s
        if now_s - self._looked_s > dead_after_s / 2:
            self._watching_since_s = now_s
        self._looked_s = now_s
        self._placing.release(now_s)
        if self.rates.advance(now_s):
            self._reporters.forget(now_s, _REPORTERS_KEPT_S)
        alive = [one for one in self._brokers.values() if not one.record.dead]
        overdue = [one for one in alive if self._silent_s(one, now_s) >= dead_after_s]
        # Those who were dead before we started are no news; those almost overdue fell silent with the others, and those
        # who died a moment ago may have been the first of them.
        fallen = [one for one in self._brokers.values() if one.record.dead and now_s - one.died_s < dead_after_s]
        counted = [one for one in alive if not one.was_dead] + fallen
        suspect = [one for one in counted if self._is_suspect(one, now_s)]
        is_mass = (
            any(not one.was_dead for one in overdue)
            and len(counted) >= _MASS_MIN_BROKERS
            and len(suspect) > self._limits.mass_silence * len(counted)
        )
        done: list[Instruction] = []
        if is_mass != self.mass_silence:
            self.mass_silence = is_mass
            text = "most brokers fell silent at once; nobody is taken for dead" if is_mass else "mass silence has ended"
            done.append(Note(text, {"silent": [one.record.name for one in suspect], "brokers": len(counted)}))
        for broker in overdue:
            if broker.was_dead or not is_mass:
                broker.record = replace(broker.record, dead=True)
                broker.died_s = float("-inf") if broker.was_dead else now_s
                broker.was_dead = False
                told = {"broker": broker.record.name, "silent_s": round(self._silent_s(broker, now_s), 1)}
                done += [StoreBroker(broker.record), Note("broker is dead: it fell silent", told)]
        return done

    def _silent_s(self, broker: _Broker, now_s: float) -> float:
        return max(0.0, now_s - max(broker.heard_s, self._watching_since_s))

    def _is_suspect(self, broker: _Broker, now_s: float) -> bool:
        return self._silent_s(broker, now_s) >= self._limits.dead_after_s / 2

    # ── small parts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _present(self) -> list[_Broker]:
        return [one for one in self._brokers.values() if one.state in {BrokerState.ACTIVE, BrokerState.CORDONED}]

    def _known(self, name: str) -> _Broker:
        if (broker := self._brokers.get(name)) is None:
            raise NotFound(f"no broker called {name} is registered")
        return broker

    def _report(self, broker: _Broker, now_s: float) -> BrokerReport:
        name, loads = broker.record.name, self._sessions.loads
        return BrokerReport(
            broker.record,
            broker.state,
            broker.traffic,
            loads.subscribers(name),
            loads.of(name),
            self._silent_s(broker, now_s),
        )


def _to_store(broker: _Broker) -> BrokerRecord:
    return replace(broker.record, dead=broker.record.dead or broker.was_dead)
