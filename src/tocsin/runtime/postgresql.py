"""A PostgreSQL database: how it is connected to, what its errors mean, and what a commit without an answer has come to.

If a connection breaks during a commit, the client can't know whether it has happened. So each transaction that changes
something also writes its number to a row that belongs to its connection. Afterwards that row tells.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Final

import psycopg
import sqlalchemy as sa
import structlog

from tocsin.errors import InvalidValue, TocsinError, Unavailable
from tocsin.runtime.database_address import in_one_line, shown
from tocsin.runtime.leadership import Term

log = structlog.get_logger(__name__)

#: The oldest version that PostgreSQL's own project still mends.
MINIMUM_VERSION: Final = 14
#: The first connection takes at most this long, whatever names resolve to and however many addresses they have.
_FIRST_WITHIN_S: Final = 25.0
#: A server that restarts is away for a second or two; after a crash it first reads its log.
_OUTCOME_WITHIN_S: Final = 20.0
_RETRY_OUTCOME_S: Final = 0.2
_RETRY_AFTER_S: Final = 1.0
#: Requests are handled by some forty threads, and most of them wait for each other rather than for the database.
#: Connections are kept: each has a row in the table of transactions.
_MOST_CONNECTIONS = 20
_WAIT_FOR_CONNECTION_S = 10.0
#: Sockets: a peer that is gone is noticed within half a minute. Sessions: a process that is stopped in the middle of a
#: transaction does not keep its locks, and a commit that got lost on its way has ended before its outcome is given up.
_CONNECT: Final[dict[str, Any]] = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
    "application_name": "tocsin",
}
_SESSION: Final = (
    "SELECT set_config('idle_in_transaction_session_timeout', '15s', false), "
    # Whoever made the database may have traded durability for speed; what is acknowledged here must be on disk.
    "CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END"
)

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS tocsin_transaction (connection TEXT PRIMARY KEY, number BIGINT NOT NULL, "
    "at TIMESTAMPTZ NOT NULL DEFAULT now())"
)
#: Nobody asks for an outcome after a day.
_FORGET: Final = "DELETE FROM tocsin_transaction WHERE at < now() - INTERVAL '1 day'"
#: Only for transactions that have changed something.
_NOTE: Final = (
    "INSERT INTO tocsin_transaction (connection, number) SELECT %s, %s "
    "WHERE pg_current_xact_id_if_assigned() IS NOT NULL "
    "ON CONFLICT (connection) DO UPDATE SET number = excluded.number, at = now()"
)
#: Waits for a transaction that the server has not ended yet.
_OUTCOME: Final = (
    "INSERT INTO tocsin_transaction (connection, number) VALUES (%s, 0) "
    "ON CONFLICT (connection) DO UPDATE SET at = now() RETURNING number"
)
#: So that two processes that open a new database don't both make it. Any number works, as long as all use the same.
LOCK: Final = 0x70C51

#: Whoever begins a new term waits for this transaction, and later ones of the former leader are refused.
_FENCE: Final = "SELECT term FROM tocsin_lease WHERE name = %s FOR SHARE"

#: SQLSTATE classes of errors that pass: connection, resources, operator, system, conflicting transactions.
_PASSING: Final = ("08", "40", "53", "55", "57", "58")
#: A server that has become a standby takes no changes until it is promoted, or the address leads elsewhere.
_READ_ONLY: Final = "25006"
#: Values that the database can't hold.
_WRONG_VALUE: Final = ("22", "54")


class Connection(psycopg.Connection[Any]):
    """`commit` returns only if the transaction has happened, and fails only if it has not. If that can't be found out
    in time, it fails too, and `on_doubt` is called."""

    name: str
    number: int
    reconnect: Callable[[], psycopg.Connection[Any]]
    on_doubt: Callable[[], None]
    term: Term | None

    def commit(self) -> None:
        if self.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            return
        self.number += 1
        is_noted = bool(self.execute(_NOTE, (self.name, self.number)).rowcount)
        if is_noted:
            self._check_term()
        try:
            super().commit()
        except psycopg.OperationalError:
            if not (is_noted and self.closed):
                raise
            if not self._has_happened():
                raise
            log.warning("a connection broke during a commit, which has happened")

    def rollback(self) -> None:
        """Of a broken connection, the server has done it."""
        if not self.closed:
            super().rollback()

    def _check_term(self) -> None:
        if self.term is None:
            return
        found = self.execute(_FENCE, (self.term.lease,)).fetchone()
        if found is None or found[0] != self.term.number:
            self.rollback()
            raise Unavailable("another process leads now", retry_after_s=_RETRY_AFTER_S)

    def _has_happened(self) -> bool:
        give_up_s = time.monotonic() + _OUTCOME_WITHIN_S
        while True:
            try:
                with closing(self.reconnect()) as asking:
                    asking.execute(f"SET lock_timeout = '{int(_OUTCOME_WITHIN_S)}s'")
                    found = asking.execute(_OUTCOME, (self.name,)).fetchone()
                    return found is not None and found[0] == self.number
            except psycopg.Error as exc:
                if time.monotonic() > give_up_s:
                    log.error("nobody knows whether a commit has happened", reason=type(exc).__name__)
                    self.on_doubt()
                    raise
                time.sleep(_RETRY_OUTCOME_S)


class _Pool(sa.QueuePool):
    def _do_get(self) -> Any:
        try:
            return super()._do_get()
        except sa.exc.TimeoutError as exc:
            raise Unavailable("too many requests wait for the database", retry_after_s=_RETRY_AFTER_S) from exc


# SQLAlchemy's own loggers say nothing below a warning, and this one is named after our class.
logging.getLogger(f"{__name__}.{_Pool.__name__}").setLevel(logging.WARNING)


def open_server(url: sa.URL, title: str, on_doubt: Callable[[], None], term: Term | None) -> sa.Engine:
    """An engine for a database that was reached and can be used. Raises InvalidValue if it can't be."""
    engine = sa.create_engine(
        url,
        poolclass=_Pool,
        pool_size=_MOST_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_WAIT_FOR_CONNECTION_S,
        pool_pre_ping=True,
        # Errors must not show what people subscribe to.
        hide_parameters=True,
    )

    @sa.event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, given: Any, named: dict[str, Any]) -> Connection:
        named = {**_CONNECT, **named, "autocommit": True}
        connection = Connection.connect(*given, **named)
        connection.execute(_SESSION)
        connection.autocommit = False
        connection.name, connection.number = uuid.uuid4().hex, 0
        connection.reconnect = partial(psycopg.Connection.connect, *given, **named)
        connection.on_doubt, connection.term = on_doubt, term
        return connection

    @sa.event.listens_for(engine, "handle_error")
    def _translate(context: Any) -> TocsinError | None:
        # A connection that is found broken before its use is replaced, and nobody is told.
        return None if context.is_pre_ping else _translated(context.original_exception, title, url)

    try:
        _check_server(engine, url)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _check_server(engine: sa.Engine, url: sa.URL) -> None:
    """Raises InvalidValue if this database can't be used."""
    failures: list[BaseException] = []

    def check() -> None:
        try:
            _take_up(engine)
        except Exception as exc:  # noqa: BLE001 - this thread passes it on
            failures.append(exc.__cause__ or exc)

    # Looking up a name has no time limit of its own.
    checking = threading.Thread(target=check, name="first connection", daemon=True)
    checking.start()
    checking.join(_FIRST_WITHIN_S)
    if checking.is_alive():
        failures = [TimeoutError(f"no answer within {_FIRST_WITHIN_S:g} s")]
    if failures:
        reason = in_one_line(failures[0], url)
        raise InvalidValue(f"setting database_url: {shown(url)} can't be used: {reason}") from failures[0]


