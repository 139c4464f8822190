"""Subscribing at the cluster waits for nobody but the registry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.cluster import Cluster
from tocsin.errors import NotFound
from tocsin.model.catalogue import Channel, ChannelKind, Parameter
from tocsin.model.grants import Action, Grant, GranteeKind
from tocsin.model.schema import ColumnType
from tocsin.settings import ClusterSettings

CHANNEL = Channel("C", ChannelKind.CONTINUOUS, (Parameter("n", ColumnType.INT),), "SELECT 1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    """A cluster without Spark that has one channel at work, in the midst of a run."""
    cluster: Any = Cluster(ClusterSettings(data_dir=tmp_path / "data", scratch_dir=str(tmp_path / "scratch")))
    added: list[Any] = []
    removed: list[int] = []
    subscriptions: Any = SimpleNamespace(add=added.extend, remove=removed.extend)
    state = ChannelState(CHANNEL, cast(Any, None), subscriptions)
    cluster.executor = SimpleNamespace(states={"c": state}, added=added, removed=removed)
    cluster.registry.put_broker("b")
    with state.lock:
        yield cluster
    cluster.stop()


def test_subscribing_does_not_wait_for_a_statement(cluster: Any) -> None:
    """A statement may take as long as Spark takes; whoever comes or leaves meanwhile does not notice."""
    done: list[Any] = []

    def come_and_leave() -> None:
        ids = cluster.subscribe("b", "C", [(1,), (2,)]).ids
        done.append([one.id for one in cluster.executor.added] == list(ids))
        done.append(cluster.unsubscribe("b", ids[:1]))
        done.append(cluster.forget_broker("b"))

    with cluster.statement_lock:
        thread = threading.Thread(target=come_and_leave)
        thread.start()
        thread.join(10)
    assert done == [True, 1, 1]


def test_a_channel_that_is_being_dropped_takes_nobody(cluster: Any) -> None:
    """From the moment in which it is withdrawn, though a run of it is still waited for."""
    cluster.repetitive = SimpleNamespace(remove=lambda name: None)
    withdrawn = threading.Event()

    def withdraw(name: str) -> Any:
        withdrawn.set()
        return cluster.executor.states.pop(name.lower())

    def release(state: Any) -> None:
        with state.lock:
            pass

    cluster.executor.withdraw, cluster.executor.release = withdraw, release
    state = cluster.executor.states["c"]
    cluster.subscribe("b", "C", [(1,)])
    dropping = threading.Thread(target=cluster.retire, args=[CHANNEL])
    dropping.start()
    assert withdrawn.wait(10)
    with pytest.raises(NotFound, match="no channel called C"):
        cluster.subscribe("b", "C", [(2,)])
    assert dropping.is_alive()
    state.lock.release()
    dropping.join(10)
    state.lock.acquire()
    assert cluster.registry.counts() == {}


@pytest.fixture
def told(cluster: Any) -> list[tuple[list[int], str, str]]:
    """What the results store was given to tell: ids, reason, code."""
    told: list[tuple[list[int], str, str]] = []

    def tell_failed(_channel: str, reasons: dict[int, str], _now_us: int) -> None:
        told.extend(([one], reason, "") for one, reason in reasons.items())

    def tell_ended(_channel: str, ids: list[int], reason: str, _now_us: int, code: str) -> None:
        told.append((ids, reason, code))

    cluster.results = SimpleNamespace(tell_failed=tell_failed, tell_ended=tell_ended)
    return told


def test_values_that_can_not_be_run_are_blamed_in_a_sentence(
    cluster: Any, told: list[tuple[list[int], str, str]]
) -> None:
    state = cluster.executor.states["c"]
    (bad,) = cluster.subscribe("b", "C", [(1,)]).ids
    cluster._fail_subscription(state, bad, "no such zone")
    assert told == [([bad], "channel C can't be run with these values: no such zone", "")]


def test_a_revoked_grant_ends_subscriptions_for_good(cluster: Any, told: list[tuple[list[int], str, str]]) -> None:
    """However many they are, one message tells them. The same values, granted again, are a new subscription."""
    state = cluster.executor.states["c"]
    cluster.grants.grant(Grant(Action.SUBSCRIBE, "C", GranteeKind.CLASS, "medics"))
    kept = cluster.subscribe("b", "C", [(1,)], "medics").ids
    ids = cluster.subscribe("b", "C", [(1,), (2,)]).ids
    assert cluster._end_not_granted(state) == 2
    assert told == [([*ids], "channel C is not granted to users without a permission class", "not_granted")]
    assert cluster.executor.removed == [*ids]
    assert [one.id for chunk in cluster.registry.of_channel("C") for one in chunk] == [*kept]
    assert cluster._end_not_granted(state) == 0
    assert cluster.subscribe("b", "C", [(1,)]).ids[0] > max(ids)
    assert cluster.unsubscribe("b", ids) == 2


def test_nothing_is_remembered_of_a_failed_subscription_that_is_over(cluster: Any) -> None:
    """It is taken out of what runs serve once, when it fails."""
    state = cluster.executor.states["c"]
    (bad,) = cluster.subscribe("b", "C", [(1,)]).ids
    state.failed.add(bad)
    state.strikes[bad] = 5
    assert cluster.unsubscribe("b", [bad]) == 1
    assert (state.failed, dict(state.strikes), cluster.executor.removed) == (set(), {}, [])
