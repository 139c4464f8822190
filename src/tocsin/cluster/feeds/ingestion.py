"""Ingestion: one streaming query takes the landing log into the datasets' tables and wakes continuous channels.

A table's own application transaction, committed with its rows, decides how far the table has come: it is the
landing-log position up to which the table holds everything. Spark's checkpoint is made anew at each start and only
gives a batch's bounds; losing it loses nothing. When a batch is replayed, with any bounds, each table tells how much of
it is there already.
"""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it
from pyspark.sql.streaming.query import StreamingQuery

from tocsin.cluster.datasets.store import LANDING_APP, DatasetStore
from tocsin.cluster.feeds.core.frames import FrameHeader
from tocsin.cluster.feeds.landing import LandingLog
from tocsin.cluster.feeds.parsing import Parsed, parse_frames, refuse_repeats, separate
from tocsin.cluster.feeds.source import LandingSource
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.spark_errors import is_out_of_room
from tocsin.errors import ClusterFailure
from tocsin.model.catalogue import DatasetKind
from tocsin.runtime.clock import Clock
from tocsin.settings import ClusterSettings

log = structlog.get_logger(__name__)

#: Spark gives a Python process ten seconds to start, however busy the machine is.
_WORKER_WAS_LATE = "Python worker failed to connect back"
#: For so long a stream whose Python process is late is started again. A new process of the cluster would need more of
#: what the machine lacks, so this is long; after it, something else is wrong.
_LATE_FOR_S = 600.0
#: How long a stream that found the disk full waits before it is started again; a start takes a second to find out.
_ROOM_PAUSE_S = 5.0
#: Batches smaller than this are parsed by one task: a shuffle would cost more than a second core saves.
_SPREAD_OVER_CORES_BYTES = 1 << 20