def _take_up(engine: sa.Engine) -> None:
    with engine.begin() as connection:
        names = "server_version_num", "server_version", "server_encoding", "fsync", "transaction_read_only"
        asked = sa.select(*(sa.func.current_setting(one) for one in names))
        number, version, encoding, fsync, is_read_only = connection.execute(asked).one()
        if wrong := unsuitable(int(number), version, encoding, is_read_only == "on"):
            raise InvalidValue(wrong)
        if connection.execute(sa.select(sa.func.to_regclass("tocsin_transaction"))).scalar() is None:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(LOCK)))
            connection.exec_driver_sql(_TABLE)
        connection.exec_driver_sql(_FORGET)
    if fsync == "off":
        log.warning("fsync is off at the database server: a power cut there loses what was acknowledged")


def unsuitable(number: int, version: str, encoding: str, is_read_only: bool) -> str:
    """Why a server of this version and a database of this encoding can't be used; empty if they can.

    >>> unsuitable(130022, "13.22", "UTF8", False)
    'the server is PostgreSQL 13.22; Tocsin needs version 14 or later'
    """
    if number < MINIMUM_VERSION * 10_000:
        return f"the server is PostgreSQL {version}; Tocsin needs version {MINIMUM_VERSION} or later"
    if encoding != "UTF8":
        return f"its encoding is {encoding}; it has to be UTF8, as in CREATE DATABASE name ENCODING 'UTF8'"
    if is_read_only:
        return "the server takes no changes: it is a standby, or set to be read only"
    return ""


def _translated(error: BaseException | None, title: str, url: sa.URL) -> TocsinError | None:
    """An error of the database as ours; None for mistakes in our own statements, and for broken constraints."""
    state = getattr(error, "sqlstate", None) or ""
    if state.startswith(_WRONG_VALUE) or (isinstance(error, psycopg.DataError) and not state):
        return InvalidValue(f"{title} can't hold this value: {in_one_line(error, url)}" if error else "")
    is_passing = state.startswith(_PASSING) or state == _READ_ONLY
    if is_passing or isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        log.warning("the database does not answer", database=title, reason=in_one_line(error, url) if error else "")
        return Unavailable(f"{title} does not answer", retry_after_s=_RETRY_AFTER_S)
    return None
