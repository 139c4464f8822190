"""How long a run takes when a million people ask for different things.

Beside each run, in the same session and taken in turns, a join written by hand over the same rows. One query per
subscription, the way it is done without Tocsin, is measured on a sample.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from tocsin.cluster.channels.executor import ChannelState
from tocsin.cluster.channels.subscription_relation import SUBSCRIPTION_COLUMN
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.views import through_scratch
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.interpreter import run_script
from tocsin.lab.benchmarks.measuring import (
    at_pace,
    bench_folder,
    machine,
    memory_mb,
    percentile,
    progress,
    seconds,
)
from tocsin.settings import ClusterSettings

_STORED_RECORDS = 10_000
_NEW_RECORDS = 60
_TYPES, _ZONES = 1_000, 1_000
_REPEATS = 7
_SAMPLED_QUERIES = 20
_LIMIT_S = 10.0
_CITY_M = 40_000.0
_RADIUS_M = 500.0
_CHUNK = 100_000
_NEWCOMERS_PER_S = 100
#: Java has compiled what a run needs after some twenty of them.
_WARM_RUNS = 20

_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, etype INT, zone INT, x DOUBLE, y DOUBLE, message STRING, PRIMARY KEY (id));
CREATE KEYED DATASET Users (user_id BIGINT, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE FEED users INTO Users FROM HTTP;
"""
_EQUALITY_CHANNEL = """
CREATE REPETITIVE CHANNEL OfTypeInZone (etype INT, zone INT) PERIOD 24 HOURS AS
  SELECT r.* FROM Reports r WHERE is_new(r) AND r.etype = :etype AND r.zone = :zone;
"""
_NEAR_CHANNEL = """
CREATE REPETITIVE CHANNEL NearMe (user_id BIGINT, radius_m DOUBLE) PERIOD 24 HOURS AS
  SELECT r.*, distance(r.x, r.y, u.x, u.y) AS metres FROM Reports r JOIN Users u ON u.user_id = :user_id
  WHERE is_new(r) AND within(r.x, r.y, u.x, u.y, :radius_m);
"""


class Workload:
    """A cluster with reports, users and subscriptions, and the joins to compare it with."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self.random = random.Random(seed)
        self._next_report = 0
        run_script(cluster, _SCHEMA)
        cluster.registry.put_broker("bench")
        self.publish_reports(_STORED_RECORDS)
        run_script(cluster, _EQUALITY_CHANNEL)

    def state(self, channel: str) -> ChannelState:
        return self.cluster.executor.states[channel.lower()]

    def publish_reports(self, count: int) -> None:
        """Through the landing log and the ingestion, like any publisher's."""
        lines = []
        for _ in range(count):
            self._next_report += 1
            record = {
                "id": f"r{self._next_report}",
                "etype": self.random.randrange(_TYPES),
                "zone": self.random.randrange(_ZONES),
                "x": self.random.random() * _CITY_M,
                "y": self.random.random() * _CITY_M,
                "message": "x" * 250,
            }
            lines.append(json.dumps(record).encode())
        self._publish("reports", lines)

    def _publish(self, feed: str, lines: list[bytes]) -> None:
        target = self.cluster.catalogue.feed(feed)
        receipt = self.cluster.intake.accept(target, DecodedBody(b"\n".join(lines), len(lines))).result()
        self.cluster.intake.wait_ingested(receipt.end).result()

    def move_users(self, first: int, count: int) -> None:
        lines = [
            b'{"user_id":%d,"x":%.1f,"y":%.1f}' % (user, self.random.random() * _CITY_M, self.random.random() * _CITY_M)
            for user in range(first, first + count)
        ]
        self._publish("users", lines)

    def subscribe(self, channel: str, wanted: list[tuple[Any, ...]]) -> None:
        for start in range(0, len(wanted), _CHUNK):
            self.cluster.subscribe("bench", channel, wanted[start : start + _CHUNK])
            progress.print(f"  {channel}: {start + _CHUNK:,} subscriptions", end="\r")

    def new_reports(self, channel: str) -> pa.Table:
        """The rows that the channel's next run would be over."""
        window = self.cluster.executor.window(self.state(channel))
        return self.cluster.store["Reports"].window(window.after["Reports"], window.through["Reports"])

    def run(self, channel: str) -> None:
        self.cluster.executor.run([self.state(channel)], is_patient=True)

    def cached(self, name: str, rows: pa.Table) -> DataFrame:
        """Rows in Spark's memory, the way anyone would put them there."""
        target = self.cluster.settings.data_dir / f"{name}.parquet"
        spark = self.cluster.spark
        frame = through_scratch(spark, rows, target).repartition(spark.sparkContext.defaultParallelism).cache()
        frame.count()
        return frame