@dataclass(eq=False)
class Ingestion:
    """The micro-batch. `start` begins the stream; each batch calls `on_commit` with the datasets that have new rows."""

    spark: SparkSession
    landing: LandingLog
    store: DatasetStore
    settings: ClusterSettings
    clock: Clock
    metrics: Metrics
    on_ingested: Callable[[int], None]
    on_commit: Callable[[frozenset[str]], None]
    scratch: Path

    def __post_init__(self) -> None:
        self._checkpoint = self.scratch / "checkpoint"
        self._query: StreamingQuery | None = None
        self._stopped = False
        #: Since when no Python process has come in time.
        self._late_since_s: float | None = None
        self._restart_at_s = 0.0
        #: Datasets whose new rows `on_commit` does not know of yet, because it failed.
        self._unannounced: frozenset[str] = frozenset()
        self._pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="ingest")
        #: Everything in the landing log before this is in tables.
        self.position = self.landing.read_mark()
        #: How many batches with records there have been.
        self.batches = 0
        #: Held while a batch is under way; a change of a schema takes it first.
        self.batch_lock = threading.Lock()

    def start(self) -> None:
        shutil.rmtree(self._checkpoint, ignore_errors=True)
        self.spark.dataSource.register(LandingSource)
        stream = (
            self.spark.readStream.format(LandingSource.name())
            .option("directory", str(self.landing.directory))
            .option("start", str(self.position))
            .option("batch_max_bytes", str(self.settings.batch_max_bytes))
            .load()
        )
        self._query = (
            stream.writeStream.queryName("ingestion")
            .option("checkpointLocation", str(self._checkpoint))
            .foreachBatch(self._take_batch)
            .start()
        )

    def keep_running(self) -> str | None:
        """Why the stream has ended and can't go on, or None. A stream whose Python process was late is started again,
        and so is one that found the disk full, as often as needed. As after a restart of the cluster, it continues from
        the tables' positions. Meanwhile records are accepted as long as there is room for them."""
        reason = self._ended_because()
        if reason is not None and is_out_of_room(reason):
            self._start_when_there_is_room(reason)
            return None
        if reason is None or _WORKER_WAS_LATE not in reason:
            return reason
        now_s = self.clock.monotonic_s()
        if self._late_since_s is None:
            self._late_since_s = now_s
        if now_s - self._late_since_s > _LATE_FOR_S:
            return reason
        log.warning("Spark's Python process took more than 10 s to start; starting the stream again")
        self._start_again()
        return None

    def _start_when_there_is_room(self, reason: str) -> None:
        now_s = self.clock.monotonic_s()
        if now_s < self._restart_at_s:
            return
        self._restart_at_s = now_s + _ROOM_PAUSE_S
        last_line = reason.strip().splitlines()[-1]
        log.error("the disk is full; records wait in the landing log", pause_s=_ROOM_PAUSE_S, reason=last_line)
        try:
            self._start_again()
        except Exception as exc:
            if not is_out_of_room(str(exc)):
                raise
            log.error("the disk is still full", exc_info=exc)

    def _start_again(self) -> None:
        with self.batch_lock:
            if not self._stopped:
                self._tell_commits()  # Perhaps no new record comes that would announce them.
                self.start()

    def _ended_because(self) -> str | None:
        if self._query is None:
            return None
        try:
            if self._query.isActive:
                return None
            exception: StreamingQueryException | None = self._query.exception()
        except Exception as exc:  # noqa: BLE001 - the JVM is gone, and py4j fails in many ways
            return f"Spark is gone: {exc}"
        return str(exception) if exception else "the ingestion stream has stopped"

    def stop(self) -> None:
        """End the stream between two batches; the next start finds whatever a batch left undone."""
        with self.batch_lock:
            self._stopped = True
        # Without the lock: Spark waits for a batch that has just begun, which waits for the lock.
        if self._query is not None and self._query.isActive:
            self._query.stop()
        self._pool.shutdown()

    def _take_batch(self, frames: DataFrame, batch_id: int) -> None:
        with self.batch_lock, self.metrics.timed("tocsin_batch_seconds"):
            if self._stopped:  # The batch waited for the lock meanwhile: the next start takes it.
                return
            end = self._batch_end(batch_id)
            headers = list(self.landing.headers_between(self.position, end))
            if (headers[-1].end if headers else self.position) != end:
                raise ClusterFailure(f"the landing log does not hold all frames from {self.position} to {end}")
            by_dataset: dict[str, list[FrameHeader]] = {}
            for header in headers:
                if header.count:
                    by_dataset.setdefault(header.dataset.lower(), []).append(header)
            changed = frozenset(
                name
                for name, new in self._pool.map(
                    lambda item: (item[0], self._ingest(frames, item[0], item[1], end)), by_dataset.items()
                )
                if new
            )
            self.position = end
            self.batches += bool(by_dataset)
            self._late_since_s = None
            self.on_ingested(end)
            self._unannounced |= changed
            self._tell_commits()

    def _tell_commits(self) -> None:
        if self._unannounced:
            self.on_commit(self._unannounced)
            self._unannounced = frozenset()

    def _batch_end(self, batch_id: int) -> int:
        """Where the batch ends: Spark writes it down before it runs the batch."""
        text = (self._checkpoint / "offsets" / str(batch_id)).read_text()
        return int(json.loads(text.splitlines()[-1])["position"])

    def _ingest(self, frames: DataFrame, name: str, headers: list[FrameHeader], end: int) -> bool:
        """Ingest a batch's frames into one dataset; True if rows were committed."""
        stored = self.store.get(name)
        if stored is None:
            log.warning("records for a dropped dataset are left out", dataset=name, frames=len(headers))
            return False
        rows_from = stored.rows.transaction(LANDING_APP) or 0
        letters_from = stored.dead_letters.transaction(LANDING_APP) or 0
        # Dead letters are committed first, so they are never behind the rows.
        missing = [header for header in headers if header.position >= rows_from]
        if not missing:
            return False
        size = sum(header.body_length for header in missing)
        if len(missing) < len(headers):
            # Only in a replay: a number that changes with every batch would make Spark compile code for every batch.
            frames = frames.where(F.col("position") >= missing[0].position)
        spread = size > _SPREAD_OVER_CORES_BYTES and len(missing) > 1
        if spread:
            frames = frames.repartition(self.spark.sparkContext.defaultParallelism)
        limit = self.settings.feed_max_record_bytes
        with self.metrics.timed("tocsin_parse_seconds"):
            table = parse_frames(frames, stored.dataset, limit, ordered=spread)
        feed_of = {header.position: header.feed for header in missing}
        parsed = separate(table, stored.dataset, feed_of, limit, self.clock.now_us())
        if (key := stored.dataset.schema.primary_key) and stored.dataset.kind is DatasetKind.REFERENCE:
            parsed = refuse_repeats(parsed, stored.keys(), key, feed_of, self.clock.now_us())
        _refuse_incomplete(stored.dataset.name, missing, parsed)
        self._count(parsed.positions, feed_of, parsed.rejected)
        letters = _at_or_after(parsed.rejected, parsed.rejected.column("position"), letters_from)
        if letters.num_rows:
            stored.dead_letters.append(letters, {LANDING_APP: end})
        rows = _at_or_after(parsed.rows, parsed.positions, rows_from)
        if not rows.num_rows:
            return False
        with self.metrics.timed("tocsin_table_commit_seconds"):
            stored.commit(rows, {LANDING_APP: end})
        return True

    def _count(self, positions: pa.ChunkedArray, feed_of: dict[int, str], rejected: pa.Table) -> None:
        accepted = pc.value_counts(positions).to_pylist() if len(feed_of) > 1 else []
        if not accepted and len(positions):
            accepted = [{"values": next(iter(feed_of)), "counts": len(positions)}]
        for one in accepted:
            self.metrics.feed_records(feed_of[one["values"]], "accepted", one["counts"])
        for one in pc.value_counts(rejected.column("feed")).to_pylist():
            self.metrics.feed_records(one["values"], "rejected", one["counts"])


def _refuse_incomplete(dataset: str, headers: Sequence[FrameHeader], parsed: Parsed) -> None:
    """Every acknowledged record becomes a row or a dead letter. If Spark was given fewer, because a file was missing or
    a process read another log, the batch fails before anything is committed: publishers rely on committed records being
    in the table, and the log removes them."""
    promised = sum(header.count for header in headers)
    found = parsed.rows.num_rows + parsed.rejected.num_rows
    if found != promised:
        raise ClusterFailure(
            f"the landing log's frames from {headers[0].position} to {headers[-1].end} promise {promised} records for "
            f"{dataset}, but {found} came out of them; nothing of them was committed"
        )


def _at_or_after(rows: pa.Table, positions: pa.ChunkedArray, first: int) -> pa.Table:
    """The rows whose frame lies at or after `first`: earlier ones are in the table already."""
    if not len(positions) or pc.min(positions).as_py() >= first:
        return rows
    return rows.filter(pc.greater_equal(positions, first))
