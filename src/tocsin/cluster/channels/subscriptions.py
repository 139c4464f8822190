"""The subscriptions of each channel, kept current in Spark's memory.

Subscriptions are data: a newcomer is a row in the next run, never a new job. A channel's rows are a cached base and
a few cached additions; additions are folded into the base when they are many. Those who left are dropped from
the results at once and from the base when it is next folded.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tocsin.cluster.datasets.arrow import ARROW_TYPES
from tocsin.cluster.datasets.views import write_for_spark
from tocsin.model.catalogue import BackendSubscription, Channel
from tocsin.model.schema import ColumnType

#: The column of the subscriptions relation that holds the id; parameters can't begin with an underscore.
SUBSCRIPTION_COLUMN = "_subscription"

#: Each cached addition costs a scan of its own: five cost 10%, ten cost 30%.
_MAX_ADDITIONS = 5
_SPREAD_ROWS = 20_000


class ChannelSubscriptions:
    """One channel's subscriptions. `view` is what a run joins with."""

    def __init__(self, spark: SparkSession, channel: Channel, scratch: Path) -> None:
        self._spark = spark
        self._cores = spark.sparkContext.defaultParallelism
        self._channel = channel
        self._folder = scratch / "subscriptions" / channel.name.lower()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._schema = pa.schema(
            [
                (SUBSCRIPTION_COLUMN, pa.int64()),
                *((parameter.name, ARROW_TYPES[parameter.type]) for parameter in channel.parameters),
            ]
        )
        self._pending: list[pa.Table] = []
        self._files: list[Path] = []
        self._frames: list[DataFrame] = []
        self._removed: set[int] = set()
        self._largest: dict[str, float] = {}
        self._count = 0
        self._numbers = itertools.count(1)
        self._view: str | None = None
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return self._count

    def add(self, subscriptions: Sequence[BackendSubscription]) -> None:
        if subscriptions:
            self.add_rows(subscription_rows(self._channel, subscriptions))

    def add_rows(self, rows: pa.Table) -> None:
        """Take in rows of `_subscription` and one column per parameter."""
        with self._lock:
            self._pending.append(rows.cast(self._schema))
            self._count += rows.num_rows
            for parameter in self._channel.parameters:
                if parameter.type is ColumnType.DOUBLE:
                    largest = pc.max(rows.column(parameter.name)).as_py()
                    self._largest[parameter.name] = max(largest, self._largest.get(parameter.name, largest))

    def remove(self, ids: Iterable[int]) -> None:
        with self._lock:
            before = len(self._removed)
            self._removed.update(ids)
            self._count -= len(self._removed) - before

    def largest(self, parameter: str) -> float:
        """An upper bound of the values that subscriptions have given for a DOUBLE parameter."""
        return self._largest.get(parameter, 0.0)

    def without_removed(self, output: pa.Table) -> pa.Table:
        """Results, less those of subscriptions that ended while the run was under way or since the last fold."""
        with self._lock:
            if not self._removed or output.num_rows == 0:
                return output
            gone = pa.array(sorted(self._removed), pa.int64())
        return output.filter(pc.invert(pc.is_in(output.column("subscription"), value_set=gone)))

    def view(self) -> str:
        """The name of a Spark view of all subscriptions there are now."""
        with self._lock:
            if self._pending or self._view is None:
                self._take_in_pending()
            assert self._view is not None
            return self._view

    def close(self) -> None:
        with self._lock:
            self._release(self._frames)
            shutil.rmtree(self._folder, ignore_errors=True)

    def _take_in_pending(self) -> None:
        """Make the pending rows part of the view. If Spark fails on the way nothing has changed, so that the next run
        tries again: rows taken for done would miss their results, rows taken twice would get them twice."""
        if not self._pending:
            frames = self._frames or [self._spark.createDataFrame(self._schema.empty_table())]
            self._publish(frames)
            self._frames = frames
            return
        target = self._folder / f"{next(self._numbers):06d}.parquet"
        rows = pa.concat_tables(self._pending)
        write_for_spark(rows, target, self._cores)
        files = [*self._files, target]
        if len(self._frames) > _MAX_ADDITIONS or self._removed_share() > 0.5:
            self._fold(files)
        else:
            frames = [*self._frames, self._cached([target], rows.num_rows)]
            self._publish(frames)
            self._frames, self._files = frames, files
        self._pending.clear()

    def _fold(self, files: list[Path]) -> None:
        """One base out of everything, without those who left."""
        folded = files
        if self._removed:
            rows = pa.concat_tables([pq.read_table(file) for file in files])
            gone = pa.array(sorted(self._removed), pa.int64())
            rows = rows.filter(pc.invert(pc.is_in(rows.column(SUBSCRIPTION_COLUMN), value_set=gone)))
            target = self._folder / f"{next(self._numbers):06d}.parquet"
            write_for_spark(rows, target, self._cores)
            folded = [target]
        frames = [self._cached(folded, self._count)]
        self._publish(frames)
        before, self._frames, self._files = self._frames, frames, folded
        self._removed.clear()
        self._release(before)
        for file in set(files) - set(folded):
            file.unlink(missing_ok=True)

    def _removed_share(self) -> float:
        return len(self._removed) / max(1, self._count + len(self._removed))

    def _cached(self, files: list[Path], rows: int) -> DataFrame:
        frame = self._spark.read.schema(from_arrow_schema(self._schema)).parquet(*map(str, files))
        if rows >= _SPREAD_ROWS:
            # Small files make one partition; spread over the cores, every later run uses all of them.
            frame = frame.repartition(self._cores)
        frame = frame.cache()
        frame.count()
        return frame

    def _publish(self, frames: list[DataFrame]) -> None:
        frame = frames[0]
        for addition in frames[1:]:
            frame = frame.unionAll(addition)
        name = f"tocsin_subscriptions_{self._channel.name}_{next(self._numbers)}"
        frame.createOrReplaceTempView(name)
        previous, self._view = self._view, name
        if previous is not None:
            self._spark.catalog.dropTempView(previous)

    def _release(self, frames: list[DataFrame]) -> None:
        for frame in frames:
            frame.unpersist(blocking=False)


def subscription_rows(channel: Channel, subscriptions: Sequence[BackendSubscription]) -> pa.Table:
    """Subscriptions as rows of `_subscription` and one column per parameter."""
    columns: list[pa.Array] = [pa.array([one.id for one in subscriptions], pa.int64())]
    for at, parameter in enumerate(channel.parameters):
        values = [one.values[at] for one in subscriptions]
        target = ARROW_TYPES[parameter.type]
        if parameter.type in (ColumnType.TIMESTAMP, ColumnType.DATE):
            columns.append(pa.array(values, pa.string()).cast(target))
        else:
            columns.append(pa.array(values, target))
    return pa.table(columns, names=[SUBSCRIPTION_COLUMN, *(parameter.name for parameter in channel.parameters)])
