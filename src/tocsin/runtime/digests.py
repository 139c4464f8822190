"""Digests of an SQLite database's tables: a flipped bit in a row is an error when the database is opened.

SQLite can check the structure of its files, but not the content of rows. So triggers keep, for each table, the sum of
its rows' checksums, in the transaction that changes the rows; `check_digests` adds them up again and compares. The
declarations of tables and triggers have a checksum too, which only a migration may change.

A write-ahead log ends silently at its first bad frame: a flipped bit there undoes transactions that had been synced. So
the number of changes ever made is noted in a small file beside the database after each transaction. That file is not
synced: it is a lower bound.
"""

from __future__ import annotations

import os
import sqlite3
import struct
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final
from zlib import crc32

from tocsin.errors import ClusterFailure
from tocsin.runtime.durable_folders import sync_way_to

_TABLE: Final = "row_digest"
#: The digest of all declarations is stored beside those of tables, under this name.
_DECLARATIONS: Final = "sqlite_master"
_FUNCTION: Final = "row_checksum"
#: Errors from reading a damaged database: SQLite does not check that names are valid text.
UNREADABLE: Final = (sqlite3.DatabaseError, UnicodeDecodeError)
_NOTED: Final = struct.Struct("<QI")
_WHAT_TO_DO: Final = "restore it from a backup; if there is none, docs/guides/operate.md says how to go on without it"


def register(connection: sqlite3.Connection) -> None:
    """Every connection that writes needs this before its first change."""
    connection.create_function(_FUNCTION, -1, _checksum, deterministic=True)
    # Rows that REPLACE removes must be subtracted as well.
    connection.execute("PRAGMA recursive_triggers = ON")


def _checksum(*values: object) -> int:
    return crc32(repr(values).encode("utf-8", "surrogatepass"))


