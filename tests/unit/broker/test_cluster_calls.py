"""What a broker asks of the cluster, and what it makes of refusals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from tocsin.broker.cluster_calls import ClusterCalls
from tocsin.broker.cluster_link import ClusterLink
from tocsin.broker.events import BackendsReleased, Event, Held
from tocsin.broker.metrics import BrokerMetrics
from tocsin.errors import NotFound
from tocsin.runtime.clock import SystemClock


class Cluster:
    """Holds what it is told to, and lets go of all or none, as the real one does."""

    def __init__(self, *ids: int) -> None:
        self.ids = set(ids)
        self.calls = 0

    async def release(self, ids: Sequence[int]) -> None:
        self.calls += 1
        if missing := [one for one in ids if one not in self.ids]:
            raise NotFound(f"subscription {missing[0]} is not held")
        self.ids -= set(ids)

    async def held(self) -> list[Held]:
        self.calls += 1
        return [Held(one, "Channel", {}, "", 0) for one in sorted(self.ids)]


async def release(cluster: Cluster, *ids: int) -> list[Event]:
    happened: list[Event] = []
    calls = ClusterCalls(cast(ClusterLink, cluster), SystemClock(), BrokerMetrics(), happened.append)
    await calls.release(ids)
    return happened


async def test_what_is_held_is_released_in_one_call() -> None:
    cluster = Cluster(1, 2, 3)
    (event,) = await release(cluster, 1, 2)
    assert isinstance(event, BackendsReleased)
    assert (cluster.ids, cluster.calls) == ({3}, 1)


async def test_what_has_ended_by_itself_keeps_nothing_else_held() -> None:
    """A dropped channel takes its subscriptions along; the call ends all the same, or no other would follow."""
    cluster = Cluster(2, 3)
    (event,) = await release(cluster, 1, 2)
    assert isinstance(event, BackendsReleased)
    assert cluster.ids == {3}
    assert len(await release(cluster, 7, 8)) == 1
