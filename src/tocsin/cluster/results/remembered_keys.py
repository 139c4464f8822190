"""What `ONCE PER` remembers: the keys of all results so far, in memory to look them up, and in a table of their own.

A result's key is committed with the result, in the results table. So results, bound and what is remembered change
together, and the keys in memory can be made anew from tables at any time. Results are removed in the end; so their keys
are copied into this module's table from time to time, and in any case before retention removes the results. An
application transaction of it says up to which number of results commits it has all keys. Only durable results count: a
key whose result never was must not be remembered.

A key is remembered until its subscription ends, until WITHIN has passed, or until there are too many: then the oldest
are forgotten. `sweep` does that. The keys of channels WITH EXITS are remembered until their exit (`exits`).
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import structlog

from tocsin.cluster.datasets import delta
from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results.core.result_keys import (
    ENTRY_BYTES,
    NEVER_US,
    SMALL_RUN,
    KeyIndex,
    KeyRun,
    Mask,
    Numbers,
    merged,
    spread,
)
from tocsin.cluster.results.digests import digests_of
from tocsin.cluster.results.exits import Exits, HeldByChannel, run_of, still_held
from tocsin.errors import ClusterFailure

log = structlog.get_logger(__name__)

#: The columns of the results table that a remembered key has too.
KEYED = ("subscription", "sequence", "key", "committed_at", "channel", "held")
SCHEMA = pa.schema(
    [
        ("subscription", pa.int64()),
        ("sequence", pa.int64()),
        ("key", pa.binary()),
        ("committed_at", pa.timestamp("us", tz="UTC")),
        #: Of channels WITH EXITS; null for all others.
        ("channel", pa.string()),
        ("held", pa.bool_()),
    ]
)
_THROUGH_APP = "through"
#: The table is rewritten if this share of its keys can be forgotten.
_WORTH_A_REWRITE = 0.05


class ReadKeys(Protocol):
    """Reads the columns `KEYED` of results that have a key, of the results commits `(after, through]`: in parts of
    bounded size, each with the commit up to which it reaches."""

    def __call__(self, after: int, through: int) -> Iterator[tuple[int, pa.Table]]: ...


@dataclass(frozen=True, slots=True)
class Kept:
    """The subscriptions of a channel with ONCE PER, sorted, and the time before which their keys are forgotten. Held
    keys are not."""

    subscriptions: Numbers
    oldest_us: int | None


@dataclass(frozen=True, slots=True)
class Learned:
    """Keys to `add` once they are committed, for this channel if it is one WITH EXITS."""

    run: KeyRun
    channel: str | None = None


class RememberedKeys:
    """`committing` is the lock that is held during a commit of results, and around `load`, `catch_up`, `choose` and
    `add`. The other methods may take long; nobody calls them with this lock."""

    def __init__(self, path: Path, read: ReadKeys, committing: threading.Lock, *, most: int) -> None:
        self.table = Table(path, SCHEMA, recent_max_bytes=0)
        self._read = read
        self._committing = committing
        self._most = most
        self._index: KeyIndex | None = None
        self._held = HeldByChannel()
        #: The results commit up to which the index has all keys.
        self._through = 0
        #: The same for the table: it has them all, or nobody needs them.
        self._stored_through = self.table.transaction(_THROUGH_APP) or 0
        #: No channel has ONCE PER, so results have no keys that anybody will need.
        self._is_unused = False
        #: Held by upkeep; taken before the other lock.
        self._upkeep = threading.Lock()

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index) + len(self._held)

    @property
    def stored_through(self) -> int:
        """Up to this results commit, results may be removed: their keys are in the table."""
        return self._stored_through

    @property
    def size_bytes(self) -> int:
        """Of the keys in memory, and in files that are mapped into it."""
        return len(self) * ENTRY_BYTES

    # What is remembered

    def leave_unused(self, through: int) -> None:
        """No channel has ONCE PER. Until one has, nobody need look for keys in results, nor in those that are there, up
        to the results commit `through`."""
        self._is_unused = True
        self._stored_through = max(self._stored_through, through)

    def load(self, through: int) -> None:
        """Bring the keys of all results up to the results commit `through` into memory, unless they are there."""
        self._is_unused = False
        if self._index is None:
            # In this order: what is stored meanwhile is then read twice, which does no harm.
            self._through = self._stored_through
            self._held = HeldByChannel()
            held: list[pa.Table] = []
            self._index = KeyIndex(self._mapped(_run_of(rows, held)) for rows in self._stored())
            self._held.learn(held)
        self.catch_up(through)

    def load_again(self, through: int) -> None:
        """Keys were removed from tables: forget them here too."""
        if self._index is not None:
            self._index = None
            self.load(through)

    def catch_up(self, through: int) -> None:
        """Learn of results whose commit seemed to fail, and has happened all the same."""
        if self._index is not None and through > self._through:
            for reached, rows in self._read(self._through, through):
                held: list[pa.Table] = []
                self._index.add(self._mapped(_run_of(rows, held)))
                self._held.learn(held)
                self._through = reached

    def choose(
        self, channel: str, output: pa.Table, now_us: int, within_us: int | None, exits: Exits | None = None
    ) -> tuple[pa.Table, Learned]:
        """The rows of a run that are results, with digests in place of the texts of their keys, and the exits; and what
        to `add` once they are committed. `exits` is for channels WITH EXITS."""
        assert self._index is not None, "load comes first"
        if exits is not None:
            rows, run = self._held.choose(channel, output, now_us, within_us, exits)
            return rows, Learned(run, channel)
        keys, first, second = digests_of(output.column("key"))
        subscriptions = output.column("subscription").to_numpy()
        chosen = self._index.choose(spread(first, subscriptions), second, subscriptions, now_us, within_us)
        rows = output.set_column(output.schema.get_field_index("key"), "key", keys)
        return rows.filter(pa.array(chosen.is_result)), Learned(chosen.run)

    def subscriptions_that_hold(self, channel: str) -> Numbers:
        """The subscriptions of a channel WITH EXITS that have held keys, sorted."""
        return self._held.subscriptions(channel)

    def add(self, learned: Iterable[Learned], number: int) -> None:
        """The results with these keys were committed, up to the results commit `number`."""
        if self._index is not None:
            for one in learned:
                index = self._index if one.channel is None else self._held.of(one.channel)
                index.add(one.run)
            self._through = number

    # Upkeep

    def store(self, durable: int) -> None:
        """Copy the keys of results up to the results commit `durable`, which a power cut can't take away, into the
        table. Afterwards retention may remove those results."""
        with self._upkeep:
            if durable <= self._stored_through:
                return
            if self._is_unused:
                self._stored_through = durable
                return
            for reached, rows in self._read(self._stored_through, durable):
                # At the end also if there are none: else the next process would look for them again.
                if rows.num_rows or reached == durable:
                    self.table.append(_to_store(rows), {_THROUGH_APP: reached})
                    self.table.sync()
                    self._stored_through = reached

    def merge(self) -> None:
        """Merge large runs of the index; small ones are merged when they are added."""
        with self._upkeep:
            while (index := self._index) is not None and (runs := index.due()):
                self._replace(index, runs, merged(runs))

    def forget(self, subscriptions: Sequence[int], sequences: Sequence[Sequence[int]]) -> None:
        """Remove the keys of these subscriptions, and of these results, from the table."""
        conditions = [("subscription", subscriptions), *(("sequence", chunk) for chunk in sequences)]
        with self._upkeep:
            for column, values in conditions:
                if values and self.table.count():
                    self.table.delete(f"{column} IN ({', '.join(map(str, values))})")
            self.table.sync()

    def sweep(self, living: Callable[[], Iterable[Kept]]) -> None:
        """Forget keys that are not needed any more. `living` has the subscriptions of all channels with ONCE PER."""
        with self._upkeep:
            # If nothing was loaded there may still be keys on disk, of channels that were dropped.
            index = KeyIndex() if self._index is None else self._index
            runs = index.runs
            # After the runs: a subscription that is not living now has ended, because its id never comes back.
            rule = _rule(list(living()), self._oldest_of_most(runs))
            for run in runs:
                is_kept = rule.is_kept(run.subscriptions, run.result_us)
                if not is_kept.all():
                    self._replace(index, [run], run.where(is_kept))
            self._sweep_held(rule)
            self._sweep_table(rule)

    def _sweep_held(self, rule: _Rule) -> None:
        with self._committing:
            oldest_us = self._oldest_of(self._held.result_us())
            # An exit has no time, and has to stay as long as the result that it ends.
            self._held.filter(
                lambda run: (
                    rule.is_living(run.subscriptions) & ((run.result_us > oldest_us) | (run.result_us == NEVER_US))
                )
            )

    def _replace(self, index: KeyIndex, runs: Sequence[KeyRun], by: KeyRun) -> None:
        mapped = self._mapped(by)
        with self._committing:
            index.replace(runs, mapped)

    def _oldest_of_most(self, runs: tuple[KeyRun, ...]) -> int:
        return self._oldest_of([run.result_us for run in runs])

    def _oldest_of(self, times_us: Sequence[Numbers]) -> int:
        """The time before which keys are forgotten because there are too many."""
        count = sum(map(len, times_us))
        if count <= self._most:
            return 0
        # Every hundredth is enough to find the time by.
        sample = np.concatenate([one[::100] for one in times_us])
        oldest_us = int(np.quantile(sample, 1 - self._most / count, method="lower"))
        if count * float((sample > oldest_us).mean()) < self._most / 2:
            oldest_us -= 1  # Many are of one commit. Rather too many are kept than none.
        log.warning("too many result keys; forgetting the oldest", keys=count, most=self._most)
        return oldest_us

    def _sweep_table(self, rule: _Rule) -> None:
        # Only by what is stored: an exit that memory knows of may not be durable yet.
        held = still_held([rows for rows in self._stored() if rows.column("held").null_count < rows.num_rows])

        def is_kept(rows: pa.Table) -> Mask:
            subscriptions, result_us = _whose(rows)
            is_held = np.isin(rows.column("sequence").to_numpy(), held) & rule.is_living(subscriptions)
            return np.where(rows.column("held").is_valid().to_numpy(), is_held, rule.is_kept(subscriptions, result_us))

        dead = count = 0
        for rows in self._stored():
            count += rows.num_rows
            dead += int((~is_kept(rows)).sum())
        if dead > _WORTH_A_REWRITE * count:
            self.table.replace_files(rows.filter(pa.array(is_kept(rows))) for rows in self._stored())
            self.table.sync()

    def _stored(self) -> Iterator[pa.Table]:
        """All keys of the table, one file at a time, so that memory stays bounded."""
        try:
            for file in self.table.files():
                yield ds.dataset([file], schema=self.table.schema, format=delta.CHECKED_PARQUET).to_table()
        except (OSError, pa.ArrowException) as exc:
            raise ClusterFailure(f"a file of table {self.table.path} can't be read: {exc}") from exc

    def _mapped(self, run: KeyRun) -> KeyRun:
        """A large run in a file, so that the system may take its memory back whenever it needs it. The file has no
        name, and ends with the process."""
        if len(run) < SMALL_RUN:
            return run
        columns: list[Any] = []
        try:
            # Not in the scratch folder, which is memory.
            with tempfile.TemporaryFile(dir=self.table.path.parent) as file:
                for column in run.columns:
                    begin = file.tell()
                    file.write(np.ascontiguousarray(column).data)
                    file.flush()
                    columns.append(np.memmap(file, column.dtype, "r", begin, column.shape))
        except OSError as exc:
            log.warning("result keys stay in memory, because they can't be written to a file", exc_info=exc)
            return run
        return KeyRun(*columns)


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which keys are kept: those of these subscriptions, of results from a time on."""

    subscriptions: Numbers
    oldest_us: Numbers

    def is_kept(self, subscriptions: Numbers, result_us: Numbers) -> Mask:
        if not len(self.subscriptions):
            return np.zeros(len(subscriptions), bool)
        at = np.minimum(np.searchsorted(self.subscriptions, subscriptions), len(self.subscriptions) - 1)
        is_kept: Mask = (self.subscriptions[at] == subscriptions) & (result_us > self.oldest_us[at])
        return is_kept

    def is_living(self, subscriptions: Numbers) -> Mask:
        """Whether keys of these subscriptions are kept, unless they are too old."""
        return np.isin(subscriptions, self.subscriptions)