def check_digests(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `ClusterFailure` if the database is damaged. Tables that have no digest yet get one."""
    sync_way_to(path.parent)
    try:
        _check_structure(connection, path)
        # Other processes may open the same database: one of them makes missing digests.
        connection.execute("BEGIN IMMEDIATE")
        try:
            _check_rows(connection, path)
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
    except UNREADABLE as exc:
        raise unreadable(path, exc) from exc


def _check_structure(connection: sqlite3.Connection, path: Path) -> None:
    found = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(1)")]
    if found != ["ok"]:
        raise _damaged(path, found[0])


def _check_rows(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} "
        "(name TEXT PRIMARY KEY, total INTEGER NOT NULL, changes INTEGER NOT NULL) WITHOUT ROWID"
    )
    known = dict(connection.execute(f"SELECT name, total FROM {_TABLE}"))
    if known.pop(_DECLARATIONS, None) not in (None, _declarations(connection)):
        raise _damaged(path, "the declarations of its tables have changed")
    tables = _tables(connection)
    if lost := sorted(known.keys() - set(tables)):
        raise _damaged(path, f"its table {lost[0]} is gone")
    for table in tables:
        columns = [str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")')]
        total = _total(connection, table, columns)
        has_triggers = _has_triggers(connection, table, columns)
        if has_triggers and table in known:
            if total != known[table]:
                raise _damaged(path, f"rows of its table {table} differ from the rows that were written")
            continue
        # A new table, or one whose columns have changed.
        _put_triggers(connection, table, columns)
        connection.execute(
            f"INSERT INTO {_TABLE} VALUES (?, ?, 0) ON CONFLICT (name) DO UPDATE SET total = excluded.total",
            (table, total),
        )
    connection.execute(
        f"INSERT INTO {_TABLE} VALUES (?, ?, 0) ON CONFLICT (name) DO UPDATE SET total = excluded.total",
        (_DECLARATIONS, _declarations(connection)),
    )


def _declarations(connection: sqlite3.Connection) -> int:
    declared = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
    return _checksum(*declared.fetchall())


def _tables(connection: sqlite3.Connection) -> list[str]:
    """The tables with rows of ours. Alembic changes versions, and an unknown version is refused anyway."""
    names = [str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return [
        name for name in names if not name.startswith("sqlite_") and not name.endswith("_version") and name != _TABLE
    ]


def _total(connection: sqlite3.Connection, table: str, columns: list[str]) -> int:
    return int(
        connection.execute(f'SELECT coalesce(sum({_row_checksum("", columns)}), 0) FROM "{table}"').fetchone()[0]
    )


def _row_checksum(row: str, columns: list[str]) -> str:
    quoted = ", ".join(f'{row}"{column}"' for column in columns)
    return f"{_FUNCTION}({quoted})"


def _triggers(table: str, columns: list[str]) -> dict[str, str]:
    """The statements that create a table's triggers, by the triggers' names."""
    old, new = _row_checksum("OLD.", columns), _row_checksum("NEW.", columns)
    changes = {"insert": f"+ {new}", "delete": f"- {old}", "update": f"- {old} + {new}"}
    return {
        f"{table}_digest_{event}": (
            f'CREATE TRIGGER "{table}_digest_{event}" AFTER {event.upper()} ON "{table}" BEGIN '
            f"UPDATE {_TABLE} SET total = total {change}, changes = changes + 1 WHERE name = '{table}'; END"
        )
        for event, change in changes.items()
    }


def _has_triggers(connection: sqlite3.Connection, table: str, columns: list[str]) -> bool:
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    return dict(connection.execute(query, (table,))) == _triggers(table, columns)


def _put_triggers(connection: sqlite3.Connection, table: str, columns: list[str]) -> None:
    for name, statement in _triggers(table, columns).items():
        connection.execute(f'DROP TRIGGER IF EXISTS "{name}"')
        connection.execute(statement)


def note_migration(connection: sqlite3.Connection) -> None:
    """After a migration: dropped tables need no digest, and changed declarations need a new one."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (_TABLE,)).fetchone():
        connection.execute(
            f"DELETE FROM {_TABLE} WHERE name = ? OR name NOT IN (SELECT name FROM sqlite_master)", (_DECLARATIONS,)
        )


class NotedChanges:
    """How many changes are known to have been synced, in a file beside the database."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._path = database.with_name(f"{database.name}-changes")
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        self._is_closed = False
        self._lock = threading.Lock()
        self._noted = self._read()

    def lost(self, connection: sqlite3.Connection) -> int:
        """How many noted changes are missing. From now on only existing changes count."""
        found = changes(connection)
        lost, self._noted = max(0, self._noted - found), 0
        self.note(found)
        return lost

    def check(self, connection: sqlite3.Connection) -> None:
        """Raises `ClusterFailure` if synced changes are missing."""
        if (found := changes(connection)) < self._noted:
            lost = self._noted - found
            raise _damaged(self._database, f"{lost} changes are gone that had been synced: its -wal file is damaged")

    def note(self, count: int) -> None:
        """Needs no sync of its own, and may fail: it is a lower bound."""
        with self._lock, suppress(OSError):
            if count > self._noted and not self._is_closed:
                packed = struct.pack("<Q", count)
                os.pwrite(self._file, packed + struct.pack("<I", crc32(packed)), 0)
                self._noted = count

    def close(self) -> None:
        """Later notes are dropped: another file may soon have the descriptor's number."""
        with self._lock:
            if not self._is_closed:
                os.close(self._file)
            self._is_closed = True

    def _read(self) -> int:
        """The noted number; 0 if the note is damaged."""
        content = os.pread(self._file, _NOTED.size, 0)
        if len(content) < _NOTED.size or crc32(content[:8]) != _NOTED.unpack(content)[1]:
            return 0
        return int(_NOTED.unpack(content)[0])


def changes(connection: sqlite3.Connection) -> int:
    """How many changes were ever made to the rows of this database."""
    return int(connection.execute(f"SELECT coalesce(sum(changes), 0) FROM {_TABLE}").fetchone()[0])


def unreadable(path: Path, reason: Exception) -> ClusterFailure:
    return ClusterFailure(f"{path} can't be read: {reason}; {_WHAT_TO_DO}")


def _damaged(path: Path, reason: str) -> ClusterFailure:
    return ClusterFailure(f"{path} is damaged: {reason}; {_WHAT_TO_DO}")
