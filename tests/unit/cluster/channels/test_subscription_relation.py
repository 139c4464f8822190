"""A channel's subscriptions on their way into Spark: none is forgotten or doubled, and nobody waits for Spark."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tocsin.cluster.channels import subscription_relation as module
from tocsin.cluster.channels.compiler.parameters import check_values
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.model.catalogue import BackendSubscription, Channel, ChannelKind, Parameter
from tocsin.model.schema import ColumnType

CALLS = ("createDataFrame", "parquet", "count", "createOrReplaceTempView", "dropTempView")


class PretendedSpark:
    """Just enough of a session: frames are lists of ids, views are kept by name, and any call can be made to fail."""

    def __init__(self) -> None:
        self.views: dict[str, list[int]] = {}
        self.cached: list[PretendedFrame] = []
        self.failing = ""
        self.read = self.catalog = self.sparkContext = self
        self.defaultParallelism = 2
        #: Spark works only while this is set.
        self.may_work = threading.Event()
        self.may_work.set()
        self.works = threading.Event()

    def schema(self, schema: object) -> PretendedSpark:
        return self

    def parquet(self, *files: str) -> PretendedFrame:
        self.fail_if("parquet")
        return PretendedFrame(self, [one for file in files for one in pq.read_table(file)["_subscription"].to_pylist()])

    def createDataFrame(self, rows: pa.Table) -> PretendedFrame:  # noqa: N802 - Spark's name
        self.fail_if("createDataFrame")
        return PretendedFrame(self, rows["_subscription"].to_pylist())

    def dropTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.fail_if("dropTempView")
        del self.views[name]

    def fail_if(self, call: str) -> None:
        self.works.set()
        assert self.may_work.wait(10)
        if self.failing == call:
            self.failing = ""
            raise RuntimeError(f"{call} failed once")


class PretendedFrame:
    def __init__(self, spark: PretendedSpark, ids: list[int]) -> None:
        self.spark, self.ids = spark, ids

    def cache(self) -> PretendedFrame:
        self.spark.cached.append(self)
        return self

    def count(self) -> int:
        self.spark.fail_if("count")
        return len(self.ids)

    def unionAll(self, other: PretendedFrame) -> PretendedFrame:  # noqa: N802 - Spark's name
        return PretendedFrame(self.spark, self.ids + other.ids)

    def createOrReplaceTempView(self, name: str) -> None:  # noqa: N802 - Spark's name
        self.spark.fail_if("createOrReplaceTempView")
        self.spark.views[name] = self.ids

    def unpersist(self, blocking: bool) -> None:
        self.spark.cached.remove(self)


PARAMETERS = (Parameter("radius_m", ColumnType.DOUBLE), Parameter("steps", ColumnType.INT))
CHANNEL = Channel("C", ChannelKind.CONTINUOUS, PARAMETERS, "SELECT 1")


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Newcomers become a tier from four on, so that a few rows make tiers."""
    monkeypatch.setattr(module, "MAX_INLINE_NEWCOMERS", 3)
    return PretendedSpark()


def asked(first: int, last: int, radius_m: float = 500.0, steps: int = 1) -> list[BackendSubscription]:
    return [BackendSubscription(one, "C", (radius_m, steps), "") for one in range(first, last + 1)]


