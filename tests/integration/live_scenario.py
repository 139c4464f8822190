"""A scenario on real processes: cluster, coordinator, brokers and subscribers on loopback, from the simulator's file.

Who is where, wants what and does what when is drawn by the simulator's own code, and so is the size of every result; so
what the coordinator decides can be held against what it decides in the simulator.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tocsin.client import AsyncPublisher, ClusterClient, CoordinatorClient, Subscriber
from tocsin.coordinator.load.stages import StageSettings
from tocsin.errors import InvalidValue
from tocsin.model.location import Location
from tocsin.runtime.processes import ServerProcess
from tocsin.simulator.cluster import Cluster as DrawnResults
from tocsin.simulator.scenario import Scenario
from tocsin.simulator.workload import Moments, Workload, draw
from tocsin.testing.network import running_network

_FEED = "results"
#: Far beyond what it takes until everybody has heard something, on any machine.
_PATIENCE_S = 120.0
_DEVICE = "d"
#: What a notification weighs beside its body: names, position, time, id.
_ENVELOPE_BYTES = 165


@dataclass(frozen=True, slots=True)
class CarriedOut:
    """A plan that the coordinator made by itself."""

    stage: str
    policy: str
    #: Subscriber, source, destination.
    moves: frozenset[tuple[str, str, str]]
    failed: int


@dataclass(frozen=True, slots=True)
class LiveRun:
    plans: tuple[CarriedOut, ...]
    notifications: int


def run_live(
    scenario: Scenario, folder: Path, say: Callable[[str], None] = lambda _: None, *, cluster_url: str = ""
) -> LiveRun:
    """Run a scenario, as long as it says, with a cluster of its own or one that is there and knows nothing of it.

    On a busy machine it takes longer: balancing begins once each subscriber has had results for a whole window of
    rates. Results that come late come late for everybody, so the rates are smaller, and uneven as in the scenario.

    Raises InvalidValue if it holds what can't be done with real processes.
    """
    for what, is_there in (
        ("failures", scenario.failures),
        ("subscribers.changes_per_hour", scenario.subscribers.changes_per_hour),
    ):
        if is_there:
            raise InvalidValue(f"{what} are for the simulator alone, so far")
    return asyncio.run(_Live(scenario, folder, say, cluster_url).run())


class _Live:
    def __init__(self, scenario: Scenario, folder: Path, say: Callable[[str], None], cluster_url: str) -> None:
        self._cluster_url = cluster_url
        self._scenario = scenario
        self._folder = folder
        self._say = say
        self._workload: Workload = draw(scenario, scenario.seed)
        self._drawn = DrawnResults(self._workload, scenario.fluctuation, scenario.seed)
        self._begun_s = 0.0
        self._notifications = 0
        self._waiting = self._workload.subscribers
        self._everybody_hears = asyncio.Event()
        self._tokens: list[str] = []
        self._here: dict[int, asyncio.Task[None]] = {}
        self._may_subscribe = [asyncio.Event() for _ in range(self._workload.subscribers)]

    async def run(self) -> LiveRun:
        balancing = self._scenario.balancing
        settings = {"placement": balancing.placement, "rates_window_s": balancing.rates_window_s}
        settings |= {"rates": balancing.rates}
        settings |= {"heartbeat_every_s": self._scenario.network.heartbeat_every_s}
        with ExitStack() as stack:
            network = stack.enter_context(
                running_network(self._folder, cluster_url=self._cluster_url, coordinator=settings)
            )
            # One after the other: the coordinator knows them in the order that the simulator has them in.
            for one in self._workload.brokers:
                own = {"location": _written(one.location), "capacity": one.capacity}
                stack.enter_context(network.running_broker(one.name, own))
            cluster, coordinator = network.cluster_url, network.coordinator
            await asyncio.to_thread(self._prepare, cluster)
            names = [user_name(number) for number in range(self._workload.subscribers)]
            self._tokens = list((await asyncio.to_thread(network.register, names)).values())
            self._say(f"{len(self._workload.brokers)} brokers, {self._workload.subscribers} subscribers")
            self._begun_s = time.monotonic()
            work = [
                self._follow(self._workload.logins, lambda number: self._log_in(number, coordinator)),
                self._follow(self._workload.logouts, self._log_out),
                self._follow(self._workload.subscribing, self._subscribe),
                *(self._publish(channel, cluster) for channel in range(len(self._workload.channels))),
                self._balance(coordinator),
            ]
            tasks = [asyncio.ensure_future(one) for one in work]
            begun_s = await tasks[-1]
            await self._until(begun_s + self._scenario.duration_s - self._scenario.balancing.begins_at_s)
            for task in tasks:
                if task.done():
                    task.result()
                task.cancel()
            plans = await asyncio.to_thread(_carried_out, coordinator.url)
            for here in self._here.values():
                here.cancel()
            await asyncio.gather(*self._here.values(), *tasks, return_exceptions=True)
        return LiveRun(plans, self._notifications)

    # Before

    def _prepare(self, cluster: str) -> None:
        with ClusterClient(cluster) as client:
            client.sql(
                "CREATE ACTIVE DATASET Results (id STRING, channel STRING, value BIGINT, body STRING, "
                f"PRIMARY KEY (id)); CREATE FEED {_FEED} INTO Results FROM HTTP;"
            )
            for channel in self._workload.channels:
                client.sql(
                    f"CREATE REPETITIVE CHANNEL {channel.name} (value BIGINT) PERIOD {channel.period_s:g} SECONDS AS "
                    "SELECT r.id, r.body FROM Results r WHERE is_new(r) "
                    f"AND r.channel = '{channel.name}' AND r.value = :value;"
                )

    # Subscribers

    async def _log_in(self, number: int, coordinator: ServerProcess) -> None:
        self._here[number] = asyncio.create_task(self._live(number, coordinator.url))

    async def _log_out(self, number: int) -> None:
        if (here := self._here.pop(number, None)) is not None:
            here.cancel()

    async def _subscribe(self, number: int) -> None:
        self._may_subscribe[number].set()

    async def _live(self, number: int, url: str) -> None:
        workload = self._workload
        location = workload.location(number, self._now_s())
        holds = workload.holds[workload.offsets[number] : workload.offsets[number + 1]]
        async with Subscriber(coordinator=url, token=self._tokens[number], device=_DEVICE, location=location) as me:
            await self._may_subscribe[number].wait()
            asked = [self._drawn.subscribes[hold] for hold in holds.tolist()]
            for one in asked:
                await me.subscribe(one.channel, one.parameters)
            unheard = {(one.channel, one.parameters["value"]) for one in asked}
            async for notification in me.notifications():
                self._notifications += 1
                if unheard:
                    unheard.discard((notification.channel, int(notification.payload["id"].split("-")[2])))
                    if not unheard:
                        self._waiting -= 1
                        if not self._waiting:
                            self._everybody_hears.set()

    # Publishers

    async def _publish(self, channel: int, cluster: str) -> None:
        """Once each period, a result for everything that anybody may want."""
        described, workload = self._workload.channels[channel], self._workload
        wanted = set(workload.holds.tolist())
        is_up = np.ones(len(workload.brokers), np.bool_)
        async with AsyncPublisher(cluster, _FEED) as feed:
            number = 0
            while True:
                number += 1
                await self._until(number * described.period_s)
                run = self._drawn.run(channel, number * described.period_s, is_up)
                records: list[dict[str, Any]] = [
                    {
                        "id": f"{described.name}-{number}-{backend - run.first}",
                        "channel": described.name,
                        "value": backend - run.first,
                        "body": "x" * max(1, int(run.sizes_bytes[backend - run.first]) - _ENVELOPE_BYTES),
                    }
                    for backend in range(run.first, run.last)
                    if backend in wanted
                ]
                if records:
                    await feed.publish(*records)

    # The coordinator

    async def _balance(self, coordinator: ServerProcess) -> float:
        """Switch it on when the scenario says, or when all rates are known; when that was."""
        balancing = self._scenario.balancing
        async with asyncio.timeout(_PATIENCE_S):
            await self._everybody_hears.wait()
        # Rates are known for whole buckets, and heartbeats bring them.
        known_s = self._now_s() + 1.2 * balancing.rates_window_s + self._scenario.network.heartbeat_every_s
        begun_s = max(balancing.begins_at_s, balancing.every_s, known_s)
        await self._until(begun_s)
        stages = {one.name: getattr(balancing, one.name) for one in dataclasses.fields(StageSettings)}
        await asyncio.to_thread(_switch_on, coordinator.url, {**stages, "every_s": balancing.every_s})
        return begun_s

    # Parts

    def _now_s(self) -> float:
        return time.monotonic() - self._begun_s

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._now_s()))

    async def _follow(self, moments: Moments, action: Callable[[int], Any]) -> None:
        for at_s, number in zip(moments.times_s.tolist(), moments.subscribers.tolist(), strict=True):
            await self._until(at_s)
            await action(number)


def user_name(number: int) -> str:
    """As the simulator calls them.

    >>> user_name(12)
    's0000012'
    """
    return f"s{number:07d}"


def _written(location: Location | None) -> str:
    return "" if location is None else f"{location[0]},{location[1]}"


def _switch_on(url: str, settings: dict[str, Any]) -> None:
    with CoordinatorClient(url) as client:
        client.change_balancing(automatic=True, by="experiment", **settings)


def _carried_out(url: str) -> tuple[CarriedOut, ...]:
    with CoordinatorClient(url) as client:
        runs = [client.execution(one["plan"], shown_moves=100_000) for one in reversed(client.executions())]
    return tuple(
        CarriedOut(
            run["stage"],
            run["policy"],
            frozenset((one["subscriber"], one["source"], one["destination"]) for one in run["steps"]),
            run["failed"],
        )
        for run in runs
    )
