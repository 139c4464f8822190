"""The same stores with one bug in them, which cuts or flips must find. Nothing in the product knows of it."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chaos.substitution import substitute


@dataclass(frozen=True, slots=True)
class Bug:
    name: str
    what: str
    plant: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Unlooked:
    """A check that is not made, in this process."""

    name: str
    what: str
    owner: str
    check: str
    instead: Callable[..., Any]

    @contextmanager
    def planted(self) -> Iterator[None]:
        owner = pkgutil.resolve_name(self.owner)
        real = getattr(owner, self.check)
        substitute(owner, self.check, self.instead)
        try:
            yield
        finally:
            setattr(owner, self.check, real)


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

    def careless(*arguments: Any, **options: Any) -> Any:
        import sqlalchemy as sa

        engine = schema.open_engine(*arguments, **options)

        @sa.event.listens_for(engine, "connect")
        def _tune(connection: Any, _record: Any) -> None:
            connection.execute("PRAGMA synchronous = OFF")

        return engine

    substitute(database, "open_engine", careless)


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
FLIP_BUGS = {
    bug.name: bug
    for bug in (
        Unlooked(
            "unlooked-checksum",
            "data files are read unchecked",
            "tocsin.cluster.datasets.table_files",
            "_is_as_written",
            lambda _path, _check: True,
        ),
        Unlooked(
            "unlooked-rows",
            "rows of databases are read unchecked",
            "tocsin.runtime.digests",
            "_checksum",
            lambda *_values: 0,
        ),
        Unlooked(
            "unlooked-changes",
            "nobody notices that a write-ahead log has lost its end",
            "tocsin.runtime.digests.NotedChanges",
            "check",
            lambda self, connection: None,
        ),
    )
}
