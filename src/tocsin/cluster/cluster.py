"""The cluster: all its parts, wired together, started and stopped in order.

`open` takes milliseconds and is enough to accept records durably. `start` brings Spark up, finds out how far each table
and channel had come, and continues from there. There is no separate recovery procedure.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import structlog
from pyspark.sql import SparkSession

from tocsin.cluster.channels.compiler.compile import CompiledChannel, compile_channel
from tocsin.cluster.channels.executor import ChannelExecutor, ChannelState, RunLimits
from tocsin.cluster.channels.repetitive import RepetitiveRuns
from tocsin.cluster.channels.spark_verdict import explain
from tocsin.cluster.database import check_folder, open_catalogue
from tocsin.cluster.datasets.catalogue import Catalogue
from tocsin.cluster.datasets.grants import Grants, refusal
from tocsin.cluster.datasets.retention import CommitTimes, RetentionClock
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.engine import run_max_bytes, start_spark
from tocsin.cluster.feeds.folder import FolderFeed
from tocsin.cluster.feeds.ingestion import Ingestion
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.cluster.maintenance import Maintenance
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.backend_subscriptions import Ended, Subscribed, SubscriptionRegistry
from tocsin.cluster.results.incarnations import Incarnations
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore
from tocsin.cluster.scratch import fresh_scratch
from tocsin.errors import NotFound, NotGranted, TocsinError
from tocsin.model.catalogue import Channel, ChannelKind, Feed, FeedSource, ParameterValue
from tocsin.model.grants import Action, Grant
from tocsin.runtime.clock import Clock, SystemClock
from tocsin.runtime.files import make_private
from tocsin.runtime.free_pages import erase_free_pages
from tocsin.settings import ClusterSettings

log = structlog.get_logger(__name__)


class ClusterState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    FAILED = "failed"
    STOPPED = "stopped"


class Cluster:
    """One data cluster. Its HTTP API is `server.py`; tests and benchmarks may drive it directly."""

    def __init__(self, settings: ClusterSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        self.state = ClusterState.STARTING
        self.failure = ""
        data_dir = settings.data_dir
        make_private(data_dir)
        (data_dir / "imports").mkdir(exist_ok=True)
        self.intake = FeedIntake.open(settings)
        self._database = open_catalogue(settings.database_url or data_dir / "catalogue.sqlite", self._doubt)
        if settings.database_url:
            check_folder(self._database, data_dir)
        self.catalogue = Catalogue(self._database)
        now_us = self.clock.now_us()
        self.registry = SubscriptionRegistry(self._database, now_us)
        self.incarnations = Incarnations(self._database, self.clock)
        self.grants = Grants(self._database)
        self.store = DatasetStore(data_dir / "datasets", recent_max_bytes=settings.recent_rows_max_bytes)
        self.results = ResultStore(
            data_dir / "results",
            Removals(self._database),
            Numbering(self._database, now_us),
            recent_max_bytes=settings.recent_results_max_bytes,
            sync_datasets=self.store.sync,
            most_keys=settings.result_keys_max,
        )
        for dataset in self.catalogue.datasets.values():
            self.store.open(dataset)
        self._scratch = fresh_scratch(data_dir, settings.scratch_dir)
        self._folder_feeds: dict[str, FolderFeed] = {}
        #: Held while a statement changes what exists: such statements run one at a time.
        self.statement_lock = threading.RLock()
        #: Held while subscriptions change, and for moments only: subscribing never waits for Spark. Code that needs
        #: both locks takes the statements' lock first.
        self.subscription_lock = threading.RLock()

    spark: SparkSession
    executor: ChannelExecutor
    ingestion: Ingestion
    repetitive: RepetitiveRuns
    maintenance: Maintenance

    @property
    def import_folders(self) -> tuple[Path, ...]:
        return (self.settings.data_dir / "imports", *self.settings.import_folders)

    def start(self, spark: SparkSession | None = None) -> None:
        """Bring Spark up (or use the given session) and continue where the last process stopped."""
        settings = self.settings
        self._owns_spark = spark is None
        self.spark = spark or start_spark(settings, self._scratch)
        self.executor = ChannelExecutor(
            self.spark,
            self.store,
            self.results,
            self.clock,
            self.metrics,
            self._scratch,
            concurrency=settings.channel_concurrency,
            limits=RunLimits(settings.channel_run_timeout_s, settings.result_max_bytes, run_max_bytes(settings)),
            on_failed=self._fail_subscription,
            on_given_up=self._pause_for,
            living=self.registry.living_among,
            registry=self.registry,
            subscription_lock=self.subscription_lock,
            snapshot_max_rows=settings.snapshot_max_rows,
        )
        self.repetitive = RepetitiveRuns(
            self.executor, self.clock, self.metrics, concurrency=settings.channel_concurrency
        )
        self.ingestion = Ingestion(
            self.spark,
            self.intake.landing,
            self.store,
            settings,
            self.clock,
            self.metrics,
            on_ingested=self.intake.ingested,
            on_commit=self.executor.run_continuous,
            scratch=self._scratch,
        )
        self.maintenance = Maintenance(
            settings,
            self.clock,
            self.metrics,
            self.store,
            self.results,
            self.intake,
            CommitTimes(self._database),
            RetentionClock(self._database, self.clock.monotonic_s()),
            ingested_position=lambda: self.ingestion.position,
            run_over=self.run_over,
            once=self.catalogue.once,
            ids_of=self.registry.ids_of,
            own_retentions=self.catalogue.own_retentions,
        )
        for name in self.registry.counts():
            if name.lower() not in self.catalogue.channels:
                self.end_subscriptions(name)  # The last process ended while it dropped the channel.
        self.tell_ending()  # The last process may have ended before it did this.
        for channel in self.catalogue.channels.values():
            self._take_up(channel)
        if self.catalogue.once():
            self.results.load_keys()
        else:
            self.results.keys.leave_unused(self.results.table.durable)
        # Commits that had not been run over when the last process ended.
        self.executor.run_continuous(self.catalogue.datasets)
        for state in self.executor.states.values():
            self.executor.serve_snapshots(state)
        self.ingestion.start()
        self.repetitive.start()
        self.maintenance.start()
        for feed in self.catalogue.feeds.values():
            self.watch(feed)
        self.state = ClusterState.READY

    def stop(self) -> None:
        """Finish the work under way and release everything. A kill loses nothing either."""
        self.state = ClusterState.STOPPED
        for watched in self._folder_feeds.values():
            watched.stop()
        if hasattr(self, "maintenance"):
            self.maintenance.stop()
            self.ingestion.stop()
            self.repetitive.stop()
            self.executor.close()
            self.results.flush()
            self.maintenance.release_log()
            if self._owns_spark:
                self.spark.stop()
        self.intake.close()
        self._database.dispose()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _doubt(self) -> None:
        """Memory and the catalogue may differ from now on; only the next start knows what is stored."""
        self.failure = "the catalogue's database did not say whether a change is stored"

    def check_alive(self) -> str | None:
        """Why the cluster can't go on, or None. The caller then ends the process: the next start is the recovery."""
        if self.state is not ClusterState.READY:
            return None
        failures = (table.failure for table in (*self.store.tables(), *self.results.tables) if table.failure)
        return self.ingestion.keep_running() or next(failures, None)

    def users_of(self, dataset: str) -> list[str]:
        """The channels that read a dataset."""
        wanted = dataset.lower()
        return [
            state.channel.name
            for state in self.executor.states.values()
            if wanted in {name.lower() for name in state.compiled.datasets}
        ]

    def run_over(self, dataset: str) -> int:
        """The commit of a dataset up to which every channel that watches it has run."""
        sequence = self.store[dataset].sequence
        windows = [self.executor.window(state) for state in self.executor.states.values()]
        return min(
            (window.after[name] for window in windows for name in window.after if name.lower() == dataset.lower()),
            default=sequence,
        )

    def find_result_columns(self, name: str) -> None:
        """Ask Spark for the columns of a channel's results, unless they are known. A channel that Spark can't run any
        more keeps what is known of it: it fails when it runs, and says so."""
        state = self.executor.states[name.lower()]
        known = [one.name for one in self.catalogue.result_columns(name)]
        if known == [one.name for one in state.compiled.columns]:
            return
        try:
            verdict = explain(self.spark, self.executor.views, self.store, state.channel, state.compiled)
        except TocsinError as exc:
            log.warning("the columns of a channel's results are not known", channel=name, reason=exc.message)
        else:
            self.catalogue.set_result_columns(name, verdict.columns)

    def put_to_work(self, channel: Channel, compiled: CompiledChannel) -> None:
        """A channel was created: from now on it runs."""
        self.executor.begin_anew(channel, compiled)
        self.put_on_schedule(channel)

    def retire(self, channel: Channel) -> int:
        """A channel was dropped: notify the brokers that hold its subscriptions; returns how many ended."""
        self.repetitive.remove(channel.name)
        with self.subscription_lock:
            state = self.executor.withdraw(channel.name)
        # Outside the lock: subscribing to other channels should not have to wait for a long run.
        if state is not None:
            self.executor.release(state)
        return self.end_subscriptions(channel.name)

    def end_subscriptions(self, channel: str) -> int:
        """End the subscriptions of a channel that no longer exists; returns how many there were."""
        count = 0
        for subscriptions in self.registry.of_channel(channel):
            ids = [one.id for one in subscriptions]
            count += len(ids)
            self.results.tell_ended(channel, ids, f"channel {channel} was dropped", self.clock.now_us())
        # Last: if the process ends before this, the next one repeats it, and nobody is notified twice.
        self.registry.end_channel(channel)
        return count

    def tell_ending(self) -> None:
        """Notify the holders of subscriptions that have ended because their channel was replaced."""
        while (found := self.registry.next_ending()) is not None:
            channel, reason, ids = found
            self.results.tell_ended(channel, ids, reason, self.clock.now_us())
            # Last: if the process ends before this, the next one repeats it, and nobody is notified twice.
            self.registry.notified(ids)

    def withdraw_subscriptions(self, name: str) -> Ended:
        """Stop running all subscriptions that have this text as a value."""
        with self.subscription_lock:
            named = self.registry.naming(name)
            for channel, ids in named.items():
                if (state := self.executor.states.get(channel.lower())) is not None:
                    _stop_serving(state, ids)
            return named

    def tell_withdrawn(self, named: Ended) -> None:
        """Notify the brokers that hold these subscriptions that they have ended, and forget their values."""
        reason = "the person whom this subscription names was removed"
        for channel, ids in named.items():
            self._end_withdrawn(channel, ids, reason, NotFound.code)

    def _end_withdrawn(self, channel: str, ids: Sequence[int], reason: str, code: str) -> None:
        """End subscriptions that are not run any more, for good, and notify the brokers that hold them. If the process
        ends in the middle, the next one repeats it, and nobody is notified twice."""
        self.results.tell_ended(channel, ids, reason, self.clock.now_us(), code)
        self.registry.end(ids)
        if (state := self.executor.states.get(channel.lower())) is not None:
            state.forget(ids)

    def erase_free_pages(self) -> None:
        """Erase deleted rows from the files of the catalogue's database."""
        erase_free_pages(self._database)

    def pause(self, name: str) -> bool:
        """Stop running a channel, also after a restart; False if it was paused already.

        Returns when no run of it is under way, or when a long one was cancelled. Its bound stays where it is, so its
        window grows, and retention keeps the rows in it."""
        with self.statement_lock:
            is_changed = self.catalogue.pause_channel(name)
            state = self.executor.states[name.lower()]
            self.executor.set_paused(state, True)
        # Outside the statements' lock: nobody else should have to wait for a long run.
        self.executor.await_idle(state)
        return is_changed

    def _pause_for(self, state: ChannelState, reason: str) -> None:
        """Pause a channel that can't be run, until a person has looked at the reason and resumes it."""
        with self.statement_lock:
            if self.executor.states.get(state.channel.name.lower()) is state:
                self.catalogue.pause_channel(state.channel.name, reason)
                self.executor.set_paused(state, True, self.catalogue.pause_reason(state.channel.name))

    def resume(self, name: str) -> bool:
        """Run a channel again, over everything that came meanwhile; False if it was not paused.

        A repetitive channel runs when it is due next, a continuous one soon: perhaps no new record comes to wake it."""
        with self.statement_lock:
            is_changed = self.catalogue.resume_channel(name)
            state = self.executor.states[name.lower()]
            self.executor.set_paused(state, False)
        if is_changed and state.channel.kind is ChannelKind.CONTINUOUS:
            self.repetitive.run_once(state.channel.name)
        return is_changed

    def alter(self, channel: Channel) -> None:
        """A channel has another period or retention from now on. Its window, its subscriptions and a run under way stay
        as they are. One transaction stores it: a process that dies after that leaves the rest to the next one."""
        self.catalogue.alter_channel(channel)
        self.executor.states[channel.name.lower()].channel = channel
        self.put_on_schedule(channel)

    def subscribe(
        self, broker: str, channel: str, wanted: Sequence[tuple[ParameterValue, ...]], permission: str = ""
    ) -> Subscribed:
        """Hold backend subscriptions for a broker; the channel's next run serves them. Values must be checked."""
        with self.subscription_lock:
            state = self.channel_at_work(channel)
            has_snapshot = state.channel.snapshot
            done = self.registry.subscribe(broker, state.channel.name, wanted, permission, snapshot=has_snapshot)
            state.subscriptions.add(done.created)
            if has_snapshot and done.created:
                self.executor.serve_snapshots(state)
            return done

    def request_snapshots(self, broker: str, ids: Sequence[int]) -> int:
        """Give those of these subscriptions that the broker holds a snapshot soon; returns how many these are. They get
        one that is committed after the call, which may be one that they wait for already."""
        with self.subscription_lock:
            held = self.registry.held_among(broker, list(dict.fromkeys(ids)))
            found = {
                one.id: state
                for one in self.registry.find(held).values()
                if (state := self.executor.states.get(one.channel.lower())) is not None
            }
            self.registry.request_snapshots(
                {one: self.results.snapshots_served(state.channel.name) for one, state in found.items()}
            )
            for state in {state.channel.name: state for state in found.values()}.values():
                self.executor.serve_snapshots(state)
            return len(found)

    def revoke(self, grant: Grant) -> int | None:
        """Revoke a grant, and end the subscriptions of classes that have no grant any more. Returns how many ended, or
        None if it was not granted. The brokers that hold them are notified."""
        with self.subscription_lock:
            if not self.grants.revoke(grant):
                return None
            if grant.action is not Action.SUBSCRIBE:
                return 0
            state = self.channel_at_work(grant.on)
        # A run under way may have results for subscriptions that must get none any more.
        was_paused, reason = state.is_paused, state.pause_reason
        self.executor.set_paused(state, True, reason)
        try:
            self.executor.await_idle(state)
            return self._end_not_granted(state)
        finally:
            if not was_paused:
                self.executor.set_paused(state, False)
                if state.channel.kind is ChannelKind.CONTINUOUS:
                    self.repetitive.run_once(state.channel.name)

    def _end_not_granted(self, state: ChannelState) -> int:
        """End the subscriptions of classes that the channel is not granted to; returns how many."""
        name = state.channel.name
        if self.grants.is_open(name):
            return 0
        count = 0
        for chunk in self.registry.of_channel(name):
            by_class: dict[str, list[int]] = {}
            with self.subscription_lock:
                for one in chunk:
                    if one.id not in state.failed and not self.grants.may_subscribe(name, one.permission):
                        by_class.setdefault(one.permission, []).append(one.id)
                for ids in by_class.values():
                    _stop_serving(state, ids)
            for permission, ids in by_class.items():
                count += len(ids)
                self._end_withdrawn(name, ids, refusal(name, permission), NotGranted.code)
        return count

    def channel_at_work(self, name: str) -> ChannelState:
        """The channel stays at work as long as the caller holds `subscription_lock`."""
        state = self.executor.states.get(name.lower())
        if state is None:
            raise NotFound(f"no channel called {name}")
        return state

    def unsubscribe(self, broker: str, ids: Sequence[int]) -> int:
        """Release a broker's subscriptions; returns how many ended because no broker holds them any more."""
        with self.subscription_lock:
            return self._end(self.registry.unsubscribe(broker, ids))

    def forget_broker(self, broker: str) -> int:
        """Forget a broker and all its holds; returns how many subscriptions ended."""
        with self.subscription_lock:
            ended = self.registry.remove_broker(broker)
            self.incarnations.forget(broker)
            return self._end(ended)

    def _end(self, ended: Ended) -> int:
        for channel, ids in ended.items():
            if (state := self.executor.states.get(channel.lower())) is not None:
                _stop_serving(state, ids)
                state.forget(ids)
        return sum(map(len, ended.values()))

    def _fail_subscription(self, state: ChannelState, one: int, reason: str) -> None:
        """A subscription can't be run: note it, for good, and notify the brokers that hold it."""
        name = state.channel.name
        text = f"channel {name} can't be run with these values: {reason}"
        self.registry.fail(name, {one: text}, self.clock.now_us())
        self._tell_failed(name)

    def _tell_failed(self, channel: str) -> None:
        """Notify the holders of failed subscriptions, except those that have been notified already."""
        if failures := self.registry.failures(channel):
            self.results.tell_failed(channel, failures, self.clock.now_us())

    def watch(self, feed: Feed) -> None:
        """Begin to take files from a folder feed; does nothing for other feeds."""
        if feed.source is FeedSource.FOLDER:
            watched = FolderFeed(feed, self.intake.submit)
            watched.start()
            self._folder_feeds[feed.name.lower()] = watched

    def unwatch(self, feed: Feed) -> None:
        if (watched := self._folder_feeds.pop(feed.name.lower(), None)) is not None:
            watched.stop()

    def _take_up(self, channel: Channel) -> None:
        """Put a channel to work that an earlier process knew; a paused one stays paused."""
        state = self.executor.add(channel, compile_channel(channel, self.catalogue.datasets))
        self.executor.set_paused(
            state, self.catalogue.is_paused(channel.name), self.catalogue.pause_reason(channel.name)
        )
        state.last_error = state.pause_reason
        state.failed.update(self.registry.failures(channel.name))
        for subscriptions in self.registry.of_channel(channel.name):
            state.subscriptions.add([one for one in subscriptions if one.id not in state.failed])
        self.find_result_columns(channel.name)
        # The last process may have ended before it did these.
        self._end_not_granted(state)
        self._tell_failed(channel.name)
        self.put_on_schedule(channel)

    def put_on_schedule(self, channel: Channel) -> None:
        """Run a repetitive channel every period from now on. Other channels have no schedule."""
        if channel.kind is ChannelKind.REPETITIVE:
            assert channel.period_s is not None, "the parser gives every repetitive channel a period"
            self.repetitive.put(channel.name, channel.period_s)
        else:
            self.repetitive.remove(channel.name)


def _stop_serving(state: ChannelState, ids: Sequence[int]) -> None:
    """No run serves these any more. Brokers may release them before the registry knows that they have ended: nothing is
    left to be done for them then."""
    state.subscriptions.remove([one for one in ids if one not in state.failed])
    state.failed.update(ids)
