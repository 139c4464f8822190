"""One run of a channel: a Spark job over a window, or a part of one, with limits of time and size.

Failures are of three kinds: more results than can be taken at once; a failure that the data or the query caused; and
everything else, which is trouble of Spark or of the machine and proves nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import SparkSession

from tocsin.cluster.channels.compiler.compile import CompiledChannel
from tocsin.cluster.channels.compiler.dialect import quote_name, quote_string
from tocsin.cluster.channels.compiler.template import Relation, RelationRole
from tocsin.cluster.channels.compiler.windows import IS_NEW_COLUMN
from tocsin.cluster.channels.core.radius_classes import radius_groups
from tocsin.cluster.channels.core.splitting import Window
from tocsin.cluster.channels.costs import ChannelCosts
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.channels.subscription_relation import SUBSCRIPTION_COLUMN
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.datasets.views import MAX_INLINE_ROWS, DatasetViews
from tocsin.cluster.spark_errors import SPARK_ERRORS, reason_of
from tocsin.cluster.spark_jobs import cancel_jobs, job_group, time_limit
from tocsin.model.schema import SEQUENCE_COLUMN

#: The rows of a run; those of a channel with ONCE PER have a key too.
OUTPUT = pa.schema([("subscription", pa.int64()), ("payload", pa.string())])
KEYED_OUTPUT = OUTPUT.append(pa.field("key", pa.string()))

_TOO_MUCH = "more results than one run may hand over at once"
#: Texts of Spark's errors for a run that is too large, rather than wrong.
_SIGNS_OF_TOO_MUCH = (
    _TOO_MUCH,
    "spark.driver.maxResultSize",
    "OutOfMemoryError",
    "UNABLE_TO_ACQUIRE_MEMORY",
    "Not enough memory to build and broadcast",
    "Cannot broadcast the table",
)
#: Texts of Spark's errors for trouble that the run did not cause.
_SIGNS_OF_TROUBLE = ("No space left on device", "SparkContext was shut down", "stopped SparkContext")
_MAX_REASON_CHARACTERS = 500
#: The lower bits of `monotonically_increasing_id`: the number of a row within its task.
_ROW_IN_TASK = (1 << 33) - 1


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run: how long it takes, how large one result is, and how large all its results are together."""

    timeout_s: float
    result_max_bytes: int
    run_max_bytes: int


@dataclass(frozen=True, slots=True)
class Part:
    """Some rows of a commit with some subscriptions: those with ids from `first` to `last`, except `without`."""

    rows: pa.Table
    #: The other rows of the commit. They are hidden from the run, also where it reads all rows.
    left_out: pa.Table
    first: int
    last: int
    without: frozenset[int]


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """A snapshot for these subscriptions: a run whose window begins at zero. `left_out` has, by dataset, rows that are
    hidden from it. With `most_rows`, it ends after so many rows."""

    subscriptions: Sequence[int]
    left_out: Mapping[str, pa.Table]
    most_rows: int | None = None


class RunFailed(Exception):
    """The data or the query made it fail, or it took too long."""


class RunTooLarge(Exception):
    """It has more results than can be taken at once."""


class RunCancelled(Exception):
    """Its channel was dropped or paused, or the cluster stops."""


