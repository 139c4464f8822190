"""The databases that stores promise the same over: SQLite always, PostgreSQL where its programs are installed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
import sqlalchemy as sa

from postgresql_server import PostgresqlServer

#: What `open_catalogue` and `open_tables` take.
Database: TypeAlias = Path | str

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresqlServer]:
    """One server for all tests of a process. Tests must not stop it."""
    server = PostgresqlServer()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.servers)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """An empty database of either kind."""
    if request.param == "sqlite":
        yield tmp_path / "test.sqlite"
    else:
        with fresh_database(request.getfixturevalue("postgresql")) as name:
            yield request.getfixturevalue("postgresql").url(name)


@contextmanager
def fresh_database(server: PostgresqlServer) -> Iterator[str]:
    """The name of a new database. Afterwards it is gone, and so are connections that the test has left open."""
    name = f"test_{next(_numbers)}"
    server.sql(f"CREATE DATABASE {name}")
    opened = []

    def note(connection: object, _record: object) -> None:
        opened.append(connection)

    sa.event.listen(sa.Pool, "connect", note)
    try:
        yield name
    finally:
        sa.event.remove(sa.Pool, "connect", note)
        for connection in opened:
            connection.close()
        server.sql(f"DROP DATABASE {name} WITH (FORCE)")
