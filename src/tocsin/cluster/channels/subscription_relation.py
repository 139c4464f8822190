"""The subscriptions of each channel, kept current in Spark's memory.

Subscriptions are data: a new one is a row in the next run, never a new job. A channel's rows are cached tiers, largest
first, and the newest subscriptions, which are part of the plan. Tiers are merged in the background. Ended subscriptions
are dropped from the results at once, and from their tier when it is next merged.

Adding and removing never wait for Spark: `_lock` is held for moments only. Only a run of the channel, or a caller that
keeps runs from beginning, may call `view` or `merge`, as the methods say.
"""

from __future__ import annotations

import itertools
import shutil
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tocsin.cluster.channels.core.radius_classes import RadiusClass, count_classes
from tocsin.cluster.channels.core.tiers import TierSize, tiers_to_merge
from tocsin.cluster.datasets.arrow import ARROW_TYPES
from tocsin.cluster.datasets.views import write_for_spark
from tocsin.model.catalogue import BackendSubscription, Channel
from tocsin.model.schema import ColumnType

#: The column of the subscriptions relation that holds the id; parameters can't begin with an underscore.
SUBSCRIPTION_COLUMN = "_subscription"

#: This many new subscriptions are sent inside the plan, which needs no job of its own; beyond that they become a tier.
MAX_INLINE_NEWCOMERS = 5_000
#: Small files make one partition; from this many rows on a tier is spread over the cores.
_SPREAD_ROWS = 20_000
#: A tier's files are merged one by one, so this bounds the memory that a merge needs outside of Spark.
_MAX_FILE_ROWS = 1_000_000
#: With the same tiers, a merge is considered again when a tenth more subscriptions have ended.
_LOOK_AGAIN = 1.1

_Ids = npt.NDArray[np.int64]

#: For names of views, files and folders. One counter for all channels: a run of a dropped channel may end when another
#: channel of its name is at work, and must not remove anything of it.
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True, eq=False)
class _Tier:
    files: tuple[Path, ...]
    frame: DataFrame
    rows: int
    first_id: int
    last_id: int
    #: Subscriptions that had ended when the tier was made and whose ids are in its range, though they are not in it.
    others_removed: int = 0


@dataclass(frozen=True, slots=True)
class _Merge:
    """Tiers, the tiers that replace them, and the ended subscriptions that are left out."""

    before: tuple[_Tier, ...]
    after: tuple[_Tier, ...]
    dropped: frozenset[int]


