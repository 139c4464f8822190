"""The intake: the one way into the landing log, for every kind of feed.

It pushes back before memory or disk fill up, recognises repeats by their idempotency key, appends, and gives the
receipt once the records are on disk. The ingestion reports how far the tables have got; that drives the push-back and
resolves the futures of requests that wait until their records are in tables.

It looks into no record, and accepts none that it can't keep.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path

from tocsin.cluster.feeds.core.bodies import DecodedBody, spell_out
from tocsin.cluster.feeds.core.frames import prepare_frame
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.idempotency import IdempotencyIndex, hash_body
from tocsin.cluster.feeds.landing import LandingLog, Span
from tocsin.errors import ClusterFailure, NotFound, Overloaded, TocsinError
from tocsin.model.catalogue import Feed
from tocsin.runtime.clock import Clock, SystemClock
from tocsin.runtime.durable_folders import sync_way_to
from tocsin.settings import ClusterSettings

#: Weight of the newest sample in the drain rate: the last ten or so commits, some seconds' worth, count.
_RATE_WEIGHT = 0.2
#: How long publishers are told to wait: long enough to be worth it, short enough that ingestion always has work.
_RETRY_AFTER_S = (0.1, 30.0)
#: Assumed until the first commit: a cold Spark takes seconds over its first batch.
_RETRY_AFTER_UNKNOWN_S = 2.0
_FLUSH_EVERY_S = 1.0
_PURGE_EVERY_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class FeedIntake:
    """Accepts requests for every feed. Any thread may call any method, and only `submit` waits."""

    landing: LandingLog
    index: IdempotencyIndex
    max_pending_bytes: int
    clock: Clock

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._in_flight_bytes = 0
        #: The log position up to which records are in tables; at first, the landing log's mark.
        self.ingested_position = self.landing.read_mark()
        #: How fast the ingestion takes bytes while it has any; 0 before it has taken any.
        self._drain_bytes_per_s = 0.0
        #: When the ingestion last had a reason to work: its latest commit, or the end of an idle time.
        self._busy_since_s = self.clock.monotonic_s()
        self._waiting: dict[Future[None], int] = {}
        self._stopping = threading.Event()
        self._upkeep = threading.Thread(target=self._keep_up, name="feed-intake", daemon=True)

    @staticmethod
    def open(settings: ClusterSettings, clock: Clock | None = None) -> FeedIntake:
        """The intake of the cluster whose data is in `settings.data_dir`, with its upkeep running."""
        clock = clock or SystemClock()
        directory = Path(settings.data_dir) / "landing"
        landing = LandingLog.open(directory, settings.landing_segment_bytes)
        try:
            sync_way_to(directory)
            index = IdempotencyIndex.open(
                directory / "keys.sqlite",
                landing,
                retention_s=settings.idempotency_retention_s,
                now_ms=clock.now_us() // 1000,
            )
        except BaseException:
            landing.close()
            raise
        intake = FeedIntake(landing, index, max_pending_bytes=settings.feed_max_pending_bytes, clock=clock)
        intake._upkeep.start()
        return intake

    @property
    def pending_bytes(self) -> int:
        """Bytes accepted, or being written, that are not yet in tables."""
        return self.landing.end + self._in_flight_bytes - self.ingested_position

    def accept(self, feed: Feed, body: DecodedBody, key: str | None = None) -> Future[Receipt]:
        """Resolves to the receipt once the records are on disk; await it with `asyncio.wrap_future`.

        `key` takes precedence over the body's own. Raises `Overloaded` when too much is pending and `InvalidValue` when
        the key was used with another body; the future fails with `Overloaded` when the disk does.
        """
        key = key or body.key or ""
        accepted_at_ms = self.clock.now_us() // 1000
        body_hash = hash_body(body.ndjson) if key else b""
        frame = prepare_frame(
            feed=feed.name,
            dataset=feed.dataset,
            body=body.ndjson,
            count=body.count,
            accepted_at_ms=accepted_at_ms,
            key=key,
            body_hash=body_hash,
        )
        self._reserve(frame.size)
        try:
            if key and (repeat := self.index.claim(feed.name, key, body_hash, accepted_at_ms)):
                self._release_bytes(frame.size)
                return repeat
            try:
                written = self.landing.append(frame)
            except TocsinError as exc:
                if key:
                    self.index.abandon(feed.name, key, exc)
                raise
        except BaseException:
            self._release_bytes(frame.size)
            raise
        accepted: Future[Receipt] = Future()
        accepted.set_running_or_notify_cancel()

        def finish(done: Future[Span]) -> None:
            self._release_bytes(frame.size)
            if (failure := done.exception()) is not None:
                if key:
                    self.index.abandon(feed.name, key, failure)
                accepted.set_exception(failure)
                return
            receipt = Receipt(*done.result(), body.count)
            if key:
                self.index.settle(feed.name, key, receipt, accepted_at_ms)
            accepted.set_result(receipt)

        written.add_done_callback(finish)
        return accepted

    def begin(self, feed: Feed) -> None:
        """A feed is about to be created: keys that were used with a former feed of that name don't count for it."""
        self.index.forget(feed.name)

    def submit(self, feed: Feed, ndjson: bytes, count: int, key: str | None) -> Receipt:
        """Like `accept`, but waits for the receipt."""
        return self.accept(feed, DecodedBody(spell_out(ndjson), count, key)).result()

    def ingested(self, position: int, now_s: float | None = None) -> None:
        """The ingestion has committed everything below `position` to tables, at `now_s` of the monotonic clock."""
        now_s = self.clock.monotonic_s() if now_s is None else now_s
        with self._lock:
            drained, elapsed_s = position - self.ingested_position, now_s - self._busy_since_s
            if drained <= 0:
                return
            if elapsed_s > 0:
                rate = drained / elapsed_s
                self._drain_bytes_per_s += (_RATE_WEIGHT if self._drain_bytes_per_s else 1.0) * (
                    rate - self._drain_bytes_per_s
                )
            self.ingested_position = position
            self._busy_since_s = now_s
            reached = [future for future, end in self._waiting.items() if end <= position]
            for future in reached:
                del self._waiting[future]
        for future in reached:
            if future.set_running_or_notify_cancel():
                future.set_result(None)

    def wait_ingested(self, end: int) -> Future[None]:
        """Resolves once everything below `end` is in tables; may be cancelled."""
        future: Future[None] = Future()
        with self._lock:
            if end > self.ingested_position:
                self._waiting[future] = end
                future.add_done_callback(self._stop_waiting)
                return future
        future.set_result(None)
        return future

    def is_ingested(self, receipt: Receipt) -> bool:
        """Whether the receipt's records are in tables (or dead letters). `NotFound` if the log never issued it."""
        if receipt.end > self.landing.end:
            raise NotFound(f"no such receipt: {receipt}")
        return receipt.end <= self.ingested_position

    def release(self, position: int) -> None:
        """Releases everything below `position`, which must be in tables: marks it and removes whole segments."""
        keys_stored = self.index.flush()  # Before that, a crash would have to read the keys back from the log.
        self.landing.write_mark(position)
        self.landing.remove_before(min(position, keys_stored))

    def has_released(self, position: int) -> bool:
        """Whether no file holds any frame from below `position`, where a segment begins."""
        return self.landing.first_position >= position

    def forget_keys_with(self, text: str) -> None:
        """Forgets idempotency keys that hold `text`. Such a request, sent again, counts as new."""
        self.index.forget_keys_with(text)

    def close(self) -> None:
        """Finishes the writes under way and stops. Cancels the futures that still wait for ingestion."""
        self._stopping.set()
        if self._upkeep.is_alive():
            self._upkeep.join()
        self.landing.close()
        self.index.close()
        for future in list(self._waiting):
            future.cancel()

    def _reserve(self, size: int) -> None:
        with self._lock:
            pending = self.pending_bytes
            # If nothing is pending, even a request above the limit is accepted: it would never get in otherwise.
            if pending and pending + size > self.max_pending_bytes:
                raise Overloaded(
                    f"{pending} bytes wait for ingestion, and at most {self.max_pending_bytes} may",
                    retry_after_s=self._retry_after_s(pending + size - self.max_pending_bytes),
                )
            if not pending:
                self._busy_since_s = self.clock.monotonic_s()
            self._in_flight_bytes += size

    def _retry_after_s(self, excess_bytes: int) -> float:
        if not self._drain_bytes_per_s:
            return _RETRY_AFTER_UNKNOWN_S
        shortest, longest = _RETRY_AFTER_S
        return round(min(max(excess_bytes / self._drain_bytes_per_s, shortest), longest), 3)

    def _release_bytes(self, size: int) -> None:
        with self._lock:
            self._in_flight_bytes -= size

    def _stop_waiting(self, future: Future[None]) -> None:
        if future.cancelled():
            with self._lock:
                self._waiting.pop(future, None)

    def _keep_up(self) -> None:
        next_purge_s = 0.0
        while not self._stopping.wait(_FLUSH_EVERY_S):
            try:
                self.index.flush()
                if (now_s := self.clock.monotonic_s()) >= next_purge_s:
                    self.index.purge(self.clock.now_us() // 1000)
                    next_purge_s = now_s + _PURGE_EVERY_S
            except (ClusterFailure, sqlite3.Error) as exc:
                _log.warning("will try again: %s", exc)
