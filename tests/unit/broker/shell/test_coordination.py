"""The broker's standing with the coordinator: what it is told, and when it has to end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tocsin.broker.core.events import Event, ReportDue
from tocsin.broker.core.instructions import Report
from tocsin.broker.shell.coordination import Coordination
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import AlreadyExists, Superseded, TocsinError, Unauthorised, Unavailable
from tocsin.model.backoff import Backoff
from tocsin.protocol.coordination import BrokerRegistration, BrokerState, BrokerWelcome, Heartbeat, HeartbeatAnswer
from tocsin.protocol.incarnations import Holder, take_name
from tocsin.protocol.ports import CoordinatorPort
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.tokens import Identity, TokenSigner, keys_version


class Coordinator:
    """Answers as it is set up to."""

    def __init__(self, folder: Path) -> None:
        self.signer = TokenSigner.load(folder / "key.pem")
        self.refusal: TocsinError | None = None
        self.claims = 0
        self.heard = asyncio.Event()
        self.revoked: dict[str, int] = {}
        self.keys = [self.signer.public_key()]
        self.holder: Holder | None = None
        self.silent_s = 0.0
        self.asked = asyncio.Event()

    async def register(self, registration: BrokerRegistration) -> BrokerWelcome:
        self.asked.set()
        if self.refusal is not None:
            raise self.refusal
        self.holder = take_name(
            "b",
            self.holder,
            registration.identity,
            registration.start,
            1,
            silent_s=self.silent_s,
            takes_over=registration.takes_over,
        )
        return BrokerWelcome(
            broker="b",
            state=BrokerState.ACTIVE,
            public_keys=self.keys,
            heartbeat_every_s=0.01,
            incarnation=1,
        )

    async def report(self, heartbeat: Heartbeat) -> HeartbeatAnswer:
        if self.refusal is not None:
            raise self.refusal
        self.heard.set()
        return HeartbeatAnswer(
            state=BrokerState.ACTIVE,
            next_in_s=0.01,
            lost=[],
            revoked=self.revoked,
            revocations_version=len(self.revoked),
            public_keys=None if heartbeat.keys_seen == keys_version(self.keys) else self.keys,
        )

    async def claim(self, _subscribers: Any) -> tuple[dict[str, int], list[Any]]:
        self.claims += 1
        return {}, []

    async def sessions(self, subscribers: Any) -> tuple[dict[str, None], list[str]]:
        return dict.fromkeys(subscribers), []

    async def close(self) -> None:
        pass


def coordination_with(coordinator: Coordinator, folder: Path) -> Coordination:
    link = cast(CoordinatorPort, coordinator)
    registration = BrokerRegistration(url="http://b", identity="ours", start="x")
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


async def _asked_again(coordinator: Coordinator) -> None:
    """Returns when a broker that was refused has tried once more, and was refused again."""
    for _ in range(2):
        coordinator.asked.clear()
        await asyncio.wait_for(coordinator.asked.wait(), 10)


async def test_a_broker_takes_no_name_that_the_cluster_has_not_given_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has the name may be cut off from the coordinator alone. It would end when it is back, and this one too, since
    the cluster refuses it."""
    monkeypatch.setattr("tocsin.broker.shell.coordination._BACKOFF", Backoff(0.01, 0.01))
    coordinator = Coordinator(tmp_path)
    coordinator.holder, coordinator.silent_s = Holder("another's", 7, "y"), 3600
    coordination = coordination_with(coordinator, tmp_path)
    await coordination.introduce()
    running = run(coordination)
    await _asked_again(coordinator)
    assert coordinator.holder == Holder("another's", 7, "y")
    coordination.name_given()
    await asyncio.wait_for(coordinator.heard.wait(), 10)
    assert coordinator.holder.identity == "ours"
    running.cancel()


async def test_a_broker_that_has_its_name_at_the_cluster_waits_for_the_coordinator_to_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one ends when the cluster refuses it; if this one ended too, nobody would be left."""
    monkeypatch.setattr("tocsin.broker.shell.coordination._BACKOFF", Backoff(0.01, 0.01))
    coordinator = Coordinator(tmp_path)
    coordination = coordination_with(coordinator, tmp_path)
    coordination.name_given()
    coordinator.holder, coordinator.silent_s = Holder("another's", 7, "y"), 1
    running = run(coordination)
    await _asked_again(coordinator)
    assert not running.done()
    coordinator.silent_s = 15
    await asyncio.wait_for(coordinator.heard.wait(), 10)
    assert coordinator.holder.identity == "ours"
    running.cancel()


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


async def reported(coordination: Coordination, coordinator: Coordinator) -> None:
    """Returns when one more heartbeat was answered."""
    running = run(coordination)
    for _ in range(2):  # The second comes when the answer to the first was taken in.
        coordinator.heard.clear()
        await asyncio.wait_for(coordinator.heard.wait(), 10)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_broker_learns_new_keys_and_forgets_old_ones_without_registering_again(tmp_path: Path) -> None:
    """They come with the answers to heartbeats, and are there after a start without the coordinator."""
    coordinator = Coordinator(tmp_path)
    coordination = coordination_with(coordinator, tmp_path)
    await coordination.introduce()
    ann = Identity("ann", "", 1_000_000, 2_000_000)
    old_token = coordinator.signer.sign(ann)
    assert coordination.check(old_token, 1_500_000) == ann
    following = TokenSigner.load(tmp_path / "next.pem")
    with pytest.raises(Unauthorised):
        coordination.check(following.sign(ann), 1_500_000)
    coordinator.keys = [following.public_key(), *coordinator.keys]
    await reported(coordination, coordinator)
    for token in (old_token, following.sign(ann)):
        assert coordination.check(token, 1_500_000) == ann
    coordinator.keys = [following.public_key()]
    await reported(coordination, coordinator)
    for one in (coordination, coordination_with(coordinator, tmp_path)):
        assert one.check(following.sign(ann), 1_500_000) == ann
        with pytest.raises(Unauthorised):
            one.check(old_token, 1_500_000)


async def test_a_revoked_token_stays_void_when_the_broker_starts_without_the_coordinator(tmp_path: Path) -> None:
    """Nor is there a moment after registering again in which it would be taken."""
    coordinator = Coordinator(tmp_path)
    coordination = coordination_with(coordinator, tmp_path)
    await coordination.introduce()
    token = coordinator.signer.sign(Identity("ann", "", 1_000_000, 2_000_000))
    coordinator.revoked = {"ann": 1_200_000}
    await reported(coordination, coordinator)
    await coordination.introduce()
    for one in (coordination, coordination_with(coordinator, tmp_path)):
        with pytest.raises(Unauthorised, match="revoked"):
            one.check(token, 1_500_000)
