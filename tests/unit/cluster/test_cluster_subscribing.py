"""Subscribing at the cluster waits for nobody but the registry."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tocsin.cluster.cluster import Cluster
from tocsin.errors import NotFound
from tocsin.model.catalogue import Channel, ChannelKind, Parameter
from tocsin.model.schema import ColumnType
from tocsin.settings import ClusterSettings

CHANNEL = Channel("C", ChannelKind.CONTINUOUS, (Parameter("n", ColumnType.INT),), "SELECT 1")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    """A cluster without Spark that has one channel at work, in the midst of a run."""
    cluster: Any = Cluster(ClusterSettings(data_dir=tmp_path / "data", scratch_dir=str(tmp_path / "scratch")))
    added: list[Any] = []
    subscriptions = SimpleNamespace(add=added.extend, remove=lambda ids: None)
    state = SimpleNamespace(channel=CHANNEL, subscriptions=subscriptions, lock=threading.Lock(), failed=set())
    cluster.executor = SimpleNamespace(states={"c": state}, added=added)
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


def test_the_reason_of_a_failure_is_a_sentence_that_fits_its_cause(cluster: Any) -> None:
    """Values that can't be run are blamed for it. Where a grant was revoked, only that is said."""
    told: dict[int, str] = {}
    cluster.results = SimpleNamespace(
        tell_failed=lambda channel, reasons, now_us: told.update(reasons), close=lambda: None
    )
    state = cluster.executor.states["c"]
    bad, revoked = cluster.subscribe("b", "C", [(1,), (2,)]).ids
    cluster._fail_subscription(state, bad, "no such zone")
    state.failed.add(bad)
    assert cluster._fail_not_granted(state) == [revoked]
    cluster._tell_failed("C")
    assert told == {
        bad: "channel C can't be run with these values: no such zone",
        revoked: "channel C is not granted to users without a permission class",
    }
