"""Running over one commit that can't be run over as a whole: the shell around `splitting`.

Everything set aside is durable before the results without it are committed, and noting it twice is the same as noting
it once. So a process that dies half-way loses nothing and doubles nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from tocsin.cluster.channels.core.splitting import (
    MOST_SET_ASIDE,
    Attempt,
    Block,
    Done,
    Failed,
    Outcome,
    Reached,
    SetAside,
    Splitting,
    SplittingFailed,
    TooMuch,
    Window,
)
from tocsin.cluster.channels.runs import ChannelRuns, Part, RunFailed, RunTooLarge, output_of
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.datasets.store import DEAD_LETTERS, DatasetStore, StoredDataset, dead_letter
from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.store import ResultStore
from tocsin.model.schema import SEQUENCE_COLUMN
from tocsin.runtime.clock import Clock

log = structlog.get_logger(__name__)

#: A record as a dead letter shows it.
_MAX_RAW_CHARACTERS = 100_000


@dataclass(slots=True)
class _Commit:
    """The commit being run over: its rows, the subscriptions it is run for, and the results so far."""

    state: ChannelState
    window: Window
    stored: StoredDataset
    number: int
    rows: pa.Table
    ids: list[int]
    kept: list[pa.Table]
    letters: list[SetAside]


@dataclass(frozen=True, slots=True)
class CommitRecovery:
    """`fail` makes a subscription's failure durable and tells the brokers that hold it. `commit_part` and `commit_rest`
    make results durable, the latter with the window's bound."""

    runs: ChannelRuns
    store: DatasetStore
    results: ResultStore
    clock: Clock
    metrics: Metrics
    fail: Callable[[ChannelState, int, str], None]
    commit_part: Callable[[ChannelState, pa.Table, tuple[str, int, int]], None]
    commit_rest: Callable[[ChannelState, Window, pa.Table], None]

    def run(self, state: ChannelState, window: Window) -> None:
        """Run over a window of one commit, in parts and without everything that fails. Raises SplittingFailed or any
        other error; the next run then finds whatever was not committed."""
        (dataset,) = window.changed
        stored = self.store[dataset]
        number = window.through[dataset]
        done = self.results.part_done(state.channel.name, dataset, number)
        ids = [one for one in self.runs.subscription_ids(state) if one > done]
        commit = _Commit(state, window, stored, number, stored.window(window.after[dataset], number), ids, [], [])
        if not ids or not commit.rows.num_rows or dataset not in state.compiled.new:
            self.commit_rest(state, window, self._taken(commit))
            return
        splitting = Splitting(
            commit.rows.num_rows, ids, state.strikes, self.results.has_results, is_wanted=state.is_resumed
        )
        steps = splitting.steps()
        answer: Outcome | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return
            answer = None
            match step:
                case Attempt(block, keep):
                    answer = self._attempt(commit, block, keep=keep)
                case SetAside():
                    self._set_aside(commit, step)
                case Reached(index):
                    self._write_letters(commit)
                    if index == len(ids):
                        self.commit_rest(state, window, self._taken(commit))
                        if state.is_resumed:  # Resuming covers this commit only, not the next.
                            state.is_resumed, state.set_aside_in_a_row = False, 0
                    else:
                        self.commit_part(state, self._taken(commit), (dataset, number, ids[index - 1]))

    def _attempt(self, commit: _Commit, block: Block, *, keep: bool) -> Outcome:
        numbers = pa.array(block.rows, pa.int64())
        every = pa.array(range(commit.rows.num_rows), pa.int64())
        others = every.filter(pc.invert(pc.is_in(every, value_set=numbers)))
        first, last = commit.ids[block.first], commit.ids[block.last - 1]
        part = Part(commit.rows.take(numbers), commit.rows.take(others), first, last, block.without)
        try:
            output = self.runs.run(commit.state, commit.window, part)
        except RunTooLarge as exc:
            return TooMuch(str(exc))
        except RunFailed as exc:
            return Failed(str(exc))
        if keep:
            commit.kept.append(output)
        return Done()

    def _taken(self, commit: _Commit) -> pa.Table:
        kept, commit.kept = commit.kept, []
        schema = output_of(commit.state.compiled)
        return pa.concat_tables([schema.empty_table(), *(one.cast(schema) for one in kept)])

    def _set_aside(self, commit: _Commit, what: SetAside) -> None:
        state = commit.state
        row = None if what.row is None else what.row + 1
        log.warning(
            "set aside",
            channel=state.channel.name,
            dataset=commit.stored.dataset.name,
            commit=commit.number,
            row=row,
            subscription=what.subscription,
            reason=what.reason,
        )
        if what.row is None and what.subscription is not None:
            self.fail(state, what.subscription, what.reason)
            self.metrics.set_aside.labels(state.channel.name, "subscription").inc()
        else:
            commit.letters.append(what)
            state.rows_set_aside += 1
            if what.subscription is None:
                state.set_aside_in_a_row += 1
            if state.set_aside_in_a_row > MOST_SET_ASIDE and not state.is_resumed:
                reason = f"{MOST_SET_ASIDE} records in a row failed, the last one with: {what.reason}"
                raise SplittingFailed(reason, is_channel=False)
            self.metrics.set_aside.labels(state.channel.name, "record").inc()

    def _write_letters(self, commit: _Commit) -> None:
        """Make dead letters of the rows that were set aside, except those that an earlier attempt has written."""
        letters, commit.letters = commit.letters, []
        if not letters:
            return
        table = commit.stored.dead_letters
        known = table.read(where=pc.field("position") == -commit.number, columns=["line", "reason"]).to_pylist()
        noted = {(letter["line"], about(letter["reason"])) for letter in known}
        now_us = self.clock.now_us()
        rows = []
        for letter in letters:
            assert letter.row is not None, "a subscription that is set aside is no dead letter"
            whose = letter_of(commit.state.channel.name, letter.subscription)
            if (letter.row + 1, whose) not in noted:
                reason, raw = f"{whose}: {letter.reason}", record(commit.rows, letter.row)
                rows.append(dead_letter(-commit.number, letter.row + 1, "", reason, raw, now_us))
        if rows:
            table.append(pa.Table.from_pylist(rows, schema=DEAD_LETTERS))


def letter_of(channel: str, subscription: int | None) -> str:
    """Which channel a dead letter is about, and which of its subscriptions, as its reason begins."""
    return f"channel {channel}" + ("" if subscription is None else f", subscription {subscription}")


def about(reason: str) -> str:
    """The part of a dead letter's reason that `letter_of` has made."""
    return reason.partition(":")[0]


def record(rows: pa.Table, number: int) -> str:
    """A row as JSON; values that JSON has no form for become text."""
    row = rows.drop_columns([SEQUENCE_COLUMN]).slice(number, 1)
    try:
        values = row.to_pylist()[0]
    except (ValueError, OverflowError):  # Python has no value for it, such as the year 10000.
        values = {name: row.column(name).cast(pa.string())[0].as_py() for name in row.column_names}
    return json.dumps(values, default=str, ensure_ascii=False)[:_MAX_RAW_CHARACTERS]
