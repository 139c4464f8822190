"""Running channels: one executor for both kinds.

A run takes a window, the commits `(bound, now]` of each dataset that the channel watches, joins it with all
subscriptions in one Spark job, and commits results and bounds together. A repetitive channel runs when it is due, a
continuous one in the micro-batch that brought new rows; both find their window in the same way, so a crash, an
overrun or a late start are nothing special: the next window is larger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import assert_never

import pyarrow as pa
import structlog
from pyspark.sql import SparkSession

from tocsin.cluster.channels.compile import CompiledChannel, Relation, RelationRole
from tocsin.cluster.channels.merging import SubscriptionMerging
from tocsin.cluster.channels.radius_classes import radius_groups
from tocsin.cluster.channels.subscriptions import ChannelSubscriptions
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.datasets.views import MAX_INLINE_ROWS, DatasetViews
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.store import ResultStore
from tocsin.errors import TooLarge
from tocsin.model.catalogue import Channel, ChannelKind
from tocsin.model.position import MAX_ROWS_PER_COMMIT
from tocsin.runtime.clock import Clock

log = structlog.get_logger(__name__)

_EMPTY_OUTPUT = pa.table({"subscription": pa.array([], pa.int64()), "payload": pa.array([], pa.string())})


@dataclass(frozen=True, slots=True)
class Window:
    """Per watched dataset, the commits `(after, through]`."""

    after: Mapping[str, int]
    through: Mapping[str, int]

    @property
    def empty(self) -> bool:
        return self.after == self.through

    def first_half(self) -> Window | None:
        """The older half of the window, by commits; None if it is down to one."""
        half = {name: self.after[name] + (self.through[name] - self.after[name] + 1) // 2 for name in self.after}
        return None if half == self.through else Window(self.after, half)

    @property
    def lag_commits(self) -> int:
        return sum(self.through[name] - self.after[name] for name in self.after)


@dataclass(slots=True)
class ChannelState:
    """A channel at work."""

    channel: Channel
    compiled: CompiledChannel
    subscriptions: ChannelSubscriptions
    #: Runs of one channel never overlap: windows follow each other.
    lock: threading.Lock = field(default_factory=threading.Lock)
    #: A paused channel stays what it is but for running: its window grows until it is resumed.
    is_paused: bool = False
    runs: int = 0
    results: int = 0
    #: Runs that outlasted their period.
    overruns: int = 0
    last_run_s: float = 0.0
    last_results: int = 0
    last_error: str = ""


@dataclass(frozen=True, slots=True)
class _Output:
    state: ChannelState
    window: Window
    rows: pa.Table
    seconds: float


class ChannelExecutor:
    def __init__(
        self,
        spark: SparkSession,
        store: DatasetStore,
        results: ResultStore,
        clock: Clock,
        metrics: Metrics,
        scratch: Path,
        *,
        concurrency: int,
        on_results: Callable[[int], None],
    ) -> None:
        self._spark = spark
        self._store = store
        self._results = results
        self._clock = clock
        self._metrics = metrics
        self._scratch = scratch
        self._on_results = on_results
        self.views = DatasetViews(spark, store, scratch)
        self._states: dict[str, ChannelState] = {}
        self._pool = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="channel")
        self._merging = SubscriptionMerging(spark, clock, lambda: list(self._states.values()))

    @property
    def states(self) -> Mapping[str, ChannelState]:
        """Channels at work, by lower-case name."""
        return self._states

    def add(self, channel: Channel, compiled: CompiledChannel, *, is_paused: bool = False) -> ChannelState:
        """Put a channel to work; a new one begins at what its datasets hold now."""
        bounds = {
            (channel.name, name): self._store[name].sequence
            for name in compiled.windows
            if self._results.bound(channel.name, name) is None
        }
        if bounds:
            self._results.set_bounds(bounds)
        subscriptions = ChannelSubscriptions(self._spark, channel, self._scratch, compiled.radius_parameters)
        state = ChannelState(channel, compiled, subscriptions)
        self.set_paused(state, is_paused)
        self._states = {**self._states, channel.name.lower(): state}
        return state

    def set_paused(self, state: ChannelState, is_paused: bool) -> None:
        """From now on no run of the channel begins, or they do again; one that is under way ends as it would have."""
        state.is_paused = is_paused
        self._metrics.paused(state.channel.name, is_paused)

    def begin_anew(self, channel: Channel, compiled: CompiledChannel) -> ChannelState:
        """Put a newly created channel to work: whatever a former one of that name had done is past."""
        self._results.set_bounds({(channel.name, name): self._store[name].sequence for name in compiled.windows})
        return self.add(channel, compiled)

    def recompile(self, name: str, compiled: CompiledChannel) -> None:
        state = self._states[name.lower()]
        with state.lock:
            state.compiled = compiled

    def withdraw(self, name: str) -> ChannelState | None:
        """From now on nobody finds the channel and no run of it begins; None if there is no such channel."""
        state = self._states.get(name.lower())
        self._states = {known: value for known, value in self._states.items() if known != name.lower()}
        return state

    def release(self, state: ChannelState) -> None:
        """Let go of what a withdrawn channel has, once a run that is under way has ended."""
        with state.lock:
            state.subscriptions.close()
        self._metrics.forget_channel(state.channel.name)

    def close(self) -> None:
        self._merging.stop()
        self._pool.shutdown()

    def run_continuous(self, changed: Iterable[str]) -> None:
        """Run the continuous channels that watch one of the `changed` datasets; their results are one commit."""
        names = {name.lower() for name in changed}
        states = [
            state
            for state in self._states.values()
            if state.channel.kind is ChannelKind.CONTINUOUS
            and names.intersection(watched.lower() for watched in state.compiled.windows)
        ]
        self.run(states)

    def run(self, states: list[ChannelState]) -> None:
        """Run channels over what they have not seen yet. A run that fails is logged and tried with the next window."""
        self._run_all(states)
        self._merging.wake()

    def _run_all(self, states: list[ChannelState]) -> None:
        with ExitStack() as held:
            for state in sorted(states, key=lambda one: one.channel.name):
                held.enter_context(state.lock)
            # One that was dropped while it waited for its turn must not move the bounds of a successor.
            at_work = [state for state in states if self._states.get(state.channel.name.lower()) is state]
            # Of paused ones too, since that is what tells how far they are behind.
            windows = [(state, self.window(state)) for state in at_work]
            due = [(state, window) for state, window in windows if not window.empty and not state.is_paused]
            while due:
                if len(due) == 1:
                    outputs = [self._run_safely(*due[0])]
                else:
                    outputs = list(self._pool.map(lambda item: self._run_safely(*item), due))
                self._commit([output for output in outputs if output is not None])
                due = [
                    (state, self.window(state))
                    for (state, window), output in zip(due, outputs, strict=True)
                    if output is not None and output.window != window and not state.is_paused
                ]

    def window(self, state: ChannelState) -> Window:
        """What the channel has not run over yet."""
        after, through = {}, {}
        for name in state.compiled.windows:
            through[name] = self._store[name].sequence
            bound = self._results.bound(state.channel.name, name)
            after[name] = through[name] if bound is None else bound
        window = Window(after, through)
        self._metrics.window_lag(state.channel.name, window.lag_commits)
        return window

    def _run_safely(self, state: ChannelState, window: Window) -> _Output | None:
        begin = self._clock.monotonic_s()
        try:
            rows = self._execute(state, window)
            if rows.num_rows > MAX_ROWS_PER_COMMIT:
                raise TooLarge(f"a run gave {rows.num_rows} results; at most {MAX_ROWS_PER_COMMIT} fit one commit")
        except Exception as exc:
            if _is_too_much(exc) and (half := window.first_half()) is not None:
                log.warning("too many results at once; running over half the window", channel=state.channel.name)
                return self._run_safely(state, half)
            seconds = self._clock.monotonic_s() - begin
            state.last_error = f"{type(exc).__name__}: {exc}"[:2000]
            self._metrics.run(state.channel.name, "failed", seconds, 0)
            log.error("channel run failed; its window will be tried again", channel=state.channel.name, exc_info=exc)
            return None
        state.last_error = ""
        return _Output(state, window, rows, self._clock.monotonic_s() - begin)

    def _execute(self, state: ChannelState, window: Window) -> pa.Table:
        subscriptions = state.subscriptions
        if not len(subscriptions):
            return _EMPTY_OUTPUT
        with ExitStack() as leases:
            names = {
                relation: leases.enter_context(self._bound(relation, window))
                for relation in state.compiled.relations
                if relation.role is not RelationRole.SUBSCRIPTIONS
            }
            names[Relation(RelationRole.SUBSCRIPTIONS)] = subscriptions.view()
            new_rows = self._new_rows(names)
            broadcast = (new_rows or 0) <= max(MAX_INLINE_ROWS, len(subscriptions))
            # After the view was made, so that no class of its subscriptions is missing.
            groups = radius_groups(state.compiled.radius_parameters, subscriptions.radius_classes(), new_rows)
            output = self._spark.sql(state.compiled.render_groups(names, groups, broadcast=broadcast)).toArrow()
        return subscriptions.without_removed(output)

    def _new_rows(self, names: Mapping[Relation, str]) -> int | None:
        """Rows of the window, the side to broadcast, unless it is the larger one; None if all rows are read."""
        rows = [self.views.rows_in(name) or 0 for one, name in names.items() if one.role is RelationRole.NEW]
        return sum(rows) if rows else None

    def _bound(self, relation: Relation, window: Window) -> AbstractContextManager[str]:
        dataset = relation.dataset
        match relation.role:
            case RelationRole.NEW:
                return self.views.new(dataset, window.after[dataset], window.through[dataset])
            case RelationRole.FULL:
                return self.views.full(dataset)
            case RelationRole.FULL_MARKED:
                return self.views.marked(dataset, window.after[dataset], window.through[dataset])
            case RelationRole.SUBSCRIPTIONS:
                raise AssertionError("subscriptions are bound by the caller")
            case _ as never:
                assert_never(never)

    def _commit(self, outputs: list[_Output]) -> None:
        """Make outputs durable: all in one commit, unless together they are too many for one."""
        group: list[_Output] = []
        for output in outputs:
            if group and sum(one.rows.num_rows for one in (*group, output)) > MAX_ROWS_PER_COMMIT:
                self._commit_together(group)
                group = []
            group.append(output)
        if group:
            self._commit_together(group)

    def _commit_together(self, outputs: list[_Output]) -> None:
        bounds = {
            (output.state.channel.name, name): through
            for output in outputs
            for name, through in output.window.through.items()
        }
        rows = [(output.state.channel.name, output.rows) for output in outputs]
        with self._metrics.timed("tocsin_results_commit_seconds"):
            commit = self._results.commit(rows, bounds, self._clock.now_us())
        for output in outputs:
            state = output.state
            state.runs += 1
            state.results += output.rows.num_rows
            state.last_run_s = output.seconds
            state.last_results = output.rows.num_rows
            self._metrics.run(state.channel.name, "done", output.seconds, output.rows.num_rows)
            self._metrics.window_lag(state.channel.name, 0)
        if commit is not None:
            self._on_results(commit)


def _is_too_much(exc: Exception) -> bool:
    """Whether a run failed because its results are more than the driver takes at once."""
    return isinstance(exc, TooLarge) or "spark.driver.maxResultSize" in str(exc)
