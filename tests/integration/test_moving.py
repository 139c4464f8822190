"""People are moved while results come: by plans, by drains, and by restarting one broker after the other."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from integration.live import PATIENCE_S, Live, wait_until
from integration.network import Network, running_network
from tocsin.client import AsyncPublisher, CoordinatorClient, ServerError, Subscriber
from tocsin.runtime.processes import ServerProcess

_TOPICS = [f"moving-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def network(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    live.sql(
        "CREATE ACTIVE DATASET Moves (id STRING, number BIGINT, topic STRING, PRIMARY KEY (id));"
        "CREATE FEED moves INTO Moves FROM HTTP;"
        "CREATE CONTINUOUS CHANNEL MovesOf (topic STRING) AS "
        "SELECT m.id, m.number, m.topic FROM Moves m WHERE is_new(m) AND m.topic = :topic;"
    )
    with running_network(live, tmp_path_factory.mktemp("moving"), rates_window_s=4) as network:
        yield network


class Crowd:
    """Programs that note what they are handed, while somebody publishes."""

    def __init__(self, network: Network, name: str) -> None:
        self._network = network
        self._name = name
        self._token = network.token(name)
        self.seen: dict[int, list[int]] = {}
        self.members: list[Subscriber] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._is_over = False
        self._changed = asyncio.Condition()
        self.rounds = 0

    async def join(self, count: int, url: str) -> None:
        for number in range(count):
            me = Subscriber(broker=url, token=self._token, device=f"device-{number}")
            await me.__aenter__()
            await me.subscribe("MovesOf", topic=_TOPICS[number % len(_TOPICS)])
            self.members.append(me)
            self.seen[number] = []
            self._tasks.append(asyncio.create_task(self._note(number, me)))
        self._publishing = asyncio.create_task(self._publish())

    async def finish(self) -> None:
        """Publish no more, and check that everybody got everything once and in order."""
        self._is_over = True
        await self._publishing
        expected = list(range(self.rounds))
        with contextlib.suppress(TimeoutError):
            await self._wait(lambda: all(len(seen) >= len(expected) for seen in self.seen.values()))
        for number, seen in self.seen.items():
            assert seen == expected, f"device-{number}"
        for task in self._tasks:
            task.cancel()
        for me in self.members:
            await me.__aexit__(None, None, None)

    async def until_published(self, more: int) -> None:
        wanted = self.rounds + more
        await self._wait(lambda: self.rounds >= wanted)

    async def _wait(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(holds)

    def brokers(self) -> set[str]:
        return {me.broker for me in self.members}

    async def _note(self, number: int, me: Subscriber) -> None:
        async for notification in me.notifications():
            async with self._changed:
                self.seen[number].append(notification.payload["number"])
                self._changed.notify_all()

    async def _publish(self) -> None:
        """A record for each topic, and the next ones once those are committed: results of one commit come in any
        order."""
        async with AsyncPublisher(self._network.live.url, "moves") as feed:
            while not self._is_over:
                name = f"{self._name}-{self.rounds}"
                records = [{"id": f"{name}-{topic}", "number": self.rounds, "topic": topic} for topic in _TOPICS]
                await feed.publish(*records, wait_commit=True)
                async with self._changed:
                    self.rounds += 1
                    self._changed.notify_all()


@asynccontextmanager
async def crowd(network: Network, name: str, count: int, at: ServerProcess) -> AsyncIterator[Crowd]:
    people = Crowd(network, name)
    await people.join(count, at.url)
    await people.until_published(3)
    yield people
    await people.finish()


async def test_a_plan_is_carried_out_and_nobody_notices(network: Network) -> None:
    """Made, looked at, executed by id; refused once things have changed; everything is in the store and the log."""
    with network.broker("plan-a") as first, network.broker("plan-b"):
        async with crowd(network, "planned", 12, first) as people:
            await asyncio.to_thread(_carry_out_and_check, network)
            await people.until_published(5)
            assert people.brokers() == {"plan-a", "plan-b"}
        with CoordinatorClient(network.coordinator.url) as client:
            client.set_state("plan-a", "cordoned")
            client.set_state("plan-b", "cordoned")


def _carry_out_and_check(network: Network) -> None:
    with CoordinatorClient(network.coordinator.url) as client:
        wait_until(lambda: client.broker("plan-a")["subscribers"] == 12, "the coordinator knows of all")
        plan = client.make_plan(stage="shuffle", policy="gsh")
        assert plan["move_count"] > 3
        client.execute(plan["plan"], by="ann", reason="to see it")
        wait_until(lambda: client.execution(plan["plan"])["state"] == "done", "the plan has been carried out")
        run = client.execution(plan["plan"])
        assert (run["done"], run["failed"], run["by"], run["reason"]) == (plan["move_count"], 0, "ann", "to see it")
        assert {one["step"] for one in run["steps"]} == {"done"}
        wait_until(lambda: client.broker("plan-b")["subscribers"] == plan["move_count"], "those who were moved")
        with pytest.raises(ServerError, match="is at plan-b by now"):
            client.execute(plan["plan"])
        moves = [one for one in client.audit(limit=200) if one["action"] == "move"]
        assert len(moves) == plan["move_count"]
        assert all(one["details"]["reason"] for one in moves)


async def test_a_drained_broker_is_empty_and_filled_again(network: Network) -> None:
    """Those who are away are moved too. Balancing by itself fills what idles; settings change while it runs."""
    with network.broker("drain-a") as first, network.broker("drain-b"):
        away = network.token("drained-away")
        async with Subscriber(broker=first.url, token=away, device="phone") as me:
            await me.subscribe("MovesOf", topic=_TOPICS[0])
        async with crowd(network, "drained", 12, first) as people:
            await asyncio.to_thread(_drain_and_fill, network)
            await people.until_published(5)
            assert "drain-a" in people.brokers()


def _drain_and_fill(network: Network) -> None:
    with CoordinatorClient(network.coordinator.url) as client:
        wait_until(lambda: client.broker("drain-a")["subscribers"] == 13, "the coordinator knows of all")
        client.set_state("drain-a", "draining", by="ann")
        wait_until(lambda: client.broker("drain-a")["subscribers"] == 0, "everybody has left")
        assert client.session("drained-away", "phone")["subscriptions"]
        assert client.broker("drain-b")["subscribers"] == 13
        with pytest.raises(ServerError, match="no shuffle policy called"):
            client.change_balancing(shuffle="best")
        client.set_state("drain-a", "active")
        client.change_balancing(automatic=True, every_s=0.2, hits=1, shuffle_hits=1, settle_s=0, rest_s=0)
        wait_until(lambda: client.broker("drain-a")["subscribers"] >= 4, "it is filled")
        settings = client.change_balancing(automatic=False)["settings"]
        assert (settings["every_s"], settings["automatic"]) == (0.2, False)


async def test_all_brokers_are_restarted_one_by_one(network: Network) -> None:
    """SIGTERM, until it has ended, and a start; then the next. Nobody misses anything, and no drain takes 30 s."""
    names = ["rolling-a", "rolling-b", "rolling-c"]
    with ExitStack() as stack:
        started = {name: stack.enter_context(network.broker(name, drain_timeout_s=4)) for name in names}
        async with crowd(network, "rolling", 18, started["rolling-a"]) as people:
            for name in names:
                begun_s = time.monotonic()
                started[name].process.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(started[name].process.wait, 30) == 0
                assert time.monotonic() - begun_s < 30
                started[name] = stack.enter_context(network.broker(name, drain_timeout_s=4))
                await people.until_published(3)


async def test_what_a_dead_broker_kept_is_adopted(network: Network, tmp_path: Path) -> None:
    """Who was away finds what it missed at another broker, though its own never came back."""
    # With a coordinator of its own: the brokers of the other tests have just gone, and so many at once are not dead.
    with running_network(network.live, tmp_path, rates_window_s=4) as fresh:
        await _die_and_be_adopted(fresh)


async def _die_and_be_adopted(network: Network) -> None:
    token = network.token("orphaned")
    with network.broker("dead-a") as first, network.broker("dead-b"):
        async with Subscriber(broker=first.url, token=token, device="phone") as me:
            await me.subscribe("MovesOf", topic="orphans")
        await asyncio.to_thread(_wait_until_kept_by, network, "dead-a")
        first.process.kill()
        async with AsyncPublisher(network.live.url, "moves") as feed:
            await feed.publish({"id": "orphan", "number": 1, "topic": "orphans"}, wait_commit=True)
        with CoordinatorClient(network.coordinator.url) as client:
            client.change_balancing(evacuate_after_s=0.1, every_s=0.2)
        await asyncio.to_thread(_wait_until_kept_by, network, "dead-b")
        async with Subscriber(coordinator=network.coordinator.url, token=token, device="phone") as me:
            (subscription,) = await me.subscribe_kept()
            async with asyncio.timeout(PATIENCE_S):
                assert (await anext(subscription)).payload["id"] == "orphan"
            assert me.broker == "dead-b"


def _wait_until_kept_by(network: Network, broker: str) -> None:
    kept = {"subscriber": "orphaned/phone", "connected": False, "subscriptions": 1}
    with CoordinatorClient(network.coordinator.url) as client:
        wait_until(lambda: any(kept.items() <= one.items() for one in client.subscribers(broker)), f"kept by {broker}")
