"""The broker's standing with the coordinator: what it is told, and when it has to end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tocsin.broker.coordination import Coordination
from tocsin.broker.coordinator_link import CoordinatorLink
from tocsin.broker.events import Event, Report, ReportDue
from tocsin.broker.metrics import BrokerMetrics
from tocsin.broker.store import SessionStore
from tocsin.errors import AlreadyExists, Superseded, TocsinError, Unavailable
from tocsin.protocol.coordination import BrokerRegistration, BrokerState, BrokerWelcome, Heartbeat, HeartbeatAnswer
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.tokens import TokenSigner


class Coordinator:
    """Answers as it is set up to."""

    def __init__(self, folder: Path) -> None:
        self.signer = TokenSigner.load(folder / "key.pem")
        self.refusal: TocsinError | None = None
        self.claims = 0

    async def register(self, _registration: BrokerRegistration) -> BrokerWelcome:
        if self.refusal is not None:
            raise self.refusal
        return BrokerWelcome(
            broker="b",
            state=BrokerState.ACTIVE,
            public_key=self.signer.public_key(),
            heartbeat_every_s=0.01,
            incarnation=1,
        )

    async def report(self, _heartbeat: Heartbeat) -> HeartbeatAnswer:
        if self.refusal is not None:
            raise self.refusal
        return HeartbeatAnswer(state=BrokerState.ACTIVE, next_in_s=0.01, lost=[], revoked={}, revocations_version=0)

    async def claim(self, _subscribers: Any) -> dict[str, int]:
        self.claims += 1
        return {}

    async def close(self) -> None:
        pass


def coordination_with(coordinator: Coordinator, folder: Path) -> Coordination:
    link = cast(CoordinatorLink, coordinator)
    registration = BrokerRegistration(url="http://b")
    return Coordination(link, SessionStore(folder), registration, SystemClock(), BrokerMetrics())


def run(coordination: Coordination) -> asyncio.Task[None]:
    def happened(event: Event) -> None:
        if isinstance(event, ReportDue):
            coordination.take(Report((), {}, (), {}))

    return asyncio.create_task(coordination.run(happened))


async def test_a_broker_whose_name_is_anothers_ends_before_it_has_changed_anything(tmp_path: Path) -> None:
    coordinator = Coordinator(tmp_path)
    coordinator.refusal = AlreadyExists("another broker called b is running")
    with pytest.raises(AlreadyExists):
        await coordination_with(coordinator, tmp_path).introduce()


async def test_a_broker_starts_without_the_coordinator(tmp_path: Path) -> None:
    """It goes on, registers when the coordinator is back, and knows from before who may come."""
    coordinator = Coordinator(tmp_path)
    coordinator.refusal = Unavailable("away", retry_after_s=1)
    await coordination_with(coordinator, tmp_path).introduce()


async def test_a_broker_that_was_superseded_ends(tmp_path: Path) -> None:
    """It does not go on trying, and claims nobody."""
    coordinator = Coordinator(tmp_path)
    coordination = coordination_with(coordinator, tmp_path)
    await coordination.introduce()
    running = run(coordination)
    coordinator.refusal = Superseded("broker b was started again")
    with pytest.raises(Superseded):
        await asyncio.wait_for(running, 10)
    assert coordinator.claims == 0
