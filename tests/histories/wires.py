"""Connections between subscribers and brokers: two queues that keep their order, and ends that notice a cut late."""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tocsin.protocol.messages import FromBroker, FromSubscriber

if TYPE_CHECKING:
    from histories.broker_side import BrokerSide
    from histories.subscribers import Program


@dataclass(frozen=True, slots=True)
class End:
    """The connection ends here, with a close code of the broker's or none."""

    code: int = 0


@dataclass(slots=True, eq=False)
class Wire:
    number: int
    link: int
    program: Program
    broker: BrokerSide
    rng: random.Random
    to_broker: deque[FromSubscriber | End] = field(default_factory=deque)
    to_client: deque[FromBroker | End] = field(default_factory=deque)

    @property
    def user(self) -> str:
        return self.program.device.user

    @property
    def permission(self) -> str:
        return self.program.device.permission

    def carry_to_broker(self) -> None:
        """The next message arrives."""
        if self.to_broker and self.number in self.broker.wires:
            message = self.to_broker.popleft()
            if isinstance(message, End):
                self.broker.lost(self)
            else:
                self.broker.received(self, message)

    def carry_to_client(self) -> None:
        if self.to_client:
            self.program.received(self, self.to_client.popleft())

    def carry_all(self) -> None:
        """All that was sent arrives, at both ends."""
        while self.to_broker and self.number in self.broker.wires:
            self.carry_to_broker()
        while self.to_client:
            self.carry_to_client()

    def cut(self) -> None:
        """Each end notices after what had already arrived there; the rest is gone."""
        self._end(self.to_broker, End())
        self._end(self.to_client, End())

    def closed_by_client(self) -> None:
        """What was sent before still arrives."""
        self.to_broker.append(End())

    def closed_by_broker(self, code: int) -> None:
        self.to_client.append(End(code))

    def die_at_broker(self) -> None:
        self.to_broker.clear()
        self._end(self.to_client, End())

    def die_at_client(self) -> None:
        self._end(self.to_broker, End())

    def _end(self, queue: deque[FromBroker | End] | deque[FromSubscriber | End], end: End) -> None:
        for _ in range(self.rng.randint(0, len(queue))):
            queue.pop()
        queue.append(end)
