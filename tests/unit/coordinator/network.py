"""A small network around the coordinator's machine, for tests: time moves only when it is told to."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import TypeVar

from tocsin.balancing.placement import POLICIES
from tocsin.coordinator.registry.events import (
    BrokerRegistered,
    Event,
    HeartbeatReceived,
    MovesAsked,
    PlacementAsked,
    ReportedSession,
    SubscribersClaimed,
    TimePassed,
    Traffic,
)
from tocsin.coordinator.registry.instructions import (
    AnswerClaim,
    AnswerHeartbeat,
    AnswerMoves,
    AnswerPlacement,
    ForgetBroker,
    ForgetSession,
    Instruction,
    Note,
    Placed,
    StoreBroker,
    StorePolicy,
    StoreSession,
    StoreStoppedEvacuations,
)
from tocsin.coordinator.registry.machine import CoordinatorState, Limits
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord, SessionSubscription
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.subscription_keys import KeyText

_Wanted = TypeVar("_Wanted")


def held(*names: str, position: str = "1-0") -> tuple[SessionSubscription, ...]:
    return tuple(SessionSubscription(KeyText(name), position) for name in names)


class Network:
    """The machine, a clock, and what a store would hold: every instruction to store is carried out on it."""

    def __init__(self, policy: str = "least-resulting-load", **policies: object) -> None:
        self.now_s = 1000.0
        self.policies = {**POLICIES, **policies}
        self.stored_brokers: dict[str, BrokerRecord] = {}
        self.stored_sessions: dict[str, SessionRecord] = {}
        self.stored_policy = policy
        self.stored_stopped: tuple[str, ...] = ()
        self.notes: list[str] = []
        self.state = self._started()

    def _started(self) -> CoordinatorState:
        return CoordinatorState(
            self.now_s,
            Limits(),
            self.policies,  # type: ignore[arg-type]
            self.stored_policy,
            random.Random(7),
            self.stored_brokers.values(),
            self.stored_sessions.values(),
            stopped_evacuations=self.stored_stopped,
        )

    def restart(self) -> None:
        """As after kill -9: only what was stored is left."""
        self.state = self._started()

    def handle(self, event: Event) -> list[Instruction]:
        done = self.state.handle(event)
        for one in done:
            match one:
                case StoreBroker(broker):
                    self.stored_brokers[broker.name] = broker
                case ForgetBroker(name):
                    del self.stored_brokers[name]
                case StoreSession(session):
                    self.stored_sessions[session.subscriber] = session
                case ForgetSession(subscriber):
                    del self.stored_sessions[subscriber]
                case StorePolicy(name):
                    self.stored_policy = name
                case StoreStoppedEvacuations(names):
                    self.stored_stopped = names
                case Note(text):
                    self.notes.append(text)
        return done

    def answer(self, event: Event, kind: type[_Wanted]) -> _Wanted:
        return next(one for one in self.handle(event) if isinstance(one, kind))

    def register(self, *brokers: str, **options: object) -> None:
        for name in brokers:
            self.handle(BrokerRegistered(self.now_s, name, f"http://{name}", **options))  # type: ignore[arg-type]

    def heartbeat(
        self,
        broker: str,
        *changed: ReportedSession,
        ended: tuple[str, ...] = (),
        connections: int = 0,
        draining: bool = False,
        pulled: dict[str, int] | None = None,
        prepared: tuple[str, ...] = (),
        locations: Mapping[str, tuple[float, float]] | None = None,
    ) -> AnswerHeartbeat:
        sizes = {KeyText(name): size_bytes for name, size_bytes in (pulled or {}).items()}
        event = HeartbeatReceived(
            self.now_s, broker, Traffic(connections), changed, ended, draining, sizes, prepared, locations or {}
        )
        return self.answer(event, AnswerHeartbeat)

    def handled_heartbeat(self, broker: str) -> list[Instruction]:
        """An empty heartbeat, with all that follows from it."""
        return self.handle(HeartbeatReceived(self.now_s, broker))

    def claim(self, broker: str, *subscribers: str) -> dict[str, int]:
        return dict(self.answer(SubscribersClaimed(broker, subscribers), AnswerClaim).generations)

    def place(self, user: str = "ann", device: str = "", **options: object) -> Placed:
        event = PlacementAsked(self.now_s, user, device, **options)  # type: ignore[arg-type]
        return self.answer(event, AnswerPlacement).placed

    def move_away(self, broker: str, *subscribers: str) -> dict[str, Placed]:
        return dict(self.answer(MovesAsked(self.now_s, broker, subscribers), AnswerMoves).placements)

    def pass_time(self, seconds: float, *, heard: tuple[str, ...] = ()) -> None:
        """Time goes by, half a second at a time; `heard` keep sending heartbeats."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s = min(self.now_s + 0.5, until_s)
            for broker in heard:
                self.heartbeat(broker)
            self.handle(TimePassed(self.now_s))

    def state_of(self, broker: str) -> BrokerState:
        return self.state.broker(broker, self.now_s).state

    def owner_of(self, subscriber: str) -> str | None:
        session = self.state.session(subscriber)
        return session.owner if session else None
