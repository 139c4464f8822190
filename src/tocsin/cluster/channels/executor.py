"""Running channels: one executor for both kinds.

A run takes a window, the commits `(bound, now]` of each dataset that the channel watches, joins it with all
subscriptions in one Spark job, and commits results and bounds together. A repetitive channel runs when it is due, a
continuous one in the micro-batch that brought new rows. Both find their window in the same way, so a crash, an overrun
or a late start needs no special handling: the next window is larger. An empty window has no run. A channel without
`is_new` watches all its datasets: as long as none changes, its result is the same, and nobody is sent it again.

A channel in trouble slows no other. A channel that fails is run over smaller windows, and in the end in parts, in a
thread of its own (`recovery`). The caller does not wait for a channel that takes long; it catches up by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import SparkSession

from tocsin.cluster.channels.compiler.compile import CompiledChannel
from tocsin.cluster.channels.core.splitting import SplittingFailed, Window
from tocsin.cluster.channels.costs import ChannelCosts
from tocsin.cluster.channels.exit_checks import ExitChecks
from tocsin.cluster.channels.merging import SubscriptionMerging
from tocsin.cluster.channels.recovery import CommitRecovery
from tocsin.cluster.channels.runs import ChannelRuns, RunCancelled, RunFailed, RunLimits, RunTooLarge
from tocsin.cluster.channels.set_aside import rows_set_aside
from tocsin.cluster.channels.snapshots import Snapshots
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.datasets.views import DatasetViews
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.exits import Exits
from tocsin.cluster.results.store import Committed, ResultStore, removals_of
from tocsin.errors import Unavailable
from tocsin.model.catalogue import Channel, ChannelKind
from tocsin.runtime.clock import Clock

log = structlog.get_logger(__name__)

__all__ = ["ChannelExecutor", "ChannelState", "RunLimits", "Window"]

#: How long ingestion, or a statement, waits for runs before it goes on without them.
PATIENCE_S = 5.0
#: How often, a second apart, a run is cancelled that another statement waits for.
_CANCEL_ATTEMPTS = 20
#: Channels that recover at the same time; others wait, because healthy channels need the cores.
_RECOVERIES = 2
#: After trouble that the channel did not cause, such as a full disk.
_RETRY_S = 10.0


@dataclass(frozen=True, slots=True)
class _Output:
    state: ChannelState
    window: Window
    rows: pa.Table
    seconds: float
    exits: Exits | None


@dataclass(eq=False)
class ChannelExecutor:
    """Calls `on_failed` for a subscription that can't be run, `on_given_up` for a channel; both with the reason.
    `living` tells which ids are of subscriptions of a channel that have not ended."""

    spark: SparkSession
    store: DatasetStore
    results: ResultStore
    clock: Clock
    metrics: Metrics
    scratch: Path
    concurrency: int
    limits: RunLimits
    on_failed: Callable[[ChannelState, int, str], None]
    on_given_up: Callable[[ChannelState, str], None]
    living: Callable[[str, npt.NDArray[np.int64]], npt.NDArray[np.int64]]
    registry: SubscriptionRegistry
    #: Held while subscriptions change, and for moments only.
    subscription_lock: AbstractContextManager[object]
    snapshot_max_rows: int

    def __post_init__(self) -> None:
        self.views = DatasetViews(self.spark, self.store, self.scratch)
        self.costs = ChannelCosts(self.clock, self.metrics)
        self._runs = ChannelRuns(self.spark, self.store, self.views, self.limits, self.costs)
        self._exits = ExitChecks(self._runs, self.store, self.results, self.living)
        self._recovery = CommitRecovery(
            self._runs,
            self.store,
            self.results,
            self.clock,
            self.metrics,
            fail=self._fail_subscription,
            commit_part=self._commit_part,
            commit_rest=self._commit_rest,
        )
        self._snapshots = Snapshots(
            self.registry,
            self.subscription_lock,
            self.results,
            self.snapshot_max_rows,
            run=self._runs.run_snapshot,
            set_aside=partial(rows_set_aside, self.store),
            commit=self._commit_snapshots,
            now_s=self.clock.monotonic_s,
            patience_s=2 * self.limits.timeout_s,
        )
        #: Channels at work, by lower-case name.
        self.states: Mapping[str, ChannelState] = {}
        #: Held while the states change.
        self._lock = threading.Lock()
        self._is_closing = False
        self._pool = ThreadPoolExecutor(max_workers=self.concurrency, thread_name_prefix="channel")
        self._recoveries = ThreadPoolExecutor(max_workers=_RECOVERIES, thread_name_prefix="recovery")
        #: Serves snapshots, which may take long, beside the runs of other channels.
        self._serving = ThreadPoolExecutor(max_workers=self.concurrency, thread_name_prefix="snapshots")
        #: Runs channels again for which a run was requested while they ran.
        self._again = ThreadPoolExecutor(max_workers=1, thread_name_prefix="again")
        self._merging = SubscriptionMerging(
            self.spark, self.clock, lambda: list(self.states.values()), self._before_the_next_run
        )

    def add(self, channel: Channel, compiled: CompiledChannel) -> ChannelState:
        """Put a channel to work; a new one begins at the current commits of its datasets."""
        beginning = self._beginning(channel, compiled)
        bounds = {key: at for key, at in beginning.items() if self.results.bound(*key) is None}
        if bounds:
            self.results.set_bounds(bounds)
        subscriptions = ChannelSubscriptions(self.spark, channel, self.scratch, compiled.radius_parameters)
        state = ChannelState(channel, compiled, subscriptions)
        self.set_paused(state, False)
        with self._lock:
            self.states = {**self.states, channel.name.lower(): state}
        return state

    def _beginning(self, channel: Channel, compiled: CompiledChannel) -> dict[tuple[str, str], int]:
        """The bounds of a channel that begins now."""
        bounds = {(channel.name, name): self.store[name].sequence for name in compiled.windows}
        if compiled.exits is not None:
            bounds |= {(channel.name, removals_of(name)): self.store[name].rows.removals for name in compiled.datasets}
        return bounds

    def set_paused(self, state: ChannelState, is_paused: bool, reason: str = "") -> None:
        """From now on no run of the channel begins, or they begin again. A run under way ends as usual."""
        state.is_resumed = state.is_resumed or (not is_paused and bool(state.pause_reason))
        state.is_paused = is_paused
        state.pause_reason = reason
        # The person who resumes it has looked at the failures, so counting begins anew.
        state.set_aside_in_a_row = 0
        if not is_paused:
            self.serve_snapshots(state)
        self.metrics.paused.labels(state.channel.name).set(is_paused)

    def await_idle(self, state: ChannelState) -> None:
        """Return when no run of a paused channel is under way. Cancels a run that takes too long; its window is run
        over again when the channel is resumed."""
        if state.lock.acquire(timeout=PATIENCE_S):
            self._release(state)
        else:
            self._runs.cancel(state)

    @contextmanager
    def between_runs(self, state: ChannelState) -> Iterator[None]:
        """No run of the channel is under way within this block, and none begins. A run that takes long is cancelled,
        and its window is run over again. Raises Unavailable if it does not end."""
        was_paused, reason = state.is_paused, state.pause_reason
        self.set_paused(state, True, reason)  # A recovery ends before its next part.
        is_idle = False
        try:
            is_idle = state.lock.acquire(timeout=PATIENCE_S) or self._is_cancelled(state)
            if not is_idle:
                name = state.channel.name
                raise Unavailable(f"a run of channel {name} does not end; nothing was changed", retry_after_s=10)
            yield
        finally:
            if not was_paused:
                self.set_paused(state, False)
                # Perhaps no new record comes that would make it run over the window of a run that was cancelled.
                state.is_due |= state.channel.kind is ChannelKind.CONTINUOUS
            if is_idle:
                self._release(state)

    def _is_cancelled(self, state: ChannelState) -> bool:
        """Cancel the run under way, and take its lock; False if that takes too long. It may be between two jobs, so it
        is cancelled again and again."""
        for _ in range(_CANCEL_ATTEMPTS):
            self._runs.cancel(state)
            if state.lock.acquire(timeout=1.0):
                return True
        return False

    @contextmanager
    def _before_the_next_run(self, state: ChannelState) -> Iterator[None]:
        """Keeps runs of the channel from beginning. Raises TimeoutError if one is under way for long."""
        if not state.lock.acquire(timeout=PATIENCE_S):
            raise TimeoutError("a run takes long")
        try:
            yield
        finally:
            self._release(state)

    def begin_anew(self, channel: Channel, compiled: CompiledChannel) -> ChannelState:
        """Put a newly created channel to work, with none of the bounds of a former channel of that name."""
        self.results.set_bounds(self._beginning(channel, compiled))
        return self.add(channel, compiled)

    def withdraw(self, name: str) -> ChannelState | None:
        """From now on the channel can't be found, no run of it begins and nothing is committed for it. None if there is
        no such channel."""
        state = self.states.get(name.lower())
        if state is not None:
            with state.committing, self._lock:
                self.states = {known: value for known, value in self.states.items() if known != name.lower()}
            state.is_stopping = True
        return state

    def release(self, state: ChannelState) -> None:
        """Release a withdrawn channel's resources. Cancels a run under way, which releases them when it ends."""
        self._runs.cancel(state)
        if state.lock.acquire(blocking=False):
            self._release(state)
        self.costs.forget(state)

    def close(self) -> None:
        """Cancel recoveries, and wait for everything else under way."""
        self._is_closing = True
        for state in self.states.values():
            state.is_stopping = True
        self._recoveries.shutdown(wait=False, cancel_futures=True)
        self._merging.stop()
        for state in self.states.values():
            if not state.lock.acquire(timeout=PATIENCE_S):
                self._runs.cancel(state)
        self._recoveries.shutdown()
        self._serving.shutdown(cancel_futures=True)
        self._again.shutdown(cancel_futures=True)
        self._pool.shutdown()

    def run_continuous(self, changed: Iterable[str]) -> None:
        """Run the continuous channels that watch one of the `changed` datasets; their results are one commit."""
        names = {name.lower() for name in changed}
        states = [
            state
            for state in self.states.values()
            if state.channel.kind is ChannelKind.CONTINUOUS
            and names.intersection(watched.lower() for watched in state.compiled.watched)
        ]
        self.run(states)

    def within_limits(self, compiled: CompiledChannel, sql: str) -> str:
        """The SQL that is run for a channel's query."""
        return self._runs.within_limits(compiled, sql)

    def run(self, states: list[ChannelState], *, is_patient: bool = False) -> None:
        """Run channels over everything they have not run over yet. Does not wait for channels in trouble nor, unless
        the caller is patient, for channels that take long; they go on by themselves and lose nothing."""
        due: dict[Future[_Output | None], ChannelState] = {}
        for state in states:
            state.is_due = True
            if not state.lock.acquire(blocking=False):
                continue  # The thread that runs it sees that it is due.
            try:
                window = self._take_window(state)
            except Exception as exc:  # noqa: BLE001 - whatever it is, the others must run
                self._note_trouble(state, exc)
                window = None
            if window is None:
                self._release(state)
            else:
                due[self._pool.submit(self._run, state, window)] = state
        done, late = wait(due, timeout=None if is_patient else PATIENCE_S)
        for future in late:
            log.info("a run takes long; going on without it", channel=due[future].channel.name)
            future.add_done_callback(lambda ended, state=due[future]: self._end([(state, ended)]))  # type: ignore[misc]
        self._end([(due[future], future) for future in due if future in done])
        self._merging.wake()

    def serve_snapshots(self, state: ChannelState) -> None:
        """Subscriptions wait for a snapshot: serve them soon, between two runs. Does not wait for it."""
        # A channel that is just being put to work must not be taken for one that was dropped.
        if self._is_at_work(state) and not state.is_snapshot_due:
            state.is_snapshot_due = True
            if not state.lock.locked():  # Else whoever releases it sees to it.
                with suppress(RuntimeError):  # The cluster is stopping just now.
                    self._serving.submit(self._serve_snapshots, state)

    def _serve_snapshots(self, state: ChannelState) -> None:
        if not state.lock.acquire(blocking=False):
            return
        try:
            state.is_snapshot_due = False
            may_run = self._is_at_work(state) and not state.is_paused and not self._is_closing
            # A commit that is begun comes first; the snapshot follows when it is done.
            if may_run and self._begun_in_parts(state, self.window(state)) is None:
                state.is_snapshot_due = self._snapshots.serve(state) or state.is_snapshot_due
        except Exception as exc:  # noqa: BLE001 - whatever it is, those who wait are served later
            self._note_trouble(state, exc, "snapshots failed; they will be tried again")
        finally:
            self._release(state, is_window_next=True)

    def _commit_snapshots(self, state: ChannelState, outputs: Sequence[pa.Table], through: int) -> Committed:
        with state.committing:
            if not self._is_at_work(state):
                raise RunCancelled
            name, now_us = state.channel.name, self.clock.now_us()
            done = self.results.commit_snapshots(name, outputs, through, now_us, _within_us([state.channel]))
        for one in outputs[1:-1]:  # All but beginnings and ends.
            self.costs.results(state, one)
        return done

    def window(self, state: ChannelState) -> Window:
        """The commits that the channel has not run over yet."""
        after, through = {}, {}
        for name in state.compiled.windows:
            through[name] = self.store[name].sequence
            bound = self.results.bound(state.channel.name, name)
            after[name] = through[name] if bound is None else bound
        window = Window(after, through, self._exits.removed(state))
        self.metrics.window_lag.labels(state.channel.name).set(window.lag_commits)
        return window

    def _take_window(self, state: ChannelState) -> Window | None:
        """The window to run over now; the caller holds the lock."""
        state.is_due = False
        # A channel that was dropped while it waited must not move the bounds of its successor.
        if not self._is_at_work(state):
            return None
        # For paused channels too: the window tells how far they are behind.
        window = self.window(state)
        if window.empty or state.is_paused or self._is_closing:
            return None
        return self._begun_in_parts(state, window) or window

    def _begun_in_parts(self, state: ChannelState, window: Window) -> Window | None:
        """The commit of which some subscriptions have their results already; None if there is none. Only a recovery can
        finish it, in parts: a run over the whole window would give those subscriptions their results again."""
        for name in window.changed:
            begun = window.first_commit(name)
            if self.results.part_done(state.channel.name, name, begun.through[name]):
                return begun
        return None

    def _is_at_work(self, state: ChannelState) -> bool:
        return self.states.get(state.channel.name.lower()) is state

    def _release(self, state: ChannelState, *, is_window_next: bool = False) -> None:
        """Release the lock. If a run or snapshots were requested meanwhile, they follow; if both, they take turns."""
        if not self._is_at_work(state):
            state.subscriptions.close()
        state.lock.release()
        if self._is_at_work(state) and not self._is_closing:
            with suppress(RuntimeError):  # The cluster is stopping just now.
                if state.is_snapshot_due and not (is_window_next and state.is_due):
                    self._serving.submit(self._serve_snapshots, state)
                elif state.is_due:
                    self._again.submit(self.run, [state])

    def _run(self, state: ChannelState, window: Window) -> _Output | None:
        """A run over a whole window; None if the window must be smaller."""
        if self._begun_in_parts(state, window) is not None:
            return None
        begin_s = self.clock.monotonic_s()
        try:
            rows, exits = self._exits.of_run(state, window, self._runs.run(state, window))
        except (RunFailed, RunTooLarge) as exc:
            self._note_failure(state, exc, self.clock.monotonic_s() - begin_s)
            return None
        return _Output(state, window, rows, self.clock.monotonic_s() - begin_s, exits)

    def _note_failure(self, state: ChannelState, exc: Exception, seconds: float) -> None:
        state.last_error = str(exc)[:2000] or type(exc).__name__
        state.last_run_s = seconds
        self.metrics.run(state.channel.name, "failed", seconds)
        log.warning("a channel run failed; trying smaller parts", channel=state.channel.name, reason=state.last_error)

    def _end(self, ended: list[tuple[ChannelState, Future[_Output | None]]]) -> None:
        """Commit the results of successful runs, recover the others, and release the locks once that is done."""
        outputs: list[_Output] = []
        for state, future in ended:
            if (exc := future.exception()) is not None:
                self._note_trouble(state, exc)
            elif (output := future.result()) is not None:
                outputs.append(output)
        try:
            self._commit(outputs)
        except Exception as exc:  # noqa: BLE001 - whatever it is, ingestion must go on
            for output in outputs:
                self._note_trouble(output.state, exc)
        else:
            for output in outputs:
                output.state.is_resumed = False
        for state, future in ended:
            if future.exception() is None and future.result() is None and not self._is_closing:
                self._recoveries.submit(self._recover, state)
            else:
                self._release(state)

    def _note_trouble(
        self, state: ChannelState, exc: BaseException, what: str = "channel run failed; its window will be tried again"
    ) -> None:
        """Neither records nor the channel are to blame: the next run, of this window or a larger one, may succeed."""
        if isinstance(exc, RunCancelled):
            return
        state.last_error = f"{type(exc).__name__}: {exc}"[:2000]
        self.metrics.run(state.channel.name, "failed", 0.0)
        log.error(what, channel=state.channel.name, exc_info=exc)
        self._retry_later(state)

    def _retry_later(self, state: ChannelState) -> None:
        """Perhaps no new record comes that would make the channel run."""
        timer = threading.Timer(_RETRY_S, self._retry, [state])
        timer.daemon = True
        timer.start()

    def _retry(self, state: ChannelState) -> None:
        if self._is_at_work(state) and not self._is_closing:
            self.run([state])
            self.serve_snapshots(state)

    def _recover(self, state: ChannelState) -> None:
        """Run a channel in smaller parts over a window that failed as a whole, and then over everything that has come
        meanwhile. The caller has taken the lock; this method releases it."""
        try:
            window, has_failed = self._take_window(state), True
            while window is not None:
                if not has_failed and (output := self._run(state, window)) is not None:
                    self._commit([output])
                    window = self._take_window(state)
                elif (half := window.first_half()) is not None:
                    window, has_failed = half, False
                else:
                    self._recovery.run(state, window)
                    window, has_failed = self._take_window(state), False
            state.is_resumed = state.is_resumed and state.is_paused
            state.is_snapshot_due = True  # It may have had to wait for a commit that was begun in parts.
        except SplittingFailed as exc:
            state.last_error = str(exc)[:2000]
            log.error("a channel can't be run", channel=state.channel.name, reason=state.last_error)
            if exc.is_channel:
                self._retry_later(state)
            else:
                self.on_given_up(state, state.last_error)
        except Exception as exc:  # noqa: BLE001 - whatever it is, this channel alone is the worse for it
            self._note_trouble(state, exc)
        finally:
            self._release(state)

    def _fail_subscription(self, state: ChannelState, subscription: int, reason: str) -> None:
        self.on_failed(state, subscription, reason)
        state.failed.add(subscription)
        state.spoiling.add(subscription)
        state.subscriptions.remove([subscription])

    def _commit_rest(self, state: ChannelState, window: Window, rows: pa.Table) -> None:
        """The results of a commit that was run over in parts, of the subscriptions without theirs so far."""
        (dataset,) = window.changed
        done = self.results.part_done(state.channel.name, dataset, window.through[dataset])
        rows, exits = self._exits.of_part(state, rows, done, None)
        # Parts before this one may have been checked before rows were removed.
        self._commit([_Output(state, replace(window, removed={}), rows, state.last_run_s, exits)])

    def _commit_part(self, state: ChannelState, rows: pa.Table, part: tuple[str, int, int]) -> None:
        dataset, commit, last = part
        done = self.results.part_done(state.channel.name, dataset, commit)
        rows, exits = self._exits.of_part(state, rows, done, last)
        with state.committing:
            if not self._is_at_work(state):
                raise RunCancelled
            name = state.channel.name
            rows = self._snapshots.without_newcomers(state, rows)
            found = {} if exits is None else {name: exits}
            within_us = _within_us([state.channel])
            committed = self.results.commit_part(name, rows, part, self.clock.now_us(), within_us, found)
        self._count(state, rows, committed)

    def _count(self, state: ChannelState, rows: pa.Table, done: Committed) -> int:
        """How many of a run's rows are results."""
        results = done.rows[state.channel.name]
        self.costs.results(state, results)
        exits = pc.sum(pc.invert(results.column("held"))).as_py() or 0 if "held" in results.column_names else 0
        known = rows.num_rows - (results.num_rows - exits)
        state.known_rows += known
        self.metrics.known_rows.labels(state.channel.name).inc(known)
        return int(results.num_rows)

    def _commit(self, outputs: list[_Output]) -> None:
        """Make outputs durable, all in one commit."""
        with ExitStack() as held:
            for output in sorted(outputs, key=lambda one: one.state.channel.name):
                held.enter_context(output.state.committing)
            outputs = [
                replace(output, rows=self._snapshots.without_newcomers(output.state, output.rows))
                for output in outputs
                if self._is_at_work(output.state)
            ]
            if not outputs:
                return
            bounds = {
                (output.state.channel.name, name): through
                for output in outputs
                for name, through in output.window.through.items()
            } | {
                (output.state.channel.name, removals_of(name)): number
                for output in outputs
                # If some results could not be checked, all are due again.
                for name, number in (output.window.removed if output.state.unchecked is None else {}).items()
            }
            exits = {output.state.channel.name: output.exits for output in outputs if output.exits is not None}
            rows = [(output.state.channel.name, output.rows) for output in outputs]
            with self.metrics.timed("tocsin_results_commit_seconds"):
                within_us = _within_us(output.state.channel for output in outputs)
                done = self.results.commit(rows, bounds, self.clock.now_us(), within_us=within_us, exits=exits)
        for output in outputs:
            state = output.state
            state.runs += 1
            state.last_run_s = output.seconds
            state.last_results = self._count(state, output.rows, done)
            state.last_error = ""
            state.set_aside_in_a_row = 0 if output.rows.num_rows else state.set_aside_in_a_row
            self.metrics.run(state.channel.name, "done", output.seconds)
            self.metrics.window_lag.labels(state.channel.name).set(0)


def _within_us(channels: Iterable[Channel]) -> dict[str, int]:
    """WITHIN of the channels that have it, by name."""
    limits = {one.name: one.once.within_s for one in channels if one.once is not None}
    return {name: int(within_s * 1e6) for name, within_s in limits.items() if within_s is not None}