@contextmanager
def running_cluster(**settings: Any) -> Iterator[Cluster]:
    """A real cluster on a temporary data directory, without its HTTP API."""
    with bench_folder() as folder:
        cluster = Cluster(ClusterSettings(data_dir=folder / "data", **settings))
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()


def run(
    seed: int = 0,
    subscriptions: int = 1_000_000,
    largest: int = 32_000_000,
    churn_subscriptions: int = 10_000_000,
    churn_s: int = 120,
) -> dict[str, Any]:
    report: dict[str, Any] = {"benchmark": "channels", "machine": machine(), "subscriptions": subscriptions}
    if churn_subscriptions:
        progress.print("churn: new subscriptions while the channel runs")
        with running_cluster() as cluster:
            report["churn"] = churn(Workload(cluster, seed), churn_subscriptions, churn_s)
    if not subscriptions:
        return report
    with running_cluster(spark_driver_memory="6g") as cluster:
        work = Workload(cluster, seed)
        progress.print("equality: one run for all subscriptions, beside a join written by hand")
        report |= _equality(work, subscriptions)
        progress.print("near: users who move, beside the best join written by hand")
        report |= _near(work, subscriptions)
        progress.print(f"doubling until a run takes more than {_LIMIT_S:g} s")
        report |= _largest(work, subscriptions, largest)
        report["memory"] = memory_mb()
    return report


