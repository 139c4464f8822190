"""The coordinator's machine: brokers, who keeps whose session, and where newcomers go (pure).

Rules:

1.  A broker is in the mode that operators want (ACTIVE, CORDONED, DRAINING), or DEAD. DRAINING is also what a broker
    says of itself when it shuts down; registering again ends that.
2.  Silence makes a broker DEAD. Only silence that was watched counts: not the time before the start, nor while we
    were asleep ourselves. The next heartbeat brings it back in its mode.
3.  If too many would die at once, nobody does: the fault is more likely here.
4.  Silence is never emptiness: a session stays with its owner, dead or removed, until another broker claims it, or its
    owner says that it has ended.
5.  A session has one owner. A claim raises its generation. What is reported with an older generation is lost to the
    broker that reports it; every former owner is told once.
6.  Newcomers go to ACTIVE brokers only; those who come back, to their own, if that is ACTIVE or CORDONED.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from tocsin.coordinator.balancing.placement import Chance, Newcomer, PlacementPolicy, least_resulting_load
from tocsin.coordinator.events import (
    BrokerModeSet,
    BrokerRegistered,
    BrokerRemoved,
    Event,
    HandoverAsked,
    HeartbeatReceived,
    PlacementAsked,
    PolicyChosen,
    ReportedSession,
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
    ForgetSession,
    Instruction,
    Note,
    Placed,
    StoreBroker,
    StorePolicy,
    StoreSession,
)
from tocsin.coordinator.loads import BrokerView, Load, Loads, NetworkView
from tocsin.coordinator.records import BrokerRecord, Point, SessionRecord, user_of
from tocsin.errors import InUse, InvalidValue, NotFound, Unavailable
from tocsin.protocol.coordination import BrokerState

#: Fewer brokers than this can well all fail by themselves.
_MASS_MIN_BROKERS = 3
#: A placement counts for its broker until it must show in the broker's own figures.
_RESERVED_HEARTBEATS = 2.0
_RETRY_AFTER_S = 1.0


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
    #: Subscribers that it no longer owns and has not been told of.
    to_lose: set[str] = field(default_factory=set)
    reserved_connections: int = 0
    reserved_load: float = 0.0

    @property
    def state(self) -> BrokerState:
        if self.record.dead:
            return BrokerState.DEAD
        return BrokerState.DRAINING if self.shutting_down else self.record.mode


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
    ) -> None:
        self._limits = limits
        self._policies = policies
        self._chance = chance
        self.policy = policy
        self.mass_silence = False
        self._looked_s = now_s
        self._watching_since_s = now_s
        self._last_placed = ""
        #: (until when, whose, load) of placements that do not show in heartbeats yet.
        self._reserved: deque[tuple[float, _Broker, float]] = deque()
        self._brokers = {
            record.name: _Broker(replace(record, dead=False), now_s, was_dead=record.dead)
            for record in sorted(brokers, key=lambda one: one.name)
        }
        self._sessions: dict[str, SessionRecord] = {}
        self._loads = Loads()
        for session in sessions:
            self._update(replace(session, former=session.former & self._brokers.keys()))

    # ── what can be seen ────────────────────────────────────────────────────────────────────────────────────────────

    def brokers(self, now_s: float) -> list[BrokerReport]:
        return [self._report(one, now_s) for one in self._brokers.values()]

    def broker(self, name: str, now_s: float) -> BrokerReport:
        return self._report(self._known(name), now_s)

    def session(self, subscriber: str) -> SessionRecord | None:
        """What is kept for a subscriber, by whoever keeps it, dead or alive."""
        session = self._sessions.get(subscriber)
        return session if session is not None and session.owner else None

    def sessions(self) -> Iterator[SessionRecord]:
        return (session for session in self._sessions.values() if session.owner)

    @property
    def subscriber_count(self) -> int:
        return len(self._sessions)

    @property
    def policies(self) -> list[str]:
        return sorted(self._policies)

    # ── what happens ────────────────────────────────────────────────────────────────────────────────────────────────

    def handle(self, event: Event) -> list[Instruction]:
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
                return self._policy_chosen(event)
            case UserRemoved():
                return self._user_removed(event)
            case _:
                assert_never(event)

    def _broker_registered(self, event: BrokerRegistered) -> list[Instruction]:
        known = self._brokers.get(event.broker)
        mode = known.record.mode if known else BrokerState.ACTIVE
        record = BrokerRecord(event.broker, event.url, event.place, event.capacity, mode)
        if known is None:
            known = _Broker(record, event.now_s)
            self._brokers = dict(sorted({**self._brokers, event.broker: known}.items()))
        known.record, known.heard_s = record, event.now_s
        known.shutting_down = known.was_dead = False
        return [StoreBroker(record), AnswerBroker(known.state)]

    def _broker_mode_set(self, event: BrokerModeSet) -> list[Instruction]:
        broker = self._known(event.broker)
        if event.mode is BrokerState.DEAD:
            raise InvalidValue("a broker can't be set to dead; drain it, or remove it")
        broker.record = replace(broker.record, mode=event.mode)
        return [StoreBroker(self._stored(broker)), AnswerBroker(broker.state)]

    def _broker_removed(self, event: BrokerRemoved) -> list[Instruction]:
        broker = self._known(event.broker)
        if broker.state is BrokerState.ACTIVE and self._silent_s(broker, event.now_s) < self._limits.dead_after_s:
            raise InUse(f"broker {event.broker} is active; drain it first")
        del self._brokers[event.broker]
        done: list[Instruction] = [ForgetBroker(event.broker)]
        for subscriber in broker.to_lose:
            done += self._told(event.broker, subscriber)
        return done

    def _policy_chosen(self, event: PolicyChosen) -> list[Instruction]:
        if event.policy not in self._policies:
            raise InvalidValue(f"no placement policy called {event.policy!r}; there are: {', '.join(self.policies)}")
        self.policy = event.policy
        return [StorePolicy(event.policy)]

    def _user_removed(self, event: UserRemoved) -> list[Instruction]:
        """Whoever takes the name later must not find what this user subscribed to."""
        theirs = [one for one in self._sessions.values() if user_of(one.subscriber) == event.user and one.owner]
        return [instruction for session in theirs for instruction in self._end(session, told=False)]

    # ── heartbeats, and sessions ────────────────────────────────────────────────────────────────────────────────────

    def _heartbeat_received(self, event: HeartbeatReceived) -> list[Instruction]:
        broker = self._known(event.broker)
        done: list[Instruction] = []
        broker.heard_s = event.now_s
        broker.was_dead = False
        broker.traffic = event.traffic
        broker.shutting_down = event.draining
        if broker.record.dead:
            broker.record = replace(broker.record, dead=False)
            done += [StoreBroker(broker.record), Note("broker is back", {"broker": event.broker})]
        # Ended ones first: one that is in both lists has begun anew.
        for subscriber in event.ended:
            session = self._sessions.get(subscriber)
            if session is not None and session.owner == event.broker:
                done += self._end(session, told=True)
            elif session is not None and event.broker in session.former:
                done += self._told(event.broker, subscriber)
        lost = {one.subscriber: None for one in event.changed if not self._take(event.broker, one, done)}
        for subscriber in sorted(broker.to_lose):
            lost[subscriber] = None
            done += self._told(event.broker, subscriber)
        broker.to_lose.clear()
        return [*done, AnswerHeartbeat(broker.state, tuple(lost))]

    def _take(self, broker: str, reported: ReportedSession, done: list[Instruction]) -> bool:
        """Believe what `broker` reports of a session, unless another keeps it since; whether it was believed."""
        known = self._sessions.get(reported.subscriber)
        if known is not None and not self._believes(known, broker, reported):
            return False
        former: frozenset[str] = known.former if known else frozenset()
        if known is not None and known.owner not in {broker, ""} and known.owner in self._brokers:
            former |= {known.owner}
        session = SessionRecord(
            reported.subscriber,
            broker,
            reported.generation,
            reported.connected,
            reported.subscriptions,
            former - {broker},
        )
        if session != known:
            self._update(session)
            done.append(StoreSession(session))
        return True

    def _believes(self, known: SessionRecord, broker: str, reported: ReportedSession) -> bool:
        if reported.generation != known.generation or known.owner == broker:
            return reported.generation >= known.generation
        # Two brokers took the same subscriber in while they could not ask: the one where it is now should have it.
        if not known.owner:
            return False
        return known.owner not in self._brokers or (reported.connected and not known.connected)

    def _subscribers_claimed(self, event: SubscribersClaimed) -> list[Instruction]:
        self._known(event.broker)
        done: list[Instruction] = []
        generations: dict[str, int] = {}
        for subscriber in dict.fromkeys(event.subscribers):
            known = self._sessions.get(subscriber) or SessionRecord(subscriber, "", 0)
            former = known.former | ({known.owner} & self._brokers.keys())
            session = replace(
                known, owner=event.broker, generation=known.generation + 1, former=former - {event.broker}
            )
            self._update(session)
            done.append(StoreSession(session))
            generations[subscriber] = session.generation
        return [*done, AnswerClaim(generations)]

    def _end(self, session: SessionRecord, *, told: bool) -> list[Instruction]:
        """Nobody keeps the session any more. Its generation is remembered while an older copy is about."""
        former = session.former | ({session.owner} & self._brokers.keys() if not told else frozenset())
        if not former:
            self._forget(session.subscriber)
            return [ForgetSession(session.subscriber)]
        ended = SessionRecord(session.subscriber, "", session.generation, former=former)
        self._update(ended)
        return [StoreSession(ended)]

    def _told(self, broker: str, subscriber: str) -> list[Instruction]:
        """`broker` keeps no older copy of the session any more."""
        session = self._sessions.get(subscriber)
        if session is None or broker not in session.former:
            return []
        session = replace(session, former=session.former - {broker})
        if not session.former and not session.owner:
            self._forget(subscriber)
            return [ForgetSession(subscriber)]
        self._update(session)
        return [StoreSession(session)]

    def _update(self, session: SessionRecord) -> None:
        before = self._sessions.get(session.subscriber)
        self._remember(session)
        for name in session.former - (before.former if before else frozenset()):
            self._brokers[name].to_lose.add(session.subscriber)
        for name in (before.former if before else frozenset()) - session.former:
            if name in self._brokers:
                self._brokers[name].to_lose.discard(session.subscriber)

    def _remember(self, session: SessionRecord) -> None:
        self._loads.replace(self._sessions.get(session.subscriber), session)
        self._sessions[session.subscriber] = session

    def _forget(self, subscriber: str) -> None:
        session = self._sessions.pop(subscriber)
        self._loads.replace(session, None)
        for name in session.former & self._brokers.keys():
            self._brokers[name].to_lose.discard(subscriber)

    # ── placement ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _placement_asked(self, event: PlacementAsked) -> list[Instruction]:
        session = self.session(f"{event.user}/{event.device}") if event.device else None
        if session is not None and session.owner not in event.avoid:
            owner = self._brokers.get(session.owner)
            if owner is not None and owner.state in {BrokerState.ACTIVE, BrokerState.CORDONED}:
                return [AnswerPlacement(Placed(owner.record.name, owner.record.url, "sticky"))]
        notes: list[Instruction] = []
        placed = self._place(event.now_s, session, event.place, event.avoid, notes)
        if placed is None:
            raise Unavailable("no broker is there to take subscribers", retry_after_s=_RETRY_AFTER_S)
        return [*notes, AnswerPlacement(placed)]

    def _handover_asked(self, event: HandoverAsked) -> list[Instruction]:
        source = self._known(event.broker)
        done: list[Instruction] = []
        placements: dict[str, Placed] = {}
        for subscriber in dict.fromkeys(event.subscribers):
            # Where a subscriber is, is not kept; the broker it is at was chosen for it.
            session = self.session(subscriber)
            placed = self._place(event.now_s, session, source.record.place, frozenset(), done, leaving=event.broker)
            if placed is not None:
                placements[subscriber] = placed
        return [*done, AnswerHandover(placements)]

    def _place(
        self,
        now_s: float,
        session: SessionRecord | None,
        place: Point | None,
        avoid: frozenset[str],
        notes: list[Instruction],
        leaving: str = "",
    ) -> Placed | None:
        self._release(now_s)
        candidates = self._open(now_s, avoid, leaving)
        if not candidates:
            return None
        view = NetworkView(tuple(self._view(one) for one in candidates), self._last_placed)
        newcomer = Newcomer(place, tuple(held.key for held in session.subscriptions) if session else ())
        reason = self.policy
        try:
            name = self._policies[reason](view, newcomer, self._chance)
            chosen = next((at for at, one in enumerate(view.brokers) if one.name == name), None)
            failure = f"it chose {name!r}, which is not open" if chosen is None else ""
        except Exception as exc:  # noqa: BLE001 - a stranger's policy must not keep subscribers from being placed
            chosen, failure = None, f"{type(exc).__name__}: {exc}"
        if chosen is None:
            notes.append(Note("placement policy failed", {"policy": reason, "reason": failure}))
            reason = "least-resulting-load"
            name = least_resulting_load(view, newcomer, self._chance)
            chosen = next(at for at, one in enumerate(view.brokers) if one.name == name)
        broker = candidates[chosen]
        self._last_placed = broker.record.name
        self._reserve(now_s, broker, view.brokers[chosen].added(newcomer.subscriptions))
        return Placed(broker.record.name, broker.record.url, reason)

    def _open(self, now_s: float, avoid: frozenset[str], leaving: str) -> list[_Broker]:
        """Who may take a newcomer: those heard of lately, if there are any. What to avoid is a wish: if nobody else is
        there, it may have come back meanwhile."""
        active = [
            one for one in self._brokers.values() if one.state is BrokerState.ACTIVE and one.record.name != leaving
        ]
        wished = [one for one in active if one.record.name not in avoid] or active
        return [one for one in wished if not one.was_dead and not self._is_suspect(one, now_s)] or wished

    def _view(self, broker: _Broker) -> BrokerView:
        name = broker.record.name
        return BrokerView(
            name,
            broker.record.place,
            broker.record.capacity,
            broker.state,
            broker.traffic.connections + broker.reserved_connections,
            self._loads.of(name),
            broker.reserved_load,
            self._loads.held(name),
        )

    def _reserve(self, now_s: float, broker: _Broker, load: float) -> None:
        self._reserved.append((now_s + _RESERVED_HEARTBEATS * self._limits.heartbeat_every_s, broker, load))
        broker.reserved_connections += 1
        broker.reserved_load += load

    def _release(self, now_s: float) -> None:
        while self._reserved and self._reserved[0][0] <= now_s:
            _, broker, load = self._reserved.popleft()
            broker.reserved_connections -= 1
            # Exactly nothing when nobody is on the way: rounding must not add up.
            broker.reserved_load = broker.reserved_load - load if broker.reserved_connections else 0.0

    # ── silence ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _time_passed(self, event: TimePassed) -> list[Instruction]:
        now_s, dead_after_s = event.now_s, self._limits.dead_after_s
        if now_s - self._looked_s > dead_after_s / 2:
            self._watching_since_s = now_s
        self._looked_s = now_s
        self._release(now_s)
        alive = [one for one in self._brokers.values() if not one.record.dead]
        overdue = [one for one in alive if self._silent_s(one, now_s) >= dead_after_s]
        # Those who were dead before we started are no news; those almost overdue fell silent with the others.
        counted = [one for one in alive if not one.was_dead]
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
                broker.was_dead = False
                done += [
                    StoreBroker(broker.record),
                    Note(
                        "broker is dead: it fell silent",
                        {"broker": broker.record.name, "silent_s": round(self._silent_s(broker, now_s), 1)},
                    ),
                ]
        return done

    def _silent_s(self, broker: _Broker, now_s: float) -> float:
        return max(0.0, now_s - max(broker.heard_s, self._watching_since_s))

    def _is_suspect(self, broker: _Broker, now_s: float) -> bool:
        return self._silent_s(broker, now_s) >= self._limits.dead_after_s / 2

    # ── small parts ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _known(self, name: str) -> _Broker:
        if (broker := self._brokers.get(name)) is None:
            raise NotFound(f"no broker called {name} is registered")
        return broker

    def _stored(self, broker: _Broker) -> BrokerRecord:
        return replace(broker.record, dead=broker.record.dead or broker.was_dead)

    def _report(self, broker: _Broker, now_s: float) -> BrokerReport:
        name = broker.record.name
        return BrokerReport(
            broker.record,
            broker.state,
            broker.traffic,
            self._loads.subscribers(name),
            self._loads.of(name),
            self._silent_s(broker, now_s),
        )
