"""A dataset as it is stored: its rows, its dead letters and, for keyed datasets, the living rows in memory."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tocsin.cluster.datasets.arrow import ARROW_TYPES, arrow_schema
from tocsin.cluster.datasets.keyed import KeyedIndex, last_per_key
from tocsin.cluster.datasets.tables import Table
from tocsin.errors import NotFound
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import SEQUENCE_COLUMN, Column

#: The application transaction that says how far the landing log has been ingested into a table.
LANDING_APP = "landing"

DEAD_LETTERS = pa.schema(
    [
        ("position", pa.int64()),
        ("line", pa.int32()),
        ("feed", pa.string()),
        ("reason", pa.string()),
        ("raw", pa.string()),
        ("rejected_at", pa.timestamp("us", tz="UTC")),
    ]
)
_DEAD_LETTERS_RECENT_BYTES = 8 << 20


def dead_letter(*values: Any) -> dict[str, Any]:
    """A row of `DEAD_LETTERS`."""
    return dict(zip(DEAD_LETTERS.names, values, strict=True))


#: A sync that fails here fails again for the caller that needs it.
_syncing = ThreadPoolExecutor(max_workers=2, thread_name_prefix="sync")


class StoredDataset:
    """Rows in, snapshots and windows out. Commits are serial; reads may run beside them."""

    def __init__(self, dataset: Dataset, path: Path, *, recent_max_bytes: int) -> None:
        self.dataset = dataset
        self.path = path
        self.rows = Table(path / "rows", arrow_schema(dataset.schema), recent_max_bytes=recent_max_bytes)
        self.dead_letters = Table(path / "dead_letters", DEAD_LETTERS, recent_max_bytes=_DEAD_LETTERS_RECENT_BYTES)
        self._lock = threading.RLock()
        self._retained = 0
        self._keyed: KeyedIndex | None = None
        #: The commit up to which the living rows are known.
        self._applied = 0
        if dataset.kind is DatasetKind.KEYED:
            self._keyed = KeyedIndex(self.rows.schema, dataset.schema.primary_key)
            self._apply(self._keyed)

    @property
    def sequence(self) -> int:
        return self.rows.sequence

    def __len__(self) -> int:
        return self.rows.count() if self._keyed is None else len(self._keyed)

    def commit(self, rows: pa.Table, transactions: Mapping[str, int] | None = None) -> int:
        """Append rows in arrival order; returns the commit's number."""
        with self._lock:
            if self._keyed is None:
                sequence = self.rows.append(rows, transactions)
            else:
                sequence = self.rows.append(last_per_key(rows, self.dataset.schema.primary_key), transactions)
                self._apply(self._keyed)
        # In parallel with the runs that follow: when they have results, the sync is mostly done.
        _syncing.submit(self.sync)
        return sequence

    def _apply(self, keyed: KeyedIndex) -> None:
        """Apply all commits since the last call, including one that had seemed to fail."""
        before, self._applied = self._applied, self.rows.sequence
        rows = self.rows.read(before, self._applied)
        keyed.apply(rows if self._applied == before + 1 else rows.sort_by(SEQUENCE_COLUMN))

    def replace(self, rows: pa.Table) -> int:
        """Replace all rows with `rows`; for reference datasets."""
        with self._lock:
            self.rows.replace(rows)
            return self.rows.sync()

    def keys(self) -> pa.Table:
        """The primary keys of all rows."""
        return self.rows.read(columns=list(self.dataset.schema.primary_key))

    def delete_keys(self, rows: pa.Table) -> None:
        """Remove the rows of a keyed dataset that have the keys of `rows`, and all rows that those replaced."""
        assert self._keyed is not None, "only keyed datasets have rows that keys stand for"
        with self._lock:
            self._keyed.remove(rows)
            self.rows.replace_files([self._keyed.snapshot()], is_removal=True)
            self.rows.recent.clear(since=self.rows.sequence)
            self.rows.sync()

    def sync(self) -> None:
        """Make all commits so far survive a power cut. Dead letters first, as they are committed first."""
        self.dead_letters.sync()
        self.rows.sync()

    def window(self, after: int, through: int) -> pa.Table:
        """The rows of commits in `(after, through]`; of a keyed dataset, the last row of each key among them."""
        rows = self.rows.read(after, through)
        if self._keyed is None:
            return rows
        return last_per_key(rows.sort_by(SEQUENCE_COLUMN), self.dataset.schema.primary_key)

    def living(self) -> tuple[int, pa.Table]:
        """A keyed dataset's living rows and the commit as of which they are."""
        assert self._keyed is not None, "only keyed datasets have living rows in memory"
        with self._lock:
            return self.rows.sequence, self._keyed.snapshot()

    def add_column(self, column: Column) -> None:
        field = pa.field(column.name, ARROW_TYPES[column.type])
        with self._lock:
            self.rows.add_column(field)
            if self._keyed is not None:
                self._keyed.add_column(field, at=len(self.rows.schema) - 2)
            dataset = self.dataset
            self.dataset = Dataset(dataset.name, dataset.kind, dataset.schema.with_column(column))

    def retain(self, through: int, oldest_us: int) -> None:
        """Remove the rows of commits up to `through`, and dead letters from before `oldest_us`."""
        if through > self._retained:
            self.rows.delete_through(through)
            self._retained = through
        old = ds.field("rejected_at") < pa.scalar(oldest_us, DEAD_LETTERS.field("rejected_at").type)
        if self.dead_letters.read(where=old).num_rows:
            when = datetime.fromtimestamp(oldest_us / 1e6, UTC).isoformat()
            self.dead_letters.delete(f"rejected_at < '{when}'")

    def end_upkeep(self) -> None:
        """The dataset is about to be dropped: wait for upkeep under way, and let none begin."""
        self.rows.end_upkeep()
        self.dead_letters.end_upkeep()

    def compact(self) -> None:
        """Merge small files; of a keyed dataset, drop the rows that later ones have replaced."""
        if self._keyed is None:
            self.rows.compact()
            return
        with self._lock:
            self.rows.replace_files([self._keyed.snapshot()])


