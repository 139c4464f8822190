"""What a broker asks of the cluster, and what it makes of refusals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from tocsin.broker.core.events import (
    BackendsAcquired,
    BackendsReleased,
    CursorLost,
    Event,
    HoldsListed,
    ResultsPulled,
    Started,
)
from tocsin.broker.shell.cluster_calls import ClusterCalls
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import (
    HistoryRewound,
    InvalidValue,
    NotFound,
    NotRegistered,
    RequestError,
    TocsinError,
    WrongEntries,
)
from tocsin.protocol.ports import BackendHold, ClusterPort, Delivery
from tocsin.protocol.subscription_keys import SubscriptionKey
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

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        self.calls += 1
        wrong: dict[int, TocsinError] = {
            at: InvalidValue(f"{key.parameters} is no number") for at, key in enumerate(keys) if key.channel == "Wrong"
        }
        if wrong:
            raise WrongEntries(f"{len(wrong)} are wrong", wrong)
        return [BackendHold(at, key.channel, {}, "", 0) for at, key in enumerate(keys)]

    async def held(self) -> list[BackendHold]:
        self.calls += 1
        return [BackendHold(one, "Channel", {}, "", 0) for one in sorted(self.ids)]


class Restarted(Cluster):
    """A cluster that answers the first pull, and the second one as another process."""

    def __init__(self, *ids: int, rewound: bool) -> None:
        super().__init__(*ids)
        self.run = "first"
        self.pulls = 0
        self.rewound = rewound

    async def register(self) -> int:
        return 100

    async def pull(self, after: int, _wait_s: float) -> tuple[list[Delivery], int, int]:
        self.pulls += 1
        if self.pulls == 2:
            self.run = "second"
            if self.rewound:
                raise HistoryRewound("planted", earliest="5000")
        if self.pulls == 4:
            raise _Enough
        return [], after, 0


class _Enough(Exception):
    pass


async def follow(cluster: Restarted, held: set[int], folder: Path) -> list[Event]:
    happened: list[Event] = []
    calls = ClusterCalls(cast(ClusterPort, cluster), SystemClock(), BrokerMetrics(), happened.append)
    store = SessionStore(folder)
    await calls.start(store)
    store.close()
    with pytest.raises(_Enough):
        await calls.follow(lambda: 100, lambda: frozenset(held))
    return happened


async def test_a_cluster_that_was_started_again_is_asked_what_we_hold(tmp_path: Path) -> None:
    """Once; if all is there, pulling goes on, from where the cluster says if it was started from older data."""
    cluster = Restarted(1, 2, rewound=False)
    assert [type(one) for one in await follow(cluster, {1, 2}, tmp_path)] == [
        Started,
        ResultsPulled,
        HoldsListed,
        ResultsPulled,
        ResultsPulled,
    ]
    assert cluster.calls == 2
    cluster = Restarted(1, 2, rewound=True)
    events = await follow(cluster, {1, 2}, tmp_path)
    assert [type(one) for one in events] == [Started, ResultsPulled, HoldsListed, CursorLost, ResultsPulled]
    lost = events[3]
    assert isinstance(lost, CursorLost)
    assert (lost.through, lost.is_rewound) == (5000, True)


@pytest.mark.parametrize("rewound", [False, True])
async def test_what_the_cluster_has_forgotten_is_not_waited_for(tmp_path: Path, rewound: bool) -> None:
    """Results of a subscription that it does not know would never come: the broker ends, and begins anew."""
    with pytest.raises(NotFound, match="such as 2"):
        await follow(Restarted(1, rewound=rewound), {1, 2}, tmp_path)


async def release(cluster: Cluster, *ids: int) -> list[Event]:
    happened: list[Event] = []
    calls = ClusterCalls(cast(ClusterPort, cluster), SystemClock(), BrokerMetrics(), happened.append)
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


async def test_wrong_ones_among_many_cost_one_more_call() -> None:
    """Whoever asks for something wrong is told why, and delays nobody: the cluster says which ones are wrong."""
    cluster = Cluster()
    keys = [SubscriptionKey("Wrong" if number % 100 == 7 else "Right", f"[{number}]", "") for number in range(1_000)]
    happened: list[Event] = []
    calls = ClusterCalls(cast(ClusterPort, cluster), SystemClock(), BrokerMetrics(), happened.append)
    await calls.acquire(keys)
    (event,) = happened
    assert isinstance(event, BackendsAcquired)
    assert cluster.calls == 2
    assert [key for key, _ in event.acquired] == [key for key in keys if key.channel == "Right"]
    assert {key.parameters: str(error) for key, error in event.refused} == {
        key.parameters: f"{key.parameters} is no number" for key in keys if key.channel == "Wrong"
    }


class Refusing(Cluster):
    """A cluster that says the same to every call."""

    def __init__(self, error: TocsinError) -> None:
        super().__init__(1)
        self.error = error

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        self.calls += 1
        raise self.error

    async def release(self, ids: Sequence[int]) -> None:
        self.calls += 1
        raise self.error


@pytest.mark.parametrize("count", [1, 3])
async def test_a_cluster_that_does_not_know_us_refuses_no_subscription(count: int) -> None:
    """One that was started from a back-up knows our channels, but not us: what was asked for is not given up, and the
    broker begins anew."""
    cluster = Refusing(NotRegistered("planted"))
    happened: list[Event] = []
    calls = ClusterCalls(cast(ClusterPort, cluster), SystemClock(), BrokerMetrics(), happened.append)
    with pytest.raises(NotRegistered):
        await calls.acquire([SubscriptionKey("C", f"[{number}]", "") for number in range(count)])
    with pytest.raises(NotRegistered):
        await calls.release([1])
    assert happened == []
    assert cluster.calls == 2


async def test_a_token_that_the_cluster_does_not_take_ends_no_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    """What says nothing about what was asked for is temporary: nobody's subscription is forgotten for it."""
    monkeypatch.setattr("tocsin.broker.shell.cluster_calls._ACQUIRE_PATIENCE_S", 0.0)
    cluster = Refusing(RequestError("give the API token as a bearer token"))
    happened: list[Event] = []
    calls = ClusterCalls(cast(ClusterPort, cluster), SystemClock(), BrokerMetrics(), happened.append)
    await calls.acquire([SubscriptionKey("C", f"[{number}]", "") for number in range(3)])
    (event,) = happened
    assert isinstance(event, BackendsAcquired)
    assert len(event.refused) == 3
    assert all(error.temporary for _, error in event.refused)