def shown(spark: PretendedSpark, subscriptions: ChannelSubscriptions) -> list[int]:
    return sorted(spark.views[subscriptions.view()])


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("additions", [1, 3, 9])
def test_a_failed_run_neither_forgets_nor_doubles_subscriptions(
    spark: Any, tmp_path: Path, call: str, additions: int
) -> None:
    """Whichever step fails, the next view has everyone exactly once, and nothing is left in Spark's memory."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    for one in range(1, additions + 1):
        subscriptions.add(asked(one * 10, one * 10 + one))
        spark.failing = call
        try:
            subscriptions.view()
        except RuntimeError:
            subscriptions.add(asked(one * 10 + 5, one * 10 + 5) if one < 4 else [])
        spark.failing = ""
        expected = [at * 10 + more for at in range(1, one + 1) for more in (*range(at + 1), *([5] if at < 4 else []))]
        assert set(shown(spark, subscriptions)) <= set(expected)
        assert len(shown(spark, subscriptions)) == len(set(shown(spark, subscriptions))) == len(subscriptions)
    assert len(spark.cached) == len(subscriptions._tiers)
    assert len(list(subscriptions._folder.iterdir())) == sum(len(t.files) for t in subscriptions._tiers)


@pytest.mark.parametrize("call", CALLS[1:])
def test_a_failed_merge_changes_nothing_and_is_tried_again(spark: Any, tmp_path: Path, call: str) -> None:
    """Runs go on with the tiers there were; the next attempt merges them, without those who left."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    for first in (1, 11, 21):
        subscriptions.add(asked(first, first + 4))
        subscriptions.view()
    subscriptions.remove([2, 12])
    spark.failing = call
    with pytest.raises(RuntimeError, match=call):
        subscriptions.merge(nullcontext())
    expected = [one for first in (1, 11, 21) for one in range(first, first + 5)]
    assert set(expected) - set(shown(spark, subscriptions)) <= {2, 12}
    while subscriptions.merge(nullcontext()):
        pass
    assert shown(spark, subscriptions) == [one for one in expected if one not in (2, 12)]
    assert len(spark.cached) == len(subscriptions._tiers) == 1
    assert len(list(subscriptions._folder.iterdir())) == 1


def test_those_who_left_get_no_results_before_and_after_a_merge(spark: Any, tmp_path: Path) -> None:
    """Also from a run that began before the merge and ended after they left."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    subscriptions.add(asked(1, 8))
    subscriptions.view()
    output = pa.table({"subscription": pa.array([1, 2, 3, 2], pa.int64()), "payload": ["a", "b", "c", "d"]})
    subscriptions.remove([2, 3, 4])
    assert subscriptions.without_removed(output)["payload"].to_pylist() == ["a"]
    assert subscriptions.left_in_view({2, 4, 5, 99}) == {2, 4}
    assert subscriptions.merge(nullcontext())
    assert subscriptions.left_in_view({2, 4}) == set()
    assert shown(spark, subscriptions) == [1, 5, 6, 7, 8]
    assert len(subscriptions) == 5


def test_a_tier_of_which_all_have_left_goes(spark: Any, tmp_path: Path) -> None:
    """Its memory and its file too."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    subscriptions.add(asked(1, 8))
    subscriptions.view()
    subscriptions.remove(range(1, 9))
    assert subscriptions.merge(nullcontext())
    assert shown(spark, subscriptions) == []
    assert spark.cached == []


def test_a_merge_takes_its_place_between_runs(spark: Any, tmp_path: Path) -> None:
    """The view that a run uses stays until the run has ended; newcomers of that time are kept."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    for first in (1, 11):
        subscriptions.add(asked(first, first + 4))
        subscriptions.view()
    run = threading.Lock()
    with run:
        name = subscriptions.view()
        merging = threading.Thread(target=lambda: subscriptions.merge(run))
        merging.start()
        subscriptions.add(asked(21, 22))
        assert len(spark.views[name]) == 10
    merging.join(10)
    assert name not in spark.views
    assert shown(spark, subscriptions) == [*range(1, 6), *range(11, 16), 21, 22]


@pytest.mark.parametrize("busy_with", ["a run", "a merge"])
def test_subscribing_never_waits_for_spark(spark: Any, tmp_path: Path, busy_with: str) -> None:
    """Who comes or leaves while Spark takes rows in or merges is written down at once."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path, ["radius_m"])
    for first in (1, 11):
        subscriptions.add(asked(first, first + 4))
        subscriptions.view()
    subscriptions.add(asked(20, 25))
    spark.may_work.clear()
    spark.works.clear()
    work = subscriptions.view if busy_with == "a run" else lambda: subscriptions.merge(nullcontext())
    busy = threading.Thread(target=work)
    busy.start()
    assert spark.works.wait(10)
    subscriptions.add(asked(31, 32))
    subscriptions.remove([1])
    assert len(subscriptions) == 17
    assert subscriptions.radius_classes() == {(256.0,): 18}
    assert busy.is_alive()
    spark.may_work.set()
    busy.join(10)
    assert set(shown(spark, subscriptions)) >= {31, 32}


