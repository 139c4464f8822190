"""Whatever stands in for a cluster in tests and simulations keeps what clusters promise. `ClusterLink` is put to the
same checks with a real cluster behind it: `tests/integration/test_cluster_port.py`."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from histories.cluster_side import TOPICS, ClusterSide, key_for
from histories.quick_results import QuickResults
from tocsin.protocol.ports import BackendHold, ClusterPort, Delivery
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.simulator.cluster import Cluster as SimulatedCluster
from tocsin.simulator.deliveries import SingleDeliveries
from tocsin.simulator.workload import draw
from tocsin.testing.cluster_conformance import CHECKS, REFUSALS, Check, ClusterBench
from tocsin.testing.memory_cluster import MemoryCluster
from unit.simulator.scenarios import small

_LIMIT = 1_000


class _Link:
    """What is the same for all whose calls are answered at once."""

    run = ""

    async def request_snapshots(self, ids: Sequence[int]) -> None:
        raise NotImplementedError

    async def publish(self, feed: str, records: Sequence[Mapping[str, Any]]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        pass


class InMemory:
    keys = tuple(SubscriptionKey.of("C", {"n": n}, "") for n in range(3))

    def __init__(self) -> None:
        self._cluster = MemoryCluster(channels=["C"])

    def link(self, broker: str) -> ClusterPort:
        return self._cluster.link(broker)

    async def run(self) -> None:
        self._cluster.run()


class OfHistories:
    """The cluster of `python -m histories`."""

    keys = tuple(key_for(topic, "") for topic in TOPICS)

    def __init__(self) -> None:
        self.cluster = ClusterSide(random.Random(1), QuickResults())

    def link(self, broker: str) -> ClusterPort:
        return _HistoriesLink(self.cluster, broker)

    async def run(self) -> None:
        for topic in TOPICS:
            self.cluster.publish(topic)
        self.cluster.begin_run()
        self.cluster.finish_run()


class _HistoriesLink(_Link):
    def __init__(self, cluster: ClusterSide, broker: str) -> None:
        self._cluster = cluster
        self._broker = broker

    async def register(self) -> int:
        return self._cluster.position_now()

    async def held(self) -> list[BackendHold]:
        return self._cluster.held(self._broker)

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        return self._cluster.subscribe(self._broker, keys, self._cluster.position_now())

    async def release(self, ids: Sequence[int]) -> None:
        self._cluster.unsubscribe(self._broker, ids)

    async def pull(self, after: int, wait_s: float) -> tuple[list[Delivery], int, int]:
        pulled = self._cluster.pull(self._broker, after, _LIMIT)
        return [one.delivery() for one in pulled.results], pulled.through, 0

    async def history(self, after: Mapping[int, int]) -> tuple[list[Delivery], int]:
        pulled = self._cluster.history(after, _LIMIT)
        assert pulled is not None
        return [one.delivery() for one in pulled.results], pulled.through


class Simulated:
    """The simulator's cluster. Its brokers fetch what they hold at the moment of a run."""

    def __init__(self) -> None:
        scenario = small()
        workload = draw(scenario, 1)
        self.brokers = len(workload.brokers)
        self.cluster = SimulatedCluster(workload, scenario.fluctuation, 1)
        self.deliveries = SingleDeliveries(self.cluster, self.brokers, 1)
        self.deliveries.pull = self._fetch
        self.keys = tuple(self.cluster.keys[:3])
        self._numbers: dict[str, int] = {}
        self.fetched: list[list[Delivery]] = [[] for _ in range(self.brokers)]

    def link(self, broker: str) -> ClusterPort:
        return _SimulatedLink(self, self._numbers.setdefault(broker, len(self._numbers)))

    async def run(self) -> None:
        self.deliveries.run(self.cluster.run(0, 0.0, np.ones(self.brokers, np.bool_)))

    def _fetch(self, found: Sequence[Delivery]) -> None:
        for number, fetched in enumerate(self.fetched):
            held = self.cluster.held[number]
            fetched += [one for one in found if held[self.cluster.backend_of(one.subscription)]]


class _SimulatedLink(_Link):
    def __init__(self, bench: Simulated, number: int) -> None:
        self._bench = bench
        self._cluster = bench.cluster
        self._number = number

    async def register(self) -> int:
        return self._cluster.sequence

    async def held(self) -> list[BackendHold]:
        return self._cluster.held_by(self._number)

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        return self._cluster.acquire(self._number, keys)

    async def release(self, ids: Sequence[int]) -> None:
        self._cluster.release(self._number, ids)

    async def pull(self, after: int, wait_s: float) -> tuple[list[Delivery], int, int]:
        found = [one for one in self._bench.fetched[self._number] if one.sequence > after]
        return found, max(after, self._cluster.sequence), 0

    async def history(self, after: Mapping[int, int]) -> tuple[list[Delivery], int]:
        return self._bench.deliveries.history(dict(after)), self._cluster.sequence


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("make", [InMemory, OfHistories, Simulated])
async def test_it_keeps_what_clusters_promise(make: Callable[[], ClusterBench], check: Check) -> None:
    """In memory, in drawn histories and in simulations, a cluster is what brokers know from the real one."""
    await check(make())


@pytest.mark.parametrize("check", REFUSALS)
async def test_it_refuses_as_clusters_do(check: Check) -> None:
    """All or none."""
    await check(InMemory())


class _Forgetful(InMemory):
    async def run(self) -> None:
        await super().run()
        del self._cluster.results[2::3]


class _Disorderly(InMemory):
    async def run(self) -> None:
        await super().run()
        self._cluster.results.reverse()


@pytest.mark.parametrize("make", [_Forgetful, _Disorderly])
async def test_a_broken_promise_is_found(make: Callable[[], ClusterBench], monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that leaves out every third result fails, and so does one that hands results out in another order."""
    monkeypatch.setattr("tocsin.testing.cluster_conformance._PATIENCE_S", 0.1)
    found = 0
    for check in CHECKS:
        try:
            await check(make())
        except (AssertionError, TimeoutError):
            found += 1
    assert found
