"""A lease as a row of a PostgreSQL database, by the database's clock. Transactions of a former leader are refused."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import psycopg
import sqlalchemy as sa

from tocsin.errors import Unavailable
from tocsin.runtime.database_address import in_one_line
from tocsin.runtime.leadership import LEASE_S
from tocsin.runtime.postgresql import LOCK

_RETRY_AFTER_S: Final = 1.0
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS tocsin_lease "
    "(name TEXT PRIMARY KEY, leader TEXT NOT NULL, term BIGINT NOT NULL, until TIMESTAMPTZ NOT NULL)"
)
_HAS_TABLE: Final = "SELECT to_regclass('tocsin_lease')"
_TAKE: Final = (
    "INSERT INTO tocsin_lease AS lease VALUES (%s, %s, 1, clock_timestamp() + %s * INTERVAL '1 s') "
    "ON CONFLICT (name) DO UPDATE SET leader = excluded.leader, term = lease.term + 1, until = excluded.until "
    "WHERE lease.until < clock_timestamp() RETURNING term"
)
#: A lease that has ended and that nobody has taken is renewed too.
_RENEW: Final = (
    "UPDATE tocsin_lease SET until = clock_timestamp() + %s * INTERVAL '1 s' "
    "WHERE name = %s AND term = %s RETURNING term"
)
_RELEASE: Final = "UPDATE tocsin_lease SET until = clock_timestamp() WHERE name = %s AND term = %s RETURNING term"
_LEADER: Final = "SELECT leader FROM tocsin_lease WHERE name = %s AND until >= clock_timestamp()"


class PostgresqlLease:
    """Has a connection of its own. Any thread may use it."""

    needs_renewal = True

    def __init__(self, url: sa.URL, name: str) -> None:
        self._url = url
        self._name = name
        self._leader = f"process {os.getpid()} on {socket.gethostname()}"
        self._term = 0
        self._connection: psycopg.Connection[Any] | None = None
        self._lock = threading.Lock()

    def take(self) -> int | None:
        term = self._query(_TAKE, (self._name, self._leader, LEASE_S))
        self._term = int(term or 0)
        return self._term or None

    def renew(self) -> bool:
        return self._query(_RENEW, (LEASE_S, self._name, self._term)) is not None

    def leader(self) -> str:
        return str(self._query(_LEADER, (self._name,)) or "")

    def release(self) -> None:
        with suppress(Unavailable):
            self._query(_RELEASE, (self._name, self._term))
        if self._connection is not None:
            self._connection.close()

    def _query(self, statement: str, given: Sequence[object]) -> Any:
        with self._lock:
            try:
                if self._connection is None:
                    self._connection = self._connect()
                row = self._connection.execute(statement, given).fetchone()
            except psycopg.Error as exc:
                if self._connection is not None:
                    self._connection.close()
                    self._connection = None
                raise Unavailable(
                    f"the database does not answer: {in_one_line(exc, self._url)}", retry_after_s=_RETRY_AFTER_S
                ) from exc
            return None if row is None else row[0]

    def _connect(self) -> psycopg.Connection[Any]:
        given, named = sa.create_engine(self._url).dialect.create_connect_args(self._url)
        options = {"connect_timeout": 5, "tcp_user_timeout": 5_000, "application_name": "tocsin lease"}
        connection = psycopg.Connection.connect(*given, **{**options, **named, "autocommit": True})
        # A row that a stopped process has locked must not keep others from asking.
        connection.execute("SET lock_timeout = '5s'")
        if connection.execute(_HAS_TABLE).fetchone() == (None,):
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK,))
                connection.execute(_TABLE)
        return connection
