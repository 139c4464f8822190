"""Sessions and brokers as moves see them, in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tocsin.coordinator.registry.records import SessionRecord


@dataclass(slots=True)
class FakeNetwork:
    sessions: dict[str, SessionRecord]
    #: Brokers that subscribers may be sent to, while they are not dead.
    taking: set[str]
    dead: set[str] = field(default_factory=set)
    #: They have not reported since the coordinator began.
    unheard: set[str] = field(default_factory=set)

    @staticmethod
    def of(brokers: Iterable[str], sessions: Iterable[SessionRecord]) -> FakeNetwork:
        return FakeNetwork({one.subscriber: one for one in sessions}, set(brokers))

    def session(self, subscriber: str) -> SessionRecord | None:
        return self.sessions.get(subscriber)

    def takes(self, broker: str) -> bool:
        return broker in self.taking and broker not in self.dead

    def is_current(self, broker: str) -> bool:
        return broker not in self.unheard

    def is_dead(self, broker: str) -> bool:
        return broker in self.dead

    def claim(self, subscriber: str, broker: str) -> None:
        self.sessions[subscriber] = replace(self.sessions[subscriber], owner=broker)
