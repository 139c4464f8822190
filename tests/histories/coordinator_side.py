"""The coordinator's machine, what is on its disk, and answers that wait until what led to them is there."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tocsin.balancing.placement import POLICIES
from tocsin.broker.core.instructions import Report
from tocsin.coordinator.registry.events import (
    BrokerRegistered,
    Event,
    HeartbeatReceived,
    PlacementAsked,
    ReportedSession,
    SubscribersClaimed,
    TimePassed,
    Traffic,
)
from tocsin.coordinator.registry.instructions import (
    AnswerClaim,
    AnswerHeartbeat,
    AnswerPlacement,
    ForgetSession,
    Instruction,
    StoreBroker,
    StoreSession,
)
from tocsin.coordinator.registry.machine import CoordinatorState, Limits
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord, SessionSubscription
from tocsin.errors import Unavailable
from tocsin.model.position import Position
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import KeyText, SubscriptionKey, key_text

_POLICY = "random"


@dataclass(slots=True)
class Disk:
    brokers: dict[str, BrokerRecord]
    sessions: dict[str, SessionRecord]


def text_of(key: SubscriptionKey) -> KeyText:
    return key_text(key.channel, key.parameter_values(), key.permission)


class CoordinatorSide:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.disk = Disk({}, {})
        self._pending: dict[tuple[str, str], Instruction] = {}
        self._waiting: list[Callable[[], None]] = []
        self._keys: dict[KeyText, SubscriptionKey] = {}
        self.is_up = True
        self.life = 0
        self._state = self._restored(0.0)

    @property
    def is_ready(self) -> bool:
        return self.is_up

    # Living and dying

    def kill(self) -> None:
        self.life += 1
        self.is_up = False
        self._pending.clear()
        self._waiting.clear()

    def start(self, now_s: float) -> None:
        if not self.is_up:
            self.is_up = True
            self._state = self._restored(now_s)

    def commit(self) -> None:
        """What is pending reaches the disk, all of it; then those are answered who wait for it."""
        for (kind, name), one in self._pending.items():
            match one:
                case StoreSession(session):
                    self.disk.sessions[name] = session
                case StoreBroker(broker):
                    self.disk.brokers[name] = broker
                case _:
                    (self.disk.sessions if kind == "session" else self.disk.brokers).pop(name, None)  # type: ignore[attr-defined]
        self._pending.clear()
        waiting, self._waiting = self._waiting, []
        for answer in waiting:
            answer()

    def tick(self, now_s: float) -> None:
        if self.is_up:
            self._handle(TimePassed(now_s))

    # What brokers and subscribers ask; each is answered when all that led to the answer is on disk

    def register(self, broker: str, now_s: float, answer: Callable[[], None]) -> None:
        self._handle(BrokerRegistered(now_s, broker, url_of(broker)))
        self._known.add(broker)
        self._waiting.append(answer)

    def claim(self, broker: str, subscribers: Sequence[str], answer: Callable[[AnswerClaim], None]) -> None:
        done = self._handle(SubscribersClaimed(broker, tuple(subscribers)))
        answered = next(one for one in done if isinstance(one, AnswerClaim))
        self._waiting.append(lambda: answer(answered))

    def heartbeat(
        self, broker: str, connections: int, report: Report, now_s: float, answer: Callable[[AnswerHeartbeat], None]
    ) -> None:
        changed = tuple(
            ReportedSession(
                subscriber, session.generation, connected, tuple(self._held(one) for one in session.subscriptions)
            )
            for subscriber, (_, connected, session) in report.changed.items()
        )
        event = HeartbeatReceived(
            now_s, broker, Traffic(connections), changed, tuple(report.ended), prepared=tuple(report.prepared)
        )
        answered = next(one for one in self._handle(event) if isinstance(one, AnswerHeartbeat))
        self._waiting.append(lambda: answer(answered))

    def place(self, user: str, device: str, avoid: Sequence[str], now_s: float) -> tuple[str, str] | None:
        try:
            done = self._handle(PlacementAsked(now_s, user, device, None, frozenset(avoid)))
        except Unavailable:
            return None
        placed = next(one for one in done if isinstance(one, AnswerPlacement)).placed
        return placed.broker, placed.url

    def knows(self, broker: str) -> bool:
        return broker in self._known

    def session(self, subscriber: str) -> KeptSession | None:
        session = self._state.session(subscriber)
        return None if session is None else self.kept(session)

    # What can be seen

    def owner_of(self, subscriber: str) -> str:
        session = self._state.session(subscriber)
        return "" if session is None else session.owner

    def has_on_disk(self, subscriber: str, broker: str, held: Mapping[SubscriptionKey, tuple[str, int]]) -> bool:
        """Whether these, with their filters and epochs, would be known after a kill, as kept by `broker`."""
        session = self.disk.sessions.get(subscriber)
        return (
            session is not None
            and session.owner == broker
            and {text_of(key): known for key, known in held.items()}
            == {one.key: (one.where, Position.parse(one.position).epoch) for one in session.subscriptions}
        )

    # Parts

    def _handle(self, event: Event) -> list[Instruction]:
        done = self._state.handle(event)
        for one in done:
            match one:
                case StoreSession(session):
                    self._pending["session", session.subscriber] = one
                case ForgetSession(subscriber):
                    self._pending["session", subscriber] = one
                case StoreBroker(broker):
                    self._pending["broker", broker.name] = one
        return done

    def _held(self, kept: Kept) -> SessionSubscription:
        text = text_of(kept.key)
        self._keys[text] = kept.key
        return SessionSubscription(text, str(kept.position), kept.where)

    def kept(self, session: SessionRecord) -> KeptSession:
        kept = [Kept(self._keys[one.key], Position.parse(one.position), one.where) for one in session.subscriptions]
        return KeptSession(session.subscriber, session.generation, kept)

    def _restored(self, now_s: float) -> CoordinatorState:
        self._known = set(self.disk.brokers)
        return CoordinatorState(
            now_s, Limits(), POLICIES, _POLICY, self._rng, self.disk.brokers.values(), self.disk.sessions.values()
        )


def url_of(broker: str) -> str:
    return f"http://{broker}"