class ChannelSubscriptions:
    """One channel's subscriptions. A run joins with `view`."""

    def __init__(
        self, spark: SparkSession, channel: Channel, scratch: Path, radius_parameters: Sequence[str] = ()
    ) -> None:
        self._spark = spark
        self._cores = spark.sparkContext.defaultParallelism
        self._channel = channel
        self._radius_parameters = tuple(radius_parameters)
        self._folder = scratch / "subscriptions" / f"{channel.name.lower()}-{next(_numbers)}"
        self._folder.mkdir(parents=True)
        self._schema = subscription_rows(channel, []).schema
        #: Guards this paragraph: added and removed subscriptions.
        self._lock = threading.Lock()
        self._pending: list[pa.Table] = []
        self._removed: set[int] = set()
        self._count = 0
        self._classes: Counter[RadiusClass] = Counter()
        #: Ended subscriptions whose radius class is not known yet, so that `_classes` still counts them.
        self._unclassed: set[int] = set()
        #: Guards this paragraph: Spark's copies. Held while Spark works.
        self._view_lock = threading.Lock()
        self._tiers: tuple[_Tier, ...] = ()
        self._newcomers = self._schema.empty_table()
        self._newcomers_frame: DataFrame | None = None
        self._view: str | None = None
        self._former_view: str | None = None
        self._is_closed = False
        #: The tiers when there was last nothing to merge, and how many subscriptions had ended by then.
        self._looked_at: tuple[_Tier, ...] | None = None
        self._removed_then = 0

    def __len__(self) -> int:
        return self._count

    def add(self, subscriptions: Sequence[BackendSubscription]) -> None:
        if subscriptions:
            self.add_rows(subscription_rows(self._channel, subscriptions))

    def add_rows(self, rows: pa.Table) -> None:
        """Take in rows of `_subscription` and one column per parameter."""
        rows = rows.cast(self._schema)
        classes = self._classes_of(rows)
        with self._lock:
            self._pending.append(rows)
            self._count += rows.num_rows
            self._classes.update(classes)

    def remove(self, ids: Iterable[int]) -> None:
        with self._lock:
            gone = set(ids) - self._removed
            self._removed |= gone
            self._count -= len(gone)
            if self._radius_parameters:
                self._unclassed |= gone

    def radius_classes(self) -> Counter[RadiusClass]:
        """An upper bound on the subscriptions of each radius class. An earlier view has no other classes."""
        with self._lock:
            return Counter(self._classes)

    def without_removed(self, output: pa.Table) -> pa.Table:
        """Results without those of subscriptions that ended during the run or since the last merge."""
        if output.num_rows == 0 or not self._removed:
            return output
        ids = output.column("subscription")
        served = pc.unique(ids).to_pylist()
        with self._lock:
            gone = [one for one in served if one in self._removed]
        return output.filter(pc.invert(pc.is_in(ids, value_set=pa.array(gone, pa.int64())))) if gone else output

    def left_in_view(self, ids: Collection[int]) -> set[int]:
        """Which of these ended subscriptions Spark's copies may still have: they are removed when tiers are merged."""
        with self._lock:
            return self._removed.intersection(ids)

    def view(self) -> str:
        """The name of a Spark view of all current subscriptions. Only a run may call it, and runs of a channel follow
        each other: the view stays as it is until the next call, or until the run has ended."""
        with self._view_lock:
            with self._lock:
                pending = list(self._pending)
            if pending or self._view is None:
                self._take_in(pending)
            assert self._view is not None
            return self._view

    def merge(self, between_runs: AbstractContextManager[object]) -> bool:
        """Merge tiers, if it is time; False if there was nothing to do.

        All slow work happens beside the runs. The new tier replaces the old ones inside `between_runs`, which keeps
        runs from beginning. If Spark fails on the way, nothing has changed. Only one thread may merge.
        """
        if self._must_settle_classes():
            self._settle_classes()
        tiers, removed = self._tiers, len(self._removed)
        if tiers is self._looked_at and removed <= _LOOK_AGAIN * self._removed_then:
            return False
        with self._lock:
            ids = list(self._removed)
        gone = np.sort(np.array(ids, np.int64))
        chosen = tiers_to_merge([_size(tier, gone) for tier in tiers])
        if chosen is None:
            self._looked_at, self._removed_then = tiers, removed
            return False
        if self._unclassed:
            self._settle_classes()
        merge = self._prepare(tiers[chosen.start : chosen.stop], gone)
        with ExitStack() as waiting:
            try:
                waiting.enter_context(between_runs)
            except BaseException:
                for tier in merge.after:
                    _release(tier)
                raise
            self._install(merge)
        return True

    def close(self) -> None:
        with self._view_lock:
            self._is_closed = True
            for tier in self._tiers:
                _release(tier)
            self._tiers = ()
            if self._view is not None:
                self._spark.catalog.dropTempView(self._view)
                self._view = None
            shutil.rmtree(self._folder, ignore_errors=True)

    # Spark's copies

    def _take_in(self, pending: Sequence[pa.Table]) -> None:
        """Make the pending rows part of the view. If Spark fails on the way, nothing has changed and the next run tries
        again: rows wrongly taken as added would miss their results, rows added twice would get them twice."""
        newcomers = pa.concat_tables([self._newcomers, *pending])
        if newcomers.num_rows <= MAX_INLINE_NEWCOMERS:
            self._publish(self._tiers, newcomers, self._spark.createDataFrame(newcomers))
        else:
            tier = self._new_tier([newcomers], newcomers.num_rows)
            try:
                nobody = self._schema.empty_table()
                self._publish((*self._tiers, tier), nobody, self._spark.createDataFrame(nobody))
            except BaseException:
                _release(tier)
                raise
        with self._lock:
            del self._pending[: len(pending)]
        self._drop_former_view()

    def _publish(self, tiers: tuple[_Tier, ...], newcomers: pa.Table, newcomers_frame: DataFrame) -> None:
        # The new subscriptions are always part of the view, even if there are none: with the view of a single tier,
        # Spark would drop that tier from its memory too.
        frame = newcomers_frame
        for tier in reversed(tiers):
            frame = tier.frame.unionAll(frame)
        name = f"tocsin_subscriptions_{self._channel.name}_{next(_numbers)}"
        frame.createOrReplaceTempView(name)
        self._former_view, self._view = self._view, name
        self._tiers, self._newcomers, self._newcomers_frame = tiers, newcomers, newcomers_frame

    def _drop_former_view(self) -> None:
        name, self._former_view = self._former_view, None
        if name is not None:
            self._spark.catalog.dropTempView(name)

    def _new_tier(self, tables: Iterable[pa.Table], rows: int) -> _Tier:
        """Rows in files and in Spark's memory; `rows` is their number."""
        files: list[Path] = []
        first_ids, last_ids = [], []
        count = 0
        try:
            for part in _in_parts(tables, -(-rows // self._file_count(rows))):
                files.append(self._folder / f"{next(_numbers):06d}.parquet")
                write_for_spark(part, files[-1], self._cores)
                bounds = pc.min_max(part.column(SUBSCRIPTION_COLUMN)).as_py()
                first_ids.append(bounds["min"])
                last_ids.append(bounds["max"])
                count += part.num_rows
            frame = self._spark.read.schema(from_arrow_schema(self._schema)).parquet(*map(str, files)).cache()
            try:
                frame.count()
            except BaseException:
                frame.unpersist(blocking=False)
                raise
        except BaseException:
            for file in files:
                file.unlink(missing_ok=True)
            raise
        return _Tier(tuple(files), frame, count, min(first_ids), max(last_ids))

    def _file_count(self, rows: int) -> int:
        """A multiple of the cores, so that each core gets the same number of rows; one for few rows."""
        if rows < _SPREAD_ROWS:
            return 1
        return -(-rows // (_MAX_FILE_ROWS * self._cores)) * self._cores

    # Merging

    def _prepare(self, tiers: tuple[_Tier, ...], gone: _Ids) -> _Merge:
        value_set = pa.array(gone)
        dropped: list[int] = []

        def living() -> Iterator[pa.Table]:
            for file in itertools.chain.from_iterable(tier.files for tier in tiers):
                rows = pq.read_table(file, schema=self._schema)
                has_left = pc.is_in(rows.column(SUBSCRIPTION_COLUMN), value_set=value_set)
                dropped.extend(rows.filter(has_left).column(SUBSCRIPTION_COLUMN).to_pylist())
                yield rows.filter(pc.invert(has_left))

        expected = sum(_size(tier, gone).living for tier in tiers)
        parts = (part for part in living() if part.num_rows)
        first = next(parts, None)
        if first is None:
            return _Merge(tiers, (), frozenset(dropped))
        tier = self._new_tier(itertools.chain([first], parts), max(1, expected))
        others = np.setdiff1d(gone, np.array(dropped, np.int64))
        return _Merge(tiers, (replace(tier, others_removed=_between(tier, others)),), frozenset(dropped))

    def _install(self, merge: _Merge) -> None:
        with self._view_lock:
            try:
                if self._is_closed:
                    raise ValueError("the channel was dropped")
                first = self._tiers.index(merge.before[0])
                tiers = (*self._tiers[:first], *merge.after, *self._tiers[first + len(merge.before) :])
                assert self._newcomers_frame is not None, "there are tiers, so there was a view"
                self._publish(tiers, self._newcomers, self._newcomers_frame)
            except BaseException:
                for tier in merge.after:
                    _release(tier)
                if self._is_closed:
                    return
                raise
            with self._lock:
                self._removed -= merge.dropped
            for tier in merge.before:
                _release(tier)
            self._drop_former_view()

    # Radius classes

    def _classes_of(self, rows: pa.Table) -> Counter[RadiusClass]:
        if not self._radius_parameters or not rows.num_rows:
            return Counter()
        columns = [rows.column(name).cast(pa.float64(), safe=False) for name in self._radius_parameters]
        return count_classes([column.to_numpy() for column in columns])

    def _must_settle_classes(self) -> bool:
        """Whether so many subscriptions have ended that a class may have become empty."""
        with self._lock:
            counts = [count for count in self._classes.values() if count > 0]
            return len(counts) > 1 and len(self._unclassed) >= min(counts)

    def _settle_classes(self) -> None:
        """Find the radii of ended subscriptions, and stop counting them."""
        with self._view_lock, self._lock:
            tables, tiers, wanted = [self._newcomers, *self._pending], self._tiers, set(self._unclassed)
        value_set = pa.array(wanted, pa.int64())
        columns = list(dict.fromkeys([SUBSCRIPTION_COLUMN, *self._radius_parameters]))
        condition = pc.field(SUBSCRIPTION_COLUMN).isin(value_set)
        found = [table.filter(condition).select(columns) for table in tables]
        files = itertools.chain.from_iterable(tier.files for tier in tiers)
        found.extend(pq.read_table(file, columns=columns, filters=condition) for file in files)
        rows = pa.concat_tables(found)
        classes = self._classes_of(rows)
        with self._lock:
            self._classes = +(self._classes - classes)
            self._unclassed -= set(rows.column(SUBSCRIPTION_COLUMN).to_pylist())


def _size(tier: _Tier, gone: _Ids) -> TierSize:
    """Ids ascend from tier to tier with few exceptions, so ended ids between a tier's first and last belong to it."""
    return TierSize(tier.rows, min(max(0, _between(tier, gone) - tier.others_removed), tier.rows))


def _between(tier: _Tier, ids: _Ids) -> int:
    return int(np.searchsorted(ids, tier.last_id, "right") - np.searchsorted(ids, tier.first_id, "left"))


def _release(tier: _Tier) -> None:
    tier.frame.unpersist(blocking=False)
    for file in tier.files:
        file.unlink(missing_ok=True)


def _in_parts(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of `rows` each; the last may have fewer."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        while sum(map(len, waiting)) >= rows:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, rows)
            waiting = [joined.slice(rows)] if len(joined) > rows else []
    if waiting:
        yield pa.concat_tables(waiting)


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