def test_a_radius_class_goes_with_its_last_member(spark: Any, tmp_path: Path) -> None:
    """Wherever the member is kept: in a tier, among the newcomers, or not yet in Spark."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path, ["radius_m"])
    subscriptions.add([*asked(1, 20), *asked(21, 21, 1e300)])
    subscriptions.view()
    subscriptions.add(asked(22, 22, 1e100))
    subscriptions.view()
    subscriptions.add(asked(23, 23, 0.0))
    assert len(subscriptions.radius_classes()) == 4
    subscriptions.remove([1, 21, 22, 23])
    while subscriptions.merge(nullcontext()):
        pass
    assert subscriptions.radius_classes() == {(256.0,): 19}


def test_a_radius_may_be_a_whole_number(spark: Any, tmp_path: Path) -> None:
    """Its class is that of the number; taken for zero, its subscriptions would find nothing near."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path, ["steps"])
    subscriptions.add(asked(1, 3, steps=500))
    assert subscriptions.radius_classes() == {(256.0,): 3}


def test_ids_that_do_not_ascend_are_merged_once(spark: Any, tmp_path: Path) -> None:
    """Those who left from one tier are not looked for in another for ever."""
    subscriptions = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    subscriptions.add([*asked(1, 10), *asked(1000, 1010)])
    subscriptions.view()
    subscriptions.add(asked(500, 503))
    subscriptions.view()
    subscriptions.remove([500, 501, 502])
    merges = 0
    while subscriptions.merge(nullcontext()):
        merges += 1
        assert merges < 5
    assert set(shown(spark, subscriptions)) >= {*range(1, 11), *range(1000, 1011), 503}


def test_a_dropped_channel_takes_nothing_of_its_successor_along(spark: Any, tmp_path: Path) -> None:
    """A run of the former channel may end long after another one of its name was created."""
    former = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    former.add(asked(1, 8))
    former.view()
    successor = ChannelSubscriptions(spark, CHANNEL, tmp_path)
    successor.add(asked(11, 18))
    assert shown(spark, successor) == list(range(11, 19))
    former.close()
    assert shown(spark, successor) == list(range(11, 19))
    successor.add(asked(21, 28))
    assert shown(spark, successor) == [*range(11, 19), *range(21, 29)]
    assert successor.merge(nullcontext())
    assert shown(spark, successor) == [*range(11, 19), *range(21, 29)]


def test_every_value_that_is_taken_can_be_a_radius(spark: Any, tmp_path: Path) -> None:
    """Also a whole number that no DOUBLE equals: by the time its class is counted, the subscription is durable, and a
    start that fails with it would fail each time."""
    channel = Channel("C", ChannelKind.CONTINUOUS, (Parameter("steps", ColumnType.BIGINT),), "SELECT 1")
    subscriptions = ChannelSubscriptions(spark, channel, tmp_path, ["steps"])
    for one, value in enumerate((2**53 + 1, 2**63 - 1, -(2**63), 0, -1)):
        values = check_values(channel, {"steps": value})
        subscriptions.add([BackendSubscription(one, "C", values, "")])
    assert sum(subscriptions.radius_classes().values()) == 5
    assert shown(spark, subscriptions) == [0, 1, 2, 3, 4]