def _rule(channels: Sequence[Kept], oldest_us: int) -> _Rule:
    """`oldest_us` is for all channels."""
    nothing = [np.empty(0, np.int64)]
    ids = np.concatenate([*nothing, *(one.subscriptions for one in channels)])
    limits = (np.full(len(one.subscriptions), max(one.oldest_us or 0, oldest_us), np.int64) for one in channels)
    order = np.argsort(ids)
    return _Rule(ids[order], np.concatenate([*nothing, *limits])[order])


def _whose(rows: pa.Table) -> tuple[Numbers, Numbers]:
    return rows.column("subscription").to_numpy(), rows.column("committed_at").cast(pa.int64()).to_numpy()


def _run_of(rows: pa.Table, held: list[pa.Table]) -> KeyRun:
    """A run of keys from a table, in whatever order they are there. Rows of channels WITH EXITS go to `held`."""
    if rows.column("held").null_count < rows.num_rows:
        is_held = rows.column("held").is_valid()
        held.append(rows.filter(is_held))
        rows = rows.filter(pc.invert(is_held))
    return merged([run_of(rows, _whose(rows)[1])])


def _to_store(rows: pa.Table) -> pa.Table:
    """Results as rows of the table of keys."""
    at = rows.schema.get_field_index("channel")
    channels = pc.if_else(rows.column("held").is_valid(), rows.column("channel"), pa.scalar(None, pa.string()))
    return rows.set_column(at, "channel", channels).select(SCHEMA.names).cast(SCHEMA)
