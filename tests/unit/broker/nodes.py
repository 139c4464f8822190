"""A broker's shell without a network: its cluster and its coordinator are played, its connections are lists."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from tocsin.broker.core.events import Started
from tocsin.broker.core.instructions import Change
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.shell.coordination import Coordination
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.node import BrokerNode
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import Unavailable
from tocsin.protocol.coordination import BrokerRegistration
from tocsin.protocol.messages import FromBroker, encode
from tocsin.protocol.ports import CoordinatorPort, KeptSession
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.tokens import Identity
from tocsin.settings import BrokerSettings
from tocsin.testing.memory_cluster import MemoryCluster


class Coordinator:
    """Knows of nobody."""

    #: What it knows of subscribers; of the others it knows nothing.
    known: Mapping[str, KeptSession | None] = MappingProxyType({})

    async def sessions(self, subscribers: Sequence[str]) -> tuple[dict[str, KeptSession | None], list[str]]:
        return {one: self.known.get(one) for one in subscribers}, []

    async def close(self) -> None:
        pass


class Standing(Coordination):
    def check(self, token: str, _now_us: int) -> Identity:
        """The token is the user's name."""
        return Identity(token, "", 0, 1 << 62)


class Store(SessionStore):
    """`is_full` plays a disk without room."""

    is_full = False

    def apply(self, changes: Iterable[Change]) -> None:
        if self.is_full:
            raise Unavailable("database or disk is full", retry_after_s=5)
        super().apply(changes)

    def check(self) -> None:
        if self.is_full:
            raise Unavailable("database or disk is full", retry_after_s=5)
        super().check()


class Line:
    """A subscriber's connection."""

    def __init__(self, number: int) -> None:
        self.id = number
        self.heard_at_s = 0.0
        self.sent: list[FromBroker] = []
        self.wires: list[bytes] = []
        self.closed: tuple[int, str] | None = None

    def greeted(self) -> None:
        pass

    def send(self, message: FromBroker) -> None:
        encode(message)
        self.sent.append(message)

    def deliver(self, wires: Sequence[bytes]) -> int:
        self.wires += wires
        return sum(map(len, wires))

    def is_congested(self) -> bool:
        return False

    def ping(self) -> None:
        pass

    def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)

    def last(self) -> Any:
        return self.sent[-1]


class Broker:
    """A started broker, at cursor 100."""

    def __init__(self, folder: Path, limits: Limits | None = None) -> None:
        self.store = Store(folder)
        self.metrics = BrokerMetrics()
        clock = SystemClock()
        coordination = Standing(
            cast(CoordinatorPort, Coordinator()), self.store, BrokerRegistration(url="http://b"), clock, self.metrics
        )
        cluster = MemoryCluster()
        cluster.sequence = 100
        self.state = BrokerState("b", limits or Limits(), random.Random(0))
        self.node = BrokerNode(
            BrokerSettings(data_dir=folder),
            self.state,
            self.store,
            cluster.link("b"),
            coordination,
            clock,
            self.metrics,
        )
        self.metrics.watch(self.state)
        self.node.happened(Started(self.store.sessions(), [], 100, clock.monotonic_s()))

    async def line(self, user: str) -> Line:
        """A subscriber who has been welcomed."""
        line = Line(self.node.next_connection())
        self.node.opened(line)
        await self.say(line, f'{{"type":"hello","token":"{user}","device":"d"}}')
        return line

    async def say(self, line: Line, text: str | bytes) -> None:
        """Send a message, and wait until everything that follows from it has been done."""
        self.node.received(line, text.encode() if isinstance(text, str) else text)
        for _ in range(20):
            await asyncio.sleep(0)

    def failures(self) -> float:
        return self.metrics.failures._value.get()
