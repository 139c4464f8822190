"""Keyed datasets: the latest row per primary key, kept current in the driver's memory.

The Delta table of a keyed dataset is the history of its updates; this index knows which of those rows are
alive. An update costs a dictionary look-up per row, whatever the dataset's size; a snapshot is one filter over
Arrow columns. Dead rows are dropped when they outnumber the living, here and in the table.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

#: Below this, dropping dead rows saves nothing worth the work.
_MIN_ROWS_TO_COMPACT = 50_000


class KeyedIndex:
    """Rows arrive in commit order; of each key the last one lives.

    >>> index = KeyedIndex(pa.schema([("user", pa.string()), ("x", pa.int64())]), ("user",))
    >>> index.apply(pa.table({"user": ["a", "b"], "x": [1, 2]}))
    >>> index.apply(pa.table({"user": ["a"], "x": [3]}))
    >>> sorted(index.snapshot().to_pydict()["x"])
    [2, 3]
    """

    def __init__(self, schema: pa.Schema, key: Sequence[str]) -> None:
        self._schema = schema
        self._key = list(key)
        self._lock = threading.Lock()
        self._row_of: dict[Hashable, int] = {}
        self._chunks: list[pa.Table] = []
        self._rows = 0
        self._alive = np.zeros(1024, dtype=bool)
        self._snapshot: pa.Table | None = None

    def __len__(self) -> int:
        return len(self._row_of)

    def apply(self, rows: pa.Table) -> None:
        """Add rows in commit order; for a key that comes twice, the last row counts."""
        keys = keys_of(rows, self._key)
        with self._lock:
            start = self._rows
            self._reserve(start + len(keys))
            row_of, alive = self._row_of, self._alive
            dead = [row_of.get(key, -1) for key in keys]
            row_of.update(zip(keys, range(start, start + len(keys)), strict=True))
            alive[start : start + len(keys)] = True
            alive[[row for row in dead if row >= 0]] = False
            if len(set(keys)) != len(keys):
                alive[start : start + len(keys)] = [row_of[key] == start + at for at, key in enumerate(keys)]
            self._chunks.append(rows)
            self._rows += len(keys)
            self._snapshot = None
            if self._rows > max(_MIN_ROWS_TO_COMPACT, 2 * len(row_of)):
                self._compact()

    def remove(self, rows: pa.Table) -> None:
        """Forget the living rows that have the keys of `rows`."""
        with self._lock:
            for key in keys_of(rows, self._key):
                if (row := self._row_of.pop(key, None)) is not None:
                    self._alive[row] = False
            self._compact()

    def snapshot(self) -> pa.Table:
        """The living rows. The value is immutable: later updates don't change it."""
        with self._lock:
            if self._snapshot is None:
                self._snapshot = self._living()
            return self._snapshot

    def add_column(self, field: pa.Field, at: int) -> None:
        with self._lock:
            self._schema = self._schema.insert(at, field)
            self._chunks = [chunk.add_column(at, field, pa.nulls(chunk.num_rows, field.type)) for chunk in self._chunks]
            self._snapshot = None

    def _living(self) -> pa.Table:
        everything = pa.concat_tables([self._schema.empty_table(), *self._chunks])
        return everything.filter(pa.array(self._alive[: self._rows]))

    def _reserve(self, rows: int) -> None:
        if rows > len(self._alive):
            grown = np.zeros(max(rows, 2 * len(self._alive)), dtype=bool)
            grown[: self._rows] = self._alive[: self._rows]
            self._alive = grown

    def _compact(self) -> None:
        living = self._living().combine_chunks()
        self._chunks = [living]
        self._rows = living.num_rows
        self._alive = np.ones(max(1024, self._rows), dtype=bool)
        self._row_of = {key: row for row, key in enumerate(keys_of(living, self._key))}
        self._snapshot = living


def keys_of(rows: pa.Table, key: Sequence[str]) -> list[Hashable]:
    """The key of each row: one value for one column, a tuple for several."""
    columns = [_hashable(rows.column(name)) for name in key]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def _hashable(column: pa.ChunkedArray) -> list[Hashable]:
    """Times as numbers: a record may hold one that Python can't represent, such as the year 10000."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(column.type):
        column = column.cast(pa.int32())
    values: list[Hashable] = column.to_pylist()
    return values


def last_per_key(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Only the last row of each key, of rows in arrival order."""
    keys = keys_of(rows, key)
    last = {value: at for at, value in enumerate(keys)}
    return rows if len(last) == len(keys) else rows.take(pa.array(sorted(last.values())))
