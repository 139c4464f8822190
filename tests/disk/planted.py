"""The same stores with one bug in them, which cuts or flips must find. Nothing in the product knows of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from chaos.substitution import substitute


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    plant: Callable[[], None]
    #: What is damaged to find it, for bugs that flipped bits find.
    damaged: tuple[str, ...] = ()
    #: Whether the run before must end by a kill, or must not: only a killed one leaves write-ahead logs, which have
    #: checksums of their own and hide rows of the databases. None: either.
    is_killed: bool | None = None


def _landing_without_sync() -> None:
    from tocsin.cluster.feeds import landing

    substitute(landing, "_fdatasync", lambda _descriptor: None)


def _data_files_without_sync() -> None:
    from tocsin.cluster.datasets import table_files

    substitute(table_files, "sync_file", lambda _path: None)


def _sync_log_without_sync() -> None:
    from tocsin.cluster.datasets.table_files import TableFiles

    append = TableFiles._append

    def hasty(self: Any, line: Any) -> None:
        import os

        real, os.fsync = os.fsync, lambda _descriptor: None
        try:
            append(self, line)
        finally:
            os.fsync = real

    substitute(TableFiles, "_append", hasty)


def _results_told_before_sync() -> None:
    from tocsin.cluster.results.store import ResultStore

    init = ResultStore.__init__

    def forgetful(self: Any, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **options)
        self.table.sync = lambda: None

    substitute(ResultStore, "__init__", forgetful)


def _bounds_before_rows() -> None:
    from tocsin.cluster.datasets.store import DatasetStore

    substitute(DatasetStore, "sync", lambda self, names: None)


def _log_released_early() -> None:
    from tocsin.cluster.maintenance import Maintenance

    def release(self: Any) -> None:
        self.intake.release(self.ingested_position())

    substitute(Maintenance, "release_log", release)


def _catalogue_without_sync() -> None:
    from tocsin.cluster import database
    from tocsin.runtime import schema

    open_database, open_engine = database.open_database, schema.open_engine

    def careless_engine(*arguments: Any, **options: Any) -> Any:
        import sqlalchemy as sa

        engine = open_engine(*arguments, **options)

        @sa.event.listens_for(engine, "connect")
        def _tune(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA synchronous = OFF")

        return engine

    def careless(*arguments: Any, **options: Any) -> Any:
        # The coordinator's database is opened by the same function, and stays as it is.
        substitute(schema, "open_engine", careless_engine)
        try:
            return open_database(*arguments, **options)
        finally:
            substitute(schema, "open_engine", open_engine)

    substitute(database, "open_database", careless)


def _data_files_unchecked() -> None:
    """Data files are checked twice: as a whole before they are first read, and page by page."""
    from pyarrow.dataset import ParquetFileFormat

    from tocsin.cluster.datasets import delta, table_files

    substitute(table_files, "_is_as_written", lambda _path, _check: True)
    substitute(delta, "CHECKED_PARQUET", ParquetFileFormat())


def _rows_unchecked() -> None:
    from tocsin.runtime import digests

    substitute(digests, "_checksum", lambda *_values: 0)


def _changes_uncounted() -> None:
    from tocsin.runtime.digests import NotedChanges

    substitute(NotedChanges, "check", lambda self, connection: None)


def _all(*bugs: Bug) -> dict[str, Bug]:
    return {bug.name: bug for bug in bugs}


CUT_BUGS = _all(
    Bug("landing-without-sync", "records are acknowledged before they are synced", _landing_without_sync),
    Bug("data-files-without-sync", "a sync leaves data files out", _data_files_without_sync),
    Bug("sync-log-without-sync", "a sync leaves the sync log out", _sync_log_without_sync),
    Bug(
        "results-told-before-sync",
        "brokers pull what is not synced; its numbers are used again",
        _results_told_before_sync,
    ),
    Bug("bounds-before-rows", "bounds are synced before the rows below them", _bounds_before_rows),
    Bug("log-released-early", "the landing log lets go of what is not synced in tables", _log_released_early),
    Bug(
        "catalogue-without-sync",
        "subscriptions are told before they are synced; their numbers are used again",
        _catalogue_without_sync,
    ),
)
_TABLES = ("results", "rows")
_DATABASES = ("cluster's database", "coordinator's database")
FLIP_BUGS = _all(
    Bug("unlooked-checksum", "data files are read unchecked", _data_files_unchecked, _TABLES),
    Bug("unlooked-rows", "rows of databases are read unchecked", _rows_unchecked, _DATABASES, is_killed=False),
    Bug(
        "unlooked-changes",
        "nobody notices that a write-ahead log has lost its end",
        _changes_uncounted,
        _DATABASES,
        is_killed=True,
    ),
)