class ChannelRuns:
    def __init__(
        self, spark: SparkSession, store: DatasetStore, views: DatasetViews, limits: RunLimits, costs: ChannelCosts
    ) -> None:
        self._spark = spark
        self._store = store
        self._views = views
        self._limits = limits
        self._costs = costs
        self._task_max_bytes = limits.run_max_bytes // spark.sparkContext.defaultParallelism
        self._numbers = itertools.count(1)
        self._cancelled: set[str] = set()

    def run(self, state: ChannelState, window: Window, part: Part | None = None) -> pa.Table:
        """The rows that were found, as `output_of` has it. Raises RunFailed, RunTooLarge, RunCancelled or other
        errors."""
        compiled = state.compiled
        if part is None and not (len(state.subscriptions) and set(window.changed) & set(compiled.new)):
            return output_of(compiled).empty_table()
        output = self._found(state, compiled, window, part)
        return state.subscriptions.without_removed(output)

    def holding(self, state: ChannelState, ids: npt.NDArray[np.int64]) -> pa.Table:
        """The keys that hold now for these subscriptions of a channel WITH EXITS. Raises the same errors."""
        assert state.compiled.holding is not None, "only channels WITH EXITS have it"
        return self._found(state, state.compiled.holding, Window({}, {}), None, ids)

    def _found(
        self,
        state: ChannelState,
        compiled: CompiledChannel,
        window: Window,
        part: Part | None,
        ids: npt.NDArray[np.int64] | None = None,
    ) -> pa.Table:
        """The rows of a query of the channel."""
        if state.is_stopping or (part is not None and state.is_paused):
            raise RunCancelled
        with self._costs.spark(state), ExitStack() as leases:
            names = {
                relation: leases.enter_context(self._bound(relation, window, part))
                for relation in compiled.relations
                if relation.role is not RelationRole.SUBSCRIPTIONS
            }
            new_rows = self._new_rows(names, part)
            broadcast = (new_rows or 0) <= max(MAX_INLINE_ROWS, len(state.subscriptions))
            return self._rows(state, compiled, names, new_rows, leases, part=part, ids=ids, broadcast=broadcast)

    def run_snapshot(self, state: ChannelState, through: Mapping[str, int], part: SnapshotPart) -> pa.Table:
        """What holds, over the commits up to `through` of the datasets that the channel watches. Raises as `run`
        does."""
        if state.is_stopping or state.is_paused:
            raise RunCancelled
        compiled, ids = state.compiled, np.array(part.subscriptions, np.int64)
        with self._costs.spark(state), ExitStack() as leases:
            names = {
                relation: leases.enter_context(self._up_to(relation, through, part.left_out))
                for relation in compiled.relations
                if relation.role is not RelationRole.SUBSCRIPTIONS
            }
            output = self._rows(
                state, compiled, names, None, leases, ids=ids, broadcast=False, most_rows=part.most_rows
            )
        if compiled.exits is not None:  # It was WITH SNAPSHOT before. Rows without a payload tell what does not hold.
            output = output.filter(output.column("payload").is_valid())
        return state.subscriptions.without_removed(output)

    def _rows(
        self,
        state: ChannelState,
        compiled: CompiledChannel,
        names: Mapping[Relation, str],
        new_rows: int | None,
        leases: ExitStack,
        *,
        part: Part | None = None,
        ids: npt.NDArray[np.int64] | None,
        broadcast: bool,
        most_rows: int | None = None,
    ) -> pa.Table:
        """The rows of the query over these relations, for the subscriptions with these ids, or for all."""
        subscriptions = state.subscriptions
        view = subscriptions.view()
        state.spoiling = subscriptions.left_in_view(state.spoiling)
        conditions = _conditions(state.spoiling, part)
        if ids is not None:
            among = leases.enter_context(self._views.of_arrow(pa.table({"one": ids})))
            conditions.append(f"{SUBSCRIPTION_COLUMN} IN (SELECT one FROM {among})")
        names = {**names, Relation(RelationRole.SUBSCRIPTIONS): _subscribed(view, conditions)}
        # After the view was made, so that no class of its subscriptions is missing.
        groups = radius_groups(compiled.radius_parameters, subscriptions.radius_classes(), new_rows)
        sql = compiled.render_groups(names, groups, broadcast=broadcast)
        sql = self.within_limits(compiled, sql if most_rows is None else f"SELECT * FROM (\n{sql}\n) LIMIT {most_rows}")
        with (
            self._group(state) as group,
            time_limit(self._limits.timeout_s, partial(cancel_jobs, self._spark, group)) as is_late,
        ):
            try:
                return self._spark.sql(sql).toArrow()
            except SPARK_ERRORS as exc:
                if is_late.is_set():
                    raise RunFailed(f"took longer than {self._limits.timeout_s:g} s") from exc
                if group in self._cancelled:
                    raise RunCancelled from exc
                if (found := _verdict(exc)) is None:
                    raise
                raise found from exc

    def _new_rows(self, names: Mapping[Relation, str], part: Part | None) -> int | None:
        """The number of rows of the window, which is broadcast unless it is the larger side; None if all are read."""
        new = [name for one, name in names.items() if one.role is RelationRole.NEW]
        if not new:
            return None
        return sum(self._views.rows_in(name) or 0 for name in new) if part is None else part.rows.num_rows

    def subscription_ids(self, state: ChannelState) -> list[int]:
        """The subscriptions that runs join with, sorted."""
        with self._costs.spark(state):
            view = state.subscriptions.view()
            ids = self._spark.sql(f"SELECT {SUBSCRIPTION_COLUMN} AS subscription FROM {view}").toArrow()
        return sorted(set(state.subscriptions.without_removed(ids).column(0).to_pylist()) - state.failed)

    def cancel(self, state: ChannelState) -> None:
        """End the run under way, if there is one."""
        if group := state.job_group:
            self._cancelled.add(group)
            cancel_jobs(self._spark, group)

    @contextmanager
    def _group(self, state: ChannelState) -> Iterator[str]:
        group = f"channel-{state.channel.name}-{next(self._numbers)}"
        with job_group(self._spark, group, f"channel {state.channel.name}"):
            state.job_group = group
            try:
                yield group
            finally:
                state.job_group = ""
                self._cancelled.discard(group)

    def within_limits(self, compiled: CompiledChannel, sql: str) -> str:
        """Makes a task with too many results fail early: otherwise Spark would run out of memory for them, and end its
        process.

        Spark has no running sum over the rows of a task, but a number for each row. So the number times the size of the
        result there stands for the size so far. That is right if results are of one size, as when one record has
        results for everybody, and too careful if a large one comes late.
        """
        limits = self._limits
        too_large = quote_string(f"a result may have {limits.result_max_bytes} bytes at most")
        key = ", key" if compiled.is_keyed else ""
        return (
            f"SELECT subscription, CASE WHEN octet_length(payload) > {limits.result_max_bytes}"
            f" THEN raise_error({too_large})"
            f" WHEN (monotonically_increasing_id() & {_ROW_IN_TASK}) * octet_length(payload) > {self._task_max_bytes}"
            f" THEN raise_error({quote_string(_TOO_MUCH)}) ELSE payload END AS payload{key}\nFROM (\n{sql}\n)"
        )

    @contextmanager
    def _bound(self, relation: Relation, window: Window, part: Part | None) -> Iterator[str]:
        """The relation's name, or a query in brackets."""
        dataset = relation.dataset
        with ExitStack() as leases:
            # A part always belongs to the one dataset that has commits in the window.
            is_split = part is not None and dataset in window.changed
            after, through = window.after.get(dataset, 0), window.through.get(dataset, 0)
            match relation.role:
                case RelationRole.NEW if is_split and part is not None:
                    yield leases.enter_context(self._views.of_arrow(part.rows))
                case RelationRole.NEW:
                    yield leases.enter_context(self._views.new(dataset, after, through))
                case RelationRole.FULL | RelationRole.FULL_MARKED:
                    marked = relation.role is RelationRole.FULL_MARKED
                    view = self._views.marked(dataset, after, through) if marked else self._views.full(dataset)
                    name = leases.enter_context(view)
                    if is_split and part is not None and part.left_out.num_rows:
                        hidden = leases.enter_context(self._views.of_arrow(part.left_out))
                        name = self._without(dataset, name, hidden, marked=marked)
                    yield name
                case RelationRole.SUBSCRIPTIONS:
                    raise AssertionError("subscriptions are bound by the caller")
                case _ as never:
                    assert_never(never)

    @contextmanager
    def _up_to(self, relation: Relation, through: Mapping[str, int], left_out: Mapping[str, pa.Table]) -> Iterator[str]:
        """The relation of a window that begins at zero and ends at `through`, as a query in brackets or a name."""
        dataset = relation.dataset
        last = through.get(dataset)
        is_marked = relation.role is RelationRole.FULL_MARKED
        with ExitStack() as leases:
            view = self._views.marked(dataset, 0, last or 0) if is_marked else self._views.full(dataset)
            name = leases.enter_context(view)
            if dataset in left_out:
                hidden = leases.enter_context(self._views.of_arrow(left_out[dataset]))
                name = self._without(dataset, name, hidden, marked=is_marked)
            # Later rows are for the next window; also a keyed row that has changed since: it is new there.
            yield name if last is None else f"(SELECT * FROM {name} WHERE {SEQUENCE_COLUMN} <= {last})"

    def _without(self, dataset: str, name: str, hidden: str, *, marked: bool) -> str:
        """All rows but the hidden ones; equal rows of one commit are hidden together."""
        schema = self._store[dataset].dataset.schema
        columns = (SEQUENCE_COLUMN, *(schema.primary_key or schema.names))
        same = " AND ".join(f"f.{quote_name(one)} <=> h.{quote_name(one)}" for one in columns)
        chosen = [*schema.names, SEQUENCE_COLUMN, *([IS_NEW_COLUMN] if marked else [])]
        listed = ", ".join(f"f.{quote_name(one)}" for one in chosen)
        return f"(SELECT {listed} FROM {name} AS f LEFT ANTI JOIN {hidden} AS h ON {same})"


