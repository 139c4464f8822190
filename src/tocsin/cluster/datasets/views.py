"""Datasets as Spark sees them: temporary views of new rows and of all rows.

A view is made once for all users of the same rows, so channels of one dataset share the scan of new rows. Views are
leased: a view that a run still reads is never dropped.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tocsin.cluster.datasets.arrow import ddl
from tocsin.cluster.datasets.store import DatasetStore, StoredDataset
from tocsin.model.catalogue import DatasetKind
from tocsin.model.schema import SEQUENCE_COLUMN

#: Up to this many rows go to Spark inside the plan, as a local relation, which it can broadcast without a job of
#: its own; more go through a file in scratch (a million rows take 2 s the first way, 0.2 s the second).
MAX_INLINE_ROWS = 20_000
_MIN_GROUP_ROWS = 4096
#: Unused views that are kept, since the next run may need them.
_IDLE_VIEWS = 16


@dataclass(slots=True)
class _View:
    name: str
    leases: int = 0
    #: The number of its rows, if that was known when it was made.
    rows: int | None = None
    release: list[Callable[[], object]] = field(default_factory=list)


class DatasetViews:
    def __init__(self, spark: SparkSession, store: DatasetStore, scratch: Path) -> None:
        self._spark = spark
        self._store = store
        self._scratch = scratch / "views"
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._views: OrderedDict[tuple[object, ...], _View] = OrderedDict()
        self._numbers = itertools.count(1)
        self._lock = threading.RLock()

    def new(self, dataset: str, after: int, through: int) -> AbstractContextManager[str]:
        """The name of a view of the rows committed in `(after, through]`."""
        stored = self._store[dataset]
        key = (stored, after, through, len(stored.rows.schema))
        return self._leased("new", key, lambda view: self._of_rows(view, stored.window(after, through)))

    def full(self, dataset: str) -> AbstractContextManager[str]:
        """The name of a view of all current rows."""
        stored = self._store[dataset]
        # Compaction and retention change the files, if not the sequence; the replaced files are removed later.
        return self._leased("full", (stored, stored.rows.version), lambda view: self._everything(view, stored))

    @contextmanager
    def marked(self, dataset: str, after: int, through: int) -> Iterator[str]:
        """Like `full`, with a column `_is_new` that marks the rows of commits in `(after, through]`."""
        with self.full(dataset) as name:
            condition = f"{SEQUENCE_COLUMN} > {after} AND {SEQUENCE_COLUMN} <= {through}"
            frame = self._spark.sql(f"SELECT *, {condition} AS _is_new FROM {name}")
            marked = self._name("marked", dataset)
            frame.createOrReplaceTempView(marked)
            try:
                yield marked
            finally:
                self._spark.catalog.dropTempView(marked)

    def rows_in(self, name: str) -> int | None:
        """How many rows a leased view has, if that is known."""
        with self._lock:
            return next((view.rows for view in self._views.values() if view.name == name), None)

    @contextmanager
    def of_arrow(self, rows: pa.Table) -> Iterator[str]:
        """A view of the given rows, for as long as the block runs."""
        view = _View(self._name("rows", "hand"))
        self._of_rows(view, rows)
        try:
            yield view.name
        finally:
            self._drop(view)

    @contextmanager
    def _leased(
        self, role: str, of: tuple[StoredDataset, *tuple[int, ...]], build: Callable[[_View], None]
    ) -> Iterator[str]:
        """The view `of` this very dataset: a later one of the same name may have reached the same sequence."""
        key = (role, *of)
        with self._lock:
            view = self._views.get(key)
            if view is None:
                view = _View(self._name(role, of[0].dataset.name))
                build(view)
                self._views[key] = view
            self._views.move_to_end(key)
            view.leases += 1
        try:
            yield view.name
        finally:
            with self._lock:
                view.leases -= 1
                self._drop_idle()

    def forget_idle(self) -> None:
        """Drop all unused views, and the files behind them."""
        with self._lock:
            self._drop_idle(kept=0)

    def _drop_idle(self, kept: int = _IDLE_VIEWS) -> None:
        idle = [key for key, view in self._views.items() if view.leases == 0]
        for key in idle[: max(0, len(idle) - kept)]:
            self._drop(self._views.pop(key))

    def _drop(self, view: _View) -> None:
        self._spark.catalog.dropTempView(view.name)
        for release in view.release:
            release()

    def _name(self, role: str, dataset: str) -> str:
        return f"tocsin_{role}_{dataset}_{next(self._numbers)}"

    def _everything(self, view: _View, stored: StoredDataset) -> None:
        if stored.dataset.kind is DatasetKind.KEYED:
            _, rows = stored.living()
            self._of_rows(view, rows)
            return
        schema = f"{ddl(stored.dataset.schema)}, `{SEQUENCE_COLUMN}` BIGINT"
        files = stored.rows.files()
        read = self._spark.read.schema(schema)
        frame = read.parquet(*files) if files else self._spark.createDataFrame([], schema)
        if stored.dataset.kind is DatasetKind.REFERENCE:
            frame = frame.cache()
            view.release.append(partial(frame.unpersist, blocking=False))
        frame.createOrReplaceTempView(view.name)

    def _of_rows(self, view: _View, rows: pa.Table) -> None:
        view.rows = rows.num_rows
        if rows.num_rows <= MAX_INLINE_ROWS:
            frame = self._spark.createDataFrame(rows)
        else:
            target = self._scratch / f"{view.name}.parquet"
            frame = through_scratch(self._spark, rows, target)
            view.release.append(partial(target.unlink, missing_ok=True))
        frame.createOrReplaceTempView(view.name)


def write_for_spark(rows: pa.Table, target: Path, cores: int) -> None:
    group_rows = max(_MIN_GROUP_ROWS, -(-rows.num_rows // cores))
    pq.write_table(rows, target, compression="none", use_dictionary=False, row_group_size=min(group_rows, 1 << 17))


def through_scratch(spark: SparkSession, rows: pa.Table, target: Path) -> DataFrame:
    """Rows for Spark as a short-lived Parquet file, cheap to write and scan, in groups that the cores share."""
    write_for_spark(rows, target, spark.sparkContext.defaultParallelism)
    # With the schema given, Spark need not open the file to plan.
    return spark.read.schema(from_arrow_schema(rows.schema)).parquet(str(target))
