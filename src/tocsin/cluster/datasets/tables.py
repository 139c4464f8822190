"""A Delta table with one writer, committed through delta-rs.

Each commit of rows takes the next number of the table's **commit sequence**; every row carries it as `_seq`. The commit
itself holds the number, as the version of the application transaction `tocsin.sequence`, so the number survives
compaction, vacuum and log clean-up, and a commit either happened with its number or did not. Callers add application
transactions of their own, such as how far the landing log has been ingested.

A commit outlives the process only once `sync` has covered it: opening a table brings it back to its last sync and drops
later commits (`table_files.py`). Code that announces a commit syncs first.

A commit that delta-rs failed to confirm may have happened all the same. The table then reads itself again and looks for
the commit's number; nobody has to guess.

This module knows nothing of what the rows mean. One process owns a table; a file lock in the data directory ensures
that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import structlog
from deltalake import DeltaTable
from deltalake.transaction import AddAction

from tocsin.cluster.datasets import delta
from tocsin.cluster.datasets.recent import RecentRows
from tocsin.cluster.datasets.table_files import TableFiles
from tocsin.errors import ClusterFailure
from tocsin.model.schema import SEQUENCE_COLUMN

log = structlog.get_logger(__name__)

_SEQUENCE_APP = "tocsin.sequence"
#: How often rows were removed.
_REMOVALS_APP = "tocsin.removals"

#: A commit costs 0.1 ms more for each commit since the last checkpoint, and a checkpoint costs about 10 ms, so one
#: every 32 commits is close to the cheapest. delta-rs's own hook would not reload the handle.
_CHECKPOINT_EVERY = 32
_ALL_FILES = ds.scalar(True)


class Table:
    """Rows on disk, in commit order.

    `append` is atomic: all its rows and transactions are there, or none. After `sync` returns, a reopened table holds
    all commits made before it was called, even after the death of the process or a power cut. Reopening drops all
    commits that no sync has covered: of several tables, none may be ahead of the others' records.
    """

    def __init__(self, path: Path, schema: pa.Schema, *, recent_max_bytes: int = 64 << 20) -> None:
        self.path = path
        self._lock = threading.RLock()
        #: Held by slow upkeep, which does not hold the other lock; taken before that one.
        self._upkeep = threading.Lock()
        self._has_upkeep, self._is_dropped = True, False
        #: The columns of a row, including `_seq`.
        self.schema = schema.append(pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False))
        self._files = TableFiles(path)
        self._delta = self._open_or_create()
        self._add_missing_columns()
        #: A change failed, and the handle may not know whether it happened.
        self._is_unclear = False
        #: The number of the last commit; 0 before the first.
        self.sequence = self._delta.transaction_version(_SEQUENCE_APP) or 0
        self._transactions: dict[str, int | None] = {}
        self._commits_since_compaction = len(self._delta.file_uris())
        self._commits_since_checkpoint = 0
        #: The number of the last commit that a power cut can't take away.
        self.durable = self.sequence
        self.recent = RecentRows(recent_max_bytes, since=self.sequence)

    def _open_or_create(self) -> DeltaTable:
        if self._files.has_log:
            if self._files.restore():
                return self._open()
        elif DeltaTable.is_deltatable(str(self.path)):
            return self._adopt()
        else:
            self._files.create()
        created = delta.create(self.path, self.schema)
        self._files.sync(int(created.version()))
        return created

    def _open(self) -> DeltaTable:
        try:
            found = DeltaTable(str(self.path))
        except Exception as exc:
            raise ClusterFailure(f"table {self.path} can't be opened: {exc}") from exc
        self._files.check_present(delta.live_files(found))
        return found

    def _adopt(self) -> DeltaTable:
        """A table from before there were sync logs: its current content is taken as correct."""
        found = DeltaTable(str(self.path))
        found.create_checkpoint()
        self._files.adopt(int(found.version()), delta.live_files(found))
        return found

    def _add_missing_columns(self) -> None:
        """A table that an older version has made may lack columns."""
        known = {field.name for field in self._delta.schema().fields}
        for field in self.schema:
            if field.name not in known:
                delta.add_column(self._delta, field)
                self._files.sync(self.version)

    @property
    def failure(self) -> str:
        """Why no commit can be durable any more before a restart, or empty."""
        return self._files.failure

    @property
    def id(self) -> str:
        """Delta's own identity of the table, assigned at its creation."""
        return str(self._delta.metadata().id)

    @property
    def version(self) -> int:
        """Changes with every change to the table's files: commits, compactions, deletions, new columns."""
        return int(self._delta.version())

    def transaction(self, app: str) -> int | None:
        """The version last committed for the application `app`, or None."""
        with self._lock:
            self._settle()
            if app not in self._transactions:
                self._transactions[app] = self._delta.transaction_version(app)
            return self._transactions[app]

    @property
    def removals(self) -> int:
        """How often rows were removed, plus one. It changes together with the rows."""
        return (self.transaction(_REMOVALS_APP) or 0) + 1

    def next_number(self) -> int:
        """The number that the next commit takes, whether or not a failed one happened."""
        with self._lock:
            self._settle()
            return self.sequence + 1

    def skip_to(self, number: int) -> None:
        """Never use a number up to `number` again; the next commit takes one above it."""
        with self._lock:
            self.sync()
            self.sequence = self.durable = max(self.sequence, number)

    def append(
        self, rows: pa.Table, transactions: Mapping[str, int] | None = None, *, rows_per_number: int | None = None
    ) -> int:
        """Commit `rows` (without `_seq`) together with `transactions`; returns the commit's number.

        With `rows_per_number`, a commit of more rows takes several numbers, and the last one is returned.
        """
        return self._append(rows, transactions or {}, "append", rows_per_number or max(1, rows.num_rows))

    def replace(self, rows: pa.Table) -> int:
        """Commit `rows` as a replacement of everything in the table."""
        return self._append(rows, {}, "overwrite", max(1, rows.num_rows))

    def _append(self, rows: pa.Table, transactions: Mapping[str, int], mode: str, rows_per_number: int) -> int:
        with self._changing():
            before = self.sequence
            last: int = before + max(1, -(-rows.num_rows // rows_per_number))
            stamped = self._stamp(rows, before + 1, rows_per_number)
            is_written = stamped.num_rows or mode == "overwrite"
            actions = [self._write(stamped, (before + 1, last), is_change=True)] if is_written else []
            self._commit(actions, last, transactions, mode)
            if mode == "overwrite":
                self.recent.clear(since=before)
            for at, number in enumerate(range(before + 1, last + 1)):
                self.recent.add(number, stamped.slice(at * rows_per_number, rows_per_number))
            # Readers hold no lock: they see the new number last, once its rows can be read from memory.
            self.sequence = last
            return last

    def _stamp(self, rows: pa.Table, first: int, rows_per_number: int) -> pa.Table:
        if rows.num_rows <= rows_per_number:
            numbers = pa.repeat(pa.scalar(first, pa.int64()), rows.num_rows)
        else:
            numbers = pa.array(first + np.arange(rows.num_rows) // rows_per_number, pa.int64())
        return (
            rows.append_column(self.schema.field(SEQUENCE_COLUMN), numbers).select(self.schema.names).cast(self.schema)
        )

    def _write(self, rows: pa.Table, commits: tuple[int, int], *, is_change: bool) -> AddAction:
        action, check = delta.write_file(self.path, rows, commits, is_change=is_change)
        self._files.note_written(action.path, check)
        return action

    def _commit(self, actions: Sequence[AddAction], sequence: int, transactions: Mapping[str, int], mode: str) -> None:
        try:
            delta.commit(self._delta, actions, mode, self.schema, {_SEQUENCE_APP: sequence, **transactions})
        except Exception as exc:
            if not self._has_happened(sequence):
                raise ClusterFailure(f"commit {sequence} of table {self.path.name} failed: {exc}") from exc
            log.warning("a commit failed after it had happened", table=str(self.path), commit=sequence, exc_info=exc)
        self._transactions.update(transactions)
        self._commits_since_compaction += 1
        self._commits_since_checkpoint += 1
        if self._commits_since_checkpoint >= _CHECKPOINT_EVERY:
            self._checkpoint()

    def _checkpoint(self) -> None:
        """A checkpoint that fails is made after one of the next commits: only speed depends on it."""
        try:
            self._make_checkpoint()
        except Exception as exc:
            log.warning("a checkpoint failed; trying again later", table=str(self.path), exc_info=exc)
        else:
            self._commits_since_checkpoint = 0

    def _make_checkpoint(self) -> None:
        self._delta.create_checkpoint()
        self._files.note_checkpoint(int(self._delta.version()))
        self._delta = DeltaTable(str(self.path))

    def sync(self) -> int:
        """Make all commits so far survive a crash and a power cut; returns the number of the last one."""
        with self._lock:
            version, sequence = self.version, self.sequence
            if self._is_dropped:
                return sequence
        self._files.sync(version)
        with self._lock:
            self.durable = max(self.durable, sequence)
        return sequence

    # When a change fails

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """One change at a time, starting from a certain state of the table."""
        with self._lock:
            if self._is_dropped:
                raise ClusterFailure(f"table {self.path} was dropped")
            self._settle()
            try:
                yield
            except Exception:
                self._is_unclear = True
                raise

    def _has_happened(self, sequence: int) -> bool:
        """Whether the commit with this number is in the table. Raises if that can't be found out now."""
        self._is_unclear = True
        self._read_again()
        return bool(self._delta.transaction_version(_SEQUENCE_APP) == sequence)

    def _settle(self) -> None:
        """Find out whether a failed change happened, before anything is built on it."""
        if not self._is_unclear:
            return
        self._read_again()
        self.sequence = max(self.sequence, self._delta.transaction_version(_SEQUENCE_APP) or 0)
        self.recent.clear(since=self.sequence)

    def _read_again(self) -> None:
        try:
            self._delta = DeltaTable(str(self.path))
        except Exception as exc:
            raise ClusterFailure(f"table {self.path.name} can't be read: {exc}") from exc
        self._transactions.clear()
        self._is_unclear = False

    def read(
        self,
        after: int = 0,
        through: int | None = None,
        where: ds.Expression | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows with `after < _seq <= through`, from memory if it reaches back far enough."""
        wanted = list(columns or self.schema.names)
        last = self.sequence if through is None else through
        if last <= after:
            return self.schema.empty_table().select(wanted)
        recent = self.recent.window(after, last)
        if recent is not None:
            rows = pa.concat_tables([self.schema.empty_table(), *recent], promote_options="default")
            # Arrow takes a millisecond and more to filter even an empty table.
            return (rows.filter(where) if where is not None and rows.num_rows else rows).select(wanted)
        condition = (ds.field(SEQUENCE_COLUMN) > after) & (ds.field(SEQUENCE_COLUMN) <= last)
        if where is not None:
            condition = condition & where
        try:
            try:
                return self.dataset(after).to_table(columns=wanted, filter=condition)
            except FileNotFoundError:
                # `erase_past` ran in between: the same rows are in other files now.
                return self.dataset(after).to_table(columns=wanted, filter=condition)
        except (OSError, pa.ArrowException) as exc:
            raise ClusterFailure(f"a file of table {self.path} can't be read: {exc}") from exc

    def dataset(self, after: int = 0) -> ds.Dataset:
        """The files that hold rows with `_seq > after`, for Arrow to scan."""
        return ds.dataset(self.files(after), schema=self.schema, format=delta.CHECKED_PARQUET)

    def files(self, after: int = 0) -> list[str]:
        """Paths of the Parquet files that hold rows with `_seq > after`. A damaged file is an error. The reader
        verifies the checksums of their pages."""
        with self._lock:
            names = delta.files_after(self._delta, after)
        self._files.verify(names)
        return [str(self.path / name) for name in names]

    def size_bytes(self) -> int:
        with self._lock:
            return delta.total(self._delta, "size_bytes")

    def count(self) -> int:
        with self._lock:
            return delta.total(self._delta, "num_records")

    def add_column(self, field: pa.Field) -> None:
        """Additive schema evolution; existing rows read as NULL there."""
        with self._changing():
            delta.add_column(self._delta, field)
            # The catalogue is changed next, and must not be ahead.
            self.sync()
            at = len(self.schema) - 1
            self.schema = self.schema.insert(at, field)
            self.recent.clear(since=self.sequence)

    def delete(self, predicate: str, is_rewritten: ds.Expression = _ALL_FILES) -> None:
        """Remove the rows for which the SQL `predicate` holds; the commit sequence does not change. `is_rewritten` says
        which files may lose some of their rows and keep others."""
        with self._changing():
            self._verify_to_rewrite(self._delta, is_rewritten)
            removal = self._next_removal()
            delta.delete(self._delta, predicate, removal)
            self._transactions.pop(_REMOVALS_APP, None)  # Without a row to remove there was no commit.
            self.recent.clear(since=self.sequence)

    def _next_removal(self) -> dict[str, int]:
        return {_REMOVALS_APP: self.removals}

    def delete_through(self, sequence: int) -> None:
        """Retention: remove the rows of all commits up to `sequence`."""
        # Other files lose all their rows, or none.
        first, last = ds.field(f"min.{SEQUENCE_COLUMN}"), ds.field(f"max.{SEQUENCE_COLUMN}")
        is_rewritten = (first <= sequence) & (last > sequence) | first.is_null() | last.is_null()
        self.delete(f"{SEQUENCE_COLUMN} <= {int(sequence)}", is_rewritten)

    def delete_between(self, after: int, through: int, predicate: str) -> None:
        """Retention: remove the rows for which `predicate` holds, among those with `after < _seq <= through`."""
        first, last = ds.field(f"min.{SEQUENCE_COLUMN}"), ds.field(f"max.{SEQUENCE_COLUMN}")
        is_rewritten = (first <= through) & (last > after) | first.is_null() | last.is_null()
        numbers = f"{SEQUENCE_COLUMN} > {int(after)} AND {SEQUENCE_COLUMN} <= {int(through)}"
        self.delete(f"{numbers} AND {predicate}", is_rewritten)

    def first_number(self) -> int | None:
        """A number that no row is below; None if there are no rows."""
        with self._lock:
            return delta.first_commit(self._delta)

    def _verify_to_rewrite(self, handle: DeltaTable, is_rewritten: ds.Expression) -> None:
        """Check files before a rewrite, because delta-rs verifies nothing: its copy of a damaged file would have a
        valid checksum ever after."""
        self._files.verify(delta.live_files(handle, is_rewritten), again=True)

    def replace_files(self, parts: Iterable[pa.Table], *, is_removal: bool = False) -> None:
        """Rewrite the table as these rows, which keep their `_seq`, with a file for each part: a compaction that knows
        which rows are dead, or a removal of rows that were alive."""
        with self._changing():
            removal = self._next_removal() if is_removal else {}
            actions = [self._rewritten(rows) for rows in parts if rows.num_rows]
            actions = actions or [self._rewritten(self.schema.empty_table())]
            delta.commit(self._delta, actions, "overwrite", self.schema, removal)
            self._transactions.update(removal)
            self._commits_since_compaction = len(actions)

    def _rewritten(self, rows: pa.Table) -> AddAction:
        bounds = pc.min_max(rows.column(SEQUENCE_COLUMN)).as_py() if rows.num_rows else {"min": 0, "max": 0}
        rows = rows.select(self.schema.names).cast(self.schema)
        return self._write(rows, (bounds["min"], bounds["max"]), is_change=False)

    def needs_compaction(self, every_commits: int) -> bool:
        return self._commits_since_compaction >= every_commits

    def compact(self) -> None:
        """Merge small files. Runs beside appends: an append never conflicts with a rewrite of older files."""
        with self._upkeep:
            if not self._has_upkeep:
                return
            self._commits_since_compaction = 0
            handle = DeltaTable(str(self.path))
            self._verify_to_rewrite(handle, delta.IS_SMALL)
            delta.compact(handle)
            with self._changing():
                self._delta.update_incremental()
                self._commits_since_compaction = 0

    def tidy(self) -> None:
        """Remove log files that a checkpoint makes unnecessary, and data files that nothing refers to."""
        with self._upkeep:
            if not self._has_upkeep:
                return
            # The state that a restart falls back to must not refer to anything that is removed here.
            self.sync()
            self._files.tidy()
            delta.vacuum(DeltaTable(str(self.path)))

    def erase_past(self) -> None:
        """Remove from all files everything that the table no longer holds: rows that were deleted or replaced, and the
        Delta log's entries about their removal. A reader of a removed file gets an error, and reads again."""
        with self._upkeep, self._changing():
            if not self._has_upkeep:
                return
            try:
                self._make_checkpoint()
                # Nothing is committed between the two, because each checkpoint needs a version of its own.
                delta.commit(self._delta, [], "append", self.schema, {_SEQUENCE_APP: self.sequence})
                self._make_checkpoint()
            except Exception as exc:
                raise ClusterFailure(f"no checkpoint of table {self.path.name} can be made: {exc}") from exc
            self._commits_since_checkpoint = 0
            self.sync()
            self._files.erase_past(delta.live_files(self._delta))

    def end_upkeep(self) -> None:
        """The table is about to be dropped: wait for upkeep under way, and let none begin."""
        with self._upkeep:
            self._has_upkeep = False

    def drop(self) -> None:
        """Refuse all further writes: a user of this object must not touch another table made at its path."""
        self.end_upkeep()
        with self._lock:
            self._is_dropped = True