def output_of(compiled: CompiledChannel) -> pa.Schema:
    return KEYED_OUTPUT if compiled.is_keyed else OUTPUT


def _conditions(spoiling: set[int], part: Part | None) -> list[str]:
    """Which subscriptions to run for, unless it is all."""
    without = sorted(spoiling | (part.without if part is not None else frozenset()))
    conditions = [f"{SUBSCRIPTION_COLUMN} NOT IN ({', '.join(map(str, without))})"] if without else []
    if part is not None:
        conditions.append(f"{SUBSCRIPTION_COLUMN} BETWEEN {part.first} AND {part.last}")
    return conditions


def _subscribed(view: str, conditions: list[str]) -> str:
    """The subscriptions to run for: the view's name, or a query in brackets."""
    return f"(SELECT * FROM {view} WHERE {' AND '.join(conditions)})" if conditions else view


def _verdict(exc: Exception) -> RunFailed | RunTooLarge | None:
    """The kind of failure that the error tells of; None if it tells none."""
    text = str(exc)
    if any(sign in text for sign in _SIGNS_OF_TROUBLE):
        return None
    reason = reason_of(exc)[:_MAX_REASON_CHARACTERS]
    return RunTooLarge(reason) if any(sign in text for sign in _SIGNS_OF_TOO_MUCH) else RunFailed(reason)
