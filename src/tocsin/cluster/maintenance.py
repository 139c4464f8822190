"""Upkeep in the background: compaction, retention, and removing ingested records from the landing log."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import structlog

from tocsin.cluster.datasets.core.retention_time import oldest_kept_us
from tocsin.cluster.datasets.retention import CommitTimes, RetentionClock
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.remembered_keys import Kept
from tocsin.cluster.results.store import ResultStore
from tocsin.model.catalogue import DatasetKind, OncePer
from tocsin.runtime.clock import Clock
from tocsin.settings import ClusterSettings

log = structlog.get_logger(__name__)

_TICK_S = 1.0
#: How much of the landing log is read again after a crash: a few seconds' worth costs little either way.
_RELEASE_EVERY_S = 5.0
_TIDY_EVERY_S = 60.0
#: Result keys of ended subscriptions only take up memory and disk, and looking for them reads all keys.
_SWEEP_EVERY_S = 3600.0
_FIRST_SWEEP_S = 300.0


@dataclass(eq=False)
class Maintenance:
    """`run_over` gives the commit up to which every channel that watches a dataset has run, `once` the channels with
    ONCE PER, `ids_of` the subscriptions of a channel, and `own_retentions` the seconds for which channels keep their
    results, if they have a time of their own."""

    settings: ClusterSettings
    clock: Clock
    metrics: Metrics
    store: DatasetStore
    results: ResultStore
    intake: FeedIntake
    commit_times: CommitTimes
    retention_clock: RetentionClock
    ingested_position: Callable[[], int]
    run_over: Callable[[str], int]
    once: Callable[[], list[tuple[str, OncePer]]]
    ids_of: Callable[[str], npt.NDArray[np.int64]]
    own_retentions: Callable[[], Mapping[str, float]]

    def __post_init__(self) -> None:
        self._released = -1
        self._releasing = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, name="maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def release_log(self, *, again: bool = False) -> None:
        """Remove ingested records from the landing log, once the tables are certainly on disk. `again`: even if nothing
        has come since the last time."""
        with self._releasing:
            position = self.ingested_position()
            for table in self._tables():
                table.sync()
            if position == self._released and not again:
                return
            self.intake.release(position)
            self._released = position

    def _keep_up(self) -> None:
        next_release = next_tidy = 0.0
        next_sweep = self.clock.monotonic_s() + _FIRST_SWEEP_S
        while not self._stopping.wait(_TICK_S):
            now_s = self.clock.monotonic_s()
            self.metrics.pending.set(self.intake.pending_bytes)
            self._try(self._compact)
            if now_s >= next_release:
                next_release = now_s + _RELEASE_EVERY_S
                self._try(self.results.flush)
                self._try(self.release_log)
            if now_s >= next_tidy:
                next_tidy = now_s + _TIDY_EVERY_S
                self._try(self.retain)
                self._try(self._tidy)
            if now_s >= next_sweep:
                next_sweep = now_s + _SWEEP_EVERY_S
                self._try(self.sweep_keys)

    def _try(self, job: Callable[[], object]) -> None:
        """Upkeep that fails is logged and tried again at its next turn; it must never stop the cluster."""
        try:
            with self.metrics.timed(f"maintenance{job.__name__}"):
                job()
        except Exception as exc:
            log.warning("upkeep failed; trying again later", job=job.__name__, exc_info=exc)

    def erase_past(self) -> None:
        """Erase deleted and replaced rows from the files of all tables."""
        for table in self._tables():
            table.erase_past()

    def _tables(self) -> list[Table]:
        return [*self.store.tables(), *self.results.tables]

    def _compact(self) -> None:
        every = self.settings.compact_every_commits
        for stored in self.store:
            if stored.rows.needs_compaction(every):
                stored.compact()
            if stored.dead_letters.needs_compaction(every):
                stored.dead_letters.compact()
        for table in self.results.tables:
            if table.needs_compaction(every):
                table.compact()
        keys = self.results.keys
        keys.merge()
        self.metrics.result_keys.set(len(keys))
        self.metrics.result_keys_bytes.set(keys.size_bytes)

    def sweep_keys(self) -> None:
        """Forget result keys that ONCE PER needs no more."""
        now_us = self._now_us()

        def living() -> Iterator[Kept]:
            for name, once in self.once():
                oldest_us = None if once.within_s is None else now_us - int(once.within_s * 1e6)
                yield Kept(self.ids_of(name), oldest_us)

        self.results.keys.sweep(living)

    def _now_us(self) -> int:
        """The time for retention."""
        own = self.own_retentions().values()
        kept_s = max(self.settings.result_retention_s, self.settings.dataset_retention_s, *own)
        return self.retention_clock.now_us(self.clock.now_us(), self.clock.monotonic_s(), kept_s)

    def retain(self) -> None:
        """Remove what is past its retention: results and, if a retention is set, active rows and dead letters."""
        now_us = self._now_us()
        own = self.own_retentions()
        by_channel = {name: oldest_kept_us(now_us, retention_s) for name, retention_s in own.items()}
        oldest_us = now_us - int(self.settings.result_retention_s * 1e6)
        self.results.retain(oldest_us, self.settings.result_retention_bytes, by_channel)
        if not self.settings.dataset_retention_s:
            return
        oldest_us = now_us - int(self.settings.dataset_retention_s * 1e6)
        for stored in self.store:
            if stored.dataset.kind is DatasetKind.ACTIVE:
                self.commit_times.note(stored.rows.id, stored.sequence, now_us)
                old = self.commit_times.through(stored.rows.id, oldest_us)
                # Rows that a channel has not run over yet stay until it has.
                stored.retain(min(old, self.run_over(stored.dataset.name)), oldest_us)

    def _tidy(self) -> None:
        for table in self._tables():
            table.tidy()