def _equality(work: Workload, count: int) -> dict[str, Any]:
    wanted = _wanted(range(count))
    subscribing_s = seconds(lambda: work.subscribe("OfTypeInZone", wanted))
    base = work.cached(
        "equality",
        pa.table(
            {
                SUBSCRIPTION_COLUMN: np.arange(count, dtype=np.int64),
                "etype": np.arange(count, dtype=np.int32) % _TYPES,
                "zone": np.arange(count, dtype=np.int32) // _TYPES,
            }
        ),
    )
    spark = work.cluster.spark

    def bare() -> None:
        new = spark.createDataFrame(work.new_reports("OfTypeInZone")).drop("_seq")
        columns = F.struct(*(new[name] for name in new.columns))
        joined = base.join(F.broadcast(new), ["etype", "zone"])
        joined.select(SUBSCRIPTION_COLUMN, F.to_json(columns, {"ignoreNullFields": "false"})).toArrow()

    def one_by_one() -> float:
        rows = work.new_reports("OfTypeInZone")
        spark.createDataFrame(rows).createOrReplaceTempView("bench_new")
        sample = [work.random.randrange(count) for _ in range(_SAMPLED_QUERIES)]
        query = "SELECT * FROM bench_new WHERE etype = {} AND zone = {}"
        each = [
            seconds(lambda one=one: spark.sql(query.format(one % _TYPES, one // _TYPES)).toArrow())  # type: ignore[misc]
            for one in sample
        ]
        return median(each)

    _in_turns(work, "OfTypeInZone", bare, 3)
    bare_s, run_s = _in_turns(work, "OfTypeInZone", bare, _REPEATS)
    work.publish_reports(_NEW_RECORDS)
    query_s = one_by_one()
    work.run("OfTypeInZone")
    base.unpersist()
    return {
        "subscribe_s": round(subscribing_s, 1),
        "new_records": _NEW_RECORDS,
        "run_s": round(run_s, 3),
        "bare_spark_s": round(bare_s, 3),
        "ratio_to_bare_spark": round(run_s / bare_s, 2),
        "one_query_per_subscription_s": round(query_s * count),
        "times_faster_than_one_by_one": round(query_s * count / run_s),
    }


def _in_turns(
    work: Workload, channel: str, bare: Callable[[], None], repeats: int, before: Callable[[int], None] = lambda _: None
) -> tuple[float, float]:
    """The medians of the join by hand and of the channel's run, both over the same new reports."""
    bare_s, run_s = [], []
    for repeat in range(repeats):
        before(repeat)
        work.publish_reports(_NEW_RECORDS)
        # The run moves the window, so the join by hand goes first.
        bare_s.append(seconds(bare))
        run_s.append(seconds(lambda: work.run(channel)))
    return median(bare_s), median(run_s)


def _near(work: Workload, count: int) -> dict[str, Any]:
    for first in range(0, count, _CHUNK):
        work.move_users(first, _CHUNK)
    run_script(work.cluster, _NEAR_CHANNEL)
    work.subscribe("NearMe", [(user, _RADIUS_M) for user in range(count)])
    spark = work.cluster.spark
    base = work.cached(
        "near",
        pa.table({SUBSCRIPTION_COLUMN: np.arange(count, dtype=np.int64), "user_id": np.arange(count, dtype=np.int64)}),
    )
    scratch = work.cluster.settings.data_dir / "near-users.parquet"

    def bare() -> None:
        """Cells of 250 m, one packed key, report cells made on the driver, a box before the exact test."""
        cell = _RADIUS_M / 2
        reports = work.new_reports("NearMe")
        xs, ys = (np.floor(reports.column(name).to_numpy() / cell).astype(np.int64) for name in ("x", "y"))
        steps = [(dx, dy) for dx in range(-2, 3) for dy in range(-2, 3)]
        keys = np.concatenate([((xs + dx) << 32) + (ys + dy) for dx, dy in steps])
        cells = pa.concat_tables([reports.drop_columns(["_seq"])] * len(steps)).append_column("cell", pa.array(keys))
        new = F.broadcast(spark.createDataFrame(cells).withColumnRenamed("x", "rx").withColumnRenamed("y", "ry"))
        _, living = work.cluster.store["Users"].living()
        users = through_scratch(spark, living, scratch).drop("_seq")
        users = users.withColumn("cell", F.expr(f"(bigint(floor(x / {cell})) << 32) + bigint(floor(y / {cell}))"))
        close = users.join(new, "cell").where(
            f"abs(rx - x) <= {_RADIUS_M} AND abs(ry - y) <= {_RADIUS_M} "
            f"AND (rx - x) * (rx - x) + (ry - y) * (ry - y) <= {_RADIUS_M * _RADIUS_M}"
        )
        matched = base.join(F.broadcast(close), "user_id")
        columns = F.expr(
            "struct(id, etype, zone, rx AS x, ry AS y, message, sqrt(power(rx - x, 2) + power(ry - y, 2)) AS metres)"
        )
        matched.select(SUBSCRIPTION_COLUMN, F.to_json(columns, {"ignoreNullFields": "false"})).toArrow()

    _in_turns(work, "NearMe", bare, 2)
    results_before = work.state("NearMe").costs.total.results
    bare_s, run_s = _in_turns(work, "NearMe", bare, _REPEATS, lambda at: work.move_users(at * 10_000, 10_000))
    base.unpersist()
    results = (work.state("NearMe").costs.total.results - results_before) // _REPEATS
    huge_s = _with_a_huge_radius(work)
    return {
        "near_users": count,
        "near_results_per_run": results,
        "near_run_s": round(run_s, 3),
        "near_bare_spark_s": round(bare_s, 3),
        "near_ratio_to_bare_spark": round(run_s / bare_s, 2),
        "near_run_with_a_huge_radius_s": round(median(huge_s), 3),
    }


def _with_a_huge_radius(work: Workload) -> list[float]:
    """One subscriber who wants to hear of everything must not make the runs of all others longer."""
    work.subscribe("NearMe", [(0, 1e300)])
    times = []
    for _ in range(2 + _REPEATS):
        work.publish_reports(_NEW_RECORDS)
        times.append(seconds(lambda: work.run("NearMe")))
    return times[2:]


def churn(work: Workload, count: int, duration_s: int) -> dict[str, Any]:
    """Newcomers one by one, each a call of its own, while the channel runs every second.

    Times of subscribing count from the moment when the call was due: what holds one up holds up those behind it.
    """
    channel = "OfTypeInZone"
    subscribing_s = seconds(lambda: work.subscribe(channel, _wanted(range(count))))
    work.publish_reports(_NEW_RECORDS)
    progress.print(f"  first run: {seconds(lambda: work.run(channel)):.1f} s")
    for _ in range(_WARM_RUNS):
        work.publish_reports(_NEW_RECORDS)
        work.run(channel)
    waited_s: list[float] = []

    def newcomers() -> None:
        begin = time.perf_counter()
        for at in at_pace(_NEWCOMERS_PER_S, duration_s * _NEWCOMERS_PER_S):
            work.cluster.subscribe("bench", channel, _wanted([count + at]))
            waited_s.append(time.perf_counter() - begin - at / _NEWCOMERS_PER_S)

    run_s = []
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(newcomers)
        for _ in at_pace(1.0, duration_s):
            work.publish_reports(_NEW_RECORDS)
            run_s.append(seconds(lambda: work.run(channel)))
        coming.result()
    served = len(work.state(channel).subscriptions)
    return {
        "subscriptions": count,
        "newcomers": served - count,
        "register_s": round(subscribing_s, 1),
        "subscribe_p50_ms": round(1000 * percentile(waited_s, 0.5), 1),
        "subscribe_p99_ms": round(1000 * percentile(waited_s, 0.99), 1),
        "run_p50_s": round(median(run_s), 3),
        "run_p99_s": round(percentile(run_s, 0.99), 3),
        "memory": memory_mb(),
    }


def _wanted(numbers: Iterable[int]) -> list[tuple[Any, ...]]:
    return [(at % _TYPES, at // _TYPES) for at in numbers]


def _largest(work: Workload, count: int, largest: int) -> dict[str, Any]:
    """Double the channel's subscriptions until a run takes too long.

    The first million came in through the registry; the others are given to the executor in the form that it keeps
    them in, since registering is not what is measured here.
    """
    state = work.state("OfTypeInZone")
    runs: dict[int, float] = {}
    within = 0
    while True:
        work.publish_reports(_NEW_RECORDS)
        work.run("OfTypeInZone")
        work.publish_reports(_NEW_RECORDS)
        runs[count] = round(seconds(lambda: work.run("OfTypeInZone")), 3)
        progress.print(f"  {count:,} subscriptions: {runs[count]} s")
        if runs[count] > _LIMIT_S:
            break
        within = count
        if count * 2 > largest:
            break
        for first in range(count, count * 2, 1_000_000):
            ids = np.arange(first, min(first + 1_000_000, count * 2), dtype=np.int64)
            columns = {
                SUBSCRIPTION_COLUMN: ids + 10**9,
                "etype": (ids % _TYPES).astype(np.int32),
                "zone": (ids // _TYPES).astype(np.int32),
            }
            state.subscriptions.add_rows(pa.table(columns))
        count *= 2
    return {"run_s_by_subscriptions": runs, "largest_within_10s": within}