class DatasetStore:
    """All datasets of the cluster, below one folder."""

    def __init__(self, folder: Path, *, recent_max_bytes: int) -> None:
        self._folder = folder
        self._recent_max_bytes = recent_max_bytes
        self._stored: dict[str, StoredDataset] = {}

    def __iter__(self) -> Iterator[StoredDataset]:
        return iter(list(self._stored.values()))

    def __getitem__(self, name: str) -> StoredDataset:
        if (found := self._stored.get(name.lower())) is None:
            raise NotFound(f"no dataset called {name}")
        return found

    def get(self, name: str) -> StoredDataset | None:
        return self._stored.get(name.lower())

    def tables(self) -> list[Table]:
        """The tables of all datasets."""
        return [table for stored in self for table in (stored.rows, stored.dead_letters)]

    def open(self, dataset: Dataset) -> StoredDataset:
        path = self._folder / dataset.name.lower()
        stored = StoredDataset(dataset, path, recent_max_bytes=self._recent_max_bytes)
        self._stored[dataset.name.lower()] = stored
        return stored

    def create(self, dataset: Dataset, landing_end: int) -> StoredDataset:
        """A new, empty dataset. The landing log's records so far were for a former dataset of the same name."""
        shutil.rmtree(self._folder / dataset.name.lower(), ignore_errors=True)
        stored = self.open(dataset)
        for table in (stored.rows, stored.dead_letters):
            table.append(table.schema.empty_table().drop_columns([SEQUENCE_COLUMN]), {LANDING_APP: landing_end})
        stored.sync()
        return stored

    def sync(self, names: Collection[str]) -> None:
        """Make all commits of these datasets survive a power cut; dropped datasets need nothing."""
        for name in names:
            if (stored := self.get(name)) is not None:
                stored.sync()

    def drop(self, name: str) -> None:
        if (stored := self._stored.pop(name.lower(), None)) is not None:
            stored.rows.drop()
            stored.dead_letters.drop()
            shutil.rmtree(stored.path, ignore_errors=True)
