"""A broker's store on disk: its sessions, their subscriptions, and how far each was acknowledged.

SQLite with a write-ahead log: a commit is a write to a file, which outlives the process. Commits are not forced to the
disk one by one; after a power failure the last positions may be older than they were, and their results come again.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path

import structlog

from tocsin.broker.core import instructions as ins
from tocsin.errors import Unavailable
from tocsin.model.people import fingerprint
from tocsin.model.position import Position
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from tocsin.runtime import digests
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.files import make_private
from tocsin.runtime.free_pages import erase_free_pages_of
from tocsin.runtime.versions import Versions

log = structlog.get_logger(__name__)

VERSIONS = Versions("the broker's store", "broker_version", Path(__file__).parent / "migrations")
#: The newest version's tables, for new stores: plain SQL, so that a broker need not load SQLAlchemy.
_TABLES = """
CREATE TABLE session (
  subscriber TEXT NOT NULL PRIMARY KEY, generation INTEGER NOT NULL, left_at_us INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE TABLE subscription (
  subscriber TEXT NOT NULL, channel TEXT NOT NULL, parameters TEXT NOT NULL, permission TEXT NOT NULL,
  epoch INTEGER NOT NULL, sequence INTEGER NOT NULL, filter TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (subscriber, channel, parameters, permission)
) WITHOUT ROWID;
CREATE TABLE fact (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE revocation (user TEXT NOT NULL PRIMARY KEY, void_before_us INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE broker_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
"""
#: The write-ahead log grows to 4 MB before it is folded into the database, which may grow by as much.
_MIN_FREE_BYTES = 16 << 20
_RETRY_AFTER_S = 5.0
_CLOCK = SystemClock()
#: A fact: when this broker was last seen at work, as microseconds since 1970.
_ALIVE_AT = "alive at"
_IDENTITY = "identity"
_SAME_ASK = "subscriber = ? AND channel = ? AND parameters = ? AND permission = ?"


class SessionStore:
    """`now_us` is the time of day: it tells after a restart, too, how long a subscriber has been away."""

    def __init__(self, folder: Path, now_us: Callable[[], int] = _CLOCK.now_us) -> None:
        make_private(folder)
        self._now_us = now_us
        self._folder = folder
        file = folder / "broker.sqlite"
        try:
            _prepare(file)
            self._db = _open(file)
        except digests.UNREADABLE as exc:
            raise digests.unreadable(file, exc) from exc
        self._noted = digests.NotedChanges(file)
        if lost := self._noted.lost(self._db):
            log.warning(
                "the last changes are gone; the results that they acknowledged will come again",
                file=str(file),
                changes=lost,
            )

    def close(self) -> None:
        self._noted.close()
        self._db.close()

    def sessions(self) -> list[KeptSession]:
        return self._read("")

    def session(self, subscriber: str) -> KeptSession | None:
        return next(iter(self._read("WHERE subscriber = ?", subscriber)), None)

    def _read(self, condition: str, *values: str) -> list[KeptSession]:
        kept: dict[str, list[Kept]] = {}
        rows = self._db.execute(
            "SELECT subscriber, channel, parameters, permission, epoch, sequence, filter"
            f" FROM subscription {condition}",
            values,
        )
        for subscriber, channel, parameters, permission, epoch, sequence, where in rows:
            one = Kept(SubscriptionKey(channel, parameters, permission), Position(epoch, sequence), where)
            kept.setdefault(subscriber, []).append(one)
        found = self._db.execute(f"SELECT subscriber, generation, left_at_us FROM session {condition}", values)
        now_us = self._now_us()
        # A subscriber who had not left was here until we ended.
        ended_at_us = int(self.fact(_ALIVE_AT) or now_us)
        return [
            KeptSession(
                subscriber,
                generation,
                kept.get(subscriber, []),
                max(0.0, (now_us - (left_at_us or ended_at_us)) / 1e6),
            )
            for subscriber, generation, left_at_us in found
        ]

    def fact(self, name: str) -> str:
        """A single stored text, such as the coordinator's public key; empty if it is not known."""
        row = self._db.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return "" if row is None else str(row[0])

    def store_fact(self, name: str, value: str) -> None:
        with self._writing():
            self._db.execute("INSERT OR REPLACE INTO fact (name, value) VALUES (?, ?)", (name, value))

    def check(self) -> None:
        """Note that we are alive. Raises Unavailable if that can't be written, or if soon nothing could be: it is
        better to know that before a change is begun than when it fails."""
        free_bytes = shutil.disk_usage(self._folder).free
        if free_bytes < _MIN_FREE_BYTES:
            raise Unavailable(f"its disk has {free_bytes} bytes left", retry_after_s=_RETRY_AFTER_S)
        self.store_fact(_ALIVE_AT, str(self._now_us()))

    def revocations(self) -> dict[str, int]:
        """User to µs since 1970: tokens issued earlier are void."""
        return dict(self._db.execute("SELECT user, void_before_us FROM revocation"))

    def store_revocations(self, revoked: Mapping[str, int], *, are_all: bool) -> None:
        """Add these; with `are_all`, forget the others."""
        insert = "INSERT OR REPLACE INTO revocation (user, void_before_us) VALUES (?, ?)"
        with self._writing():
            if are_all:
                self._db.execute("DELETE FROM revocation")
            self._db.executemany(insert, revoked.items())

    def erase_traces(self, people: Collection[str]) -> None:
        """Remove deleted rows from all files, and revocations by name of these people, who are known by the
        fingerprints of their names. Raises Unavailable if that can't be done now."""
        named = [(user,) for user in self.revocations() if fingerprint(user) in people]
        with self._writing():
            self._db.executemany("DELETE FROM revocation WHERE user = ?", named)
        erase_free_pages_of(self._db)

    def identity(self) -> str:
        """The secret of this store, made at the first call."""
        if not (identity := self.fact(_IDENTITY)):
            identity = secrets.token_hex(16)
            self.store_fact(_IDENTITY, identity)
        return identity

    def apply(self, changes: Iterable[ins.Change]) -> None:
        """Carry out changes in their order, all or none; raises Unavailable if nothing can be written."""
        with self._writing():
            for change in changes:
                self._apply(change)

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction: all writes inside are committed, or none."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
                self._noted.note(digests.changes(self._db))
            finally:
                if self._db.in_transaction:  # SQLite has ended it by itself if the disk was full.
                    self._db.execute("ROLLBACK")
        except sqlite3.OperationalError as exc:
            raise Unavailable(str(exc), retry_after_s=_RETRY_AFTER_S) from exc

    def _apply(self, change: ins.Change) -> None:
        match change:
            case ins.StoreSession(subscriber, generation):
                self._db.execute(
                    "INSERT INTO session (subscriber, generation) VALUES (?, ?)"
                    " ON CONFLICT (subscriber) DO UPDATE SET generation = excluded.generation",
                    (subscriber, generation),
                )
            case ins.ForgetSession(subscriber):
                self._db.execute("DELETE FROM session WHERE subscriber = ?", (subscriber,))
                self._db.execute("DELETE FROM subscription WHERE subscriber = ?", (subscriber,))
            case ins.StoreSubscription(subscriber, key, at, where):
                self._db.execute(
                    "INSERT OR REPLACE INTO subscription "
                    "(subscriber, channel, parameters, permission, epoch, sequence, filter)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (subscriber, key.channel, key.parameters, key.permission, at.epoch, at.sequence, where),
                )
            case ins.ForgetSubscription(subscriber, key):
                values = (subscriber, key.channel, key.parameters, key.permission)
                self._db.execute(f"DELETE FROM subscription WHERE {_SAME_ASK}", values)
            case ins.StorePositions(positions):
                self._db.executemany(
                    f"UPDATE subscription SET epoch = ?, sequence = ? WHERE {_SAME_ASK}",
                    [
                        (at.epoch, at.sequence, subscriber, key.channel, key.parameters, key.permission)
                        for subscriber, key, at in positions
                    ],
                )
            case ins.StorePresence(away_s):
                now_us = self._now_us()
                self._db.executemany(
                    "UPDATE session SET left_at_us = ? WHERE subscriber = ?",
                    [
                        (0 if for_s is None else now_us - int(for_s * 1e6), subscriber)
                        for subscriber, for_s in away_s.items()
                    ],
                )


def _open(file: Path) -> sqlite3.Connection:
    """Open a database, after a check that its rows are as they were written."""
    db = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    digests.register(db)
    digests.check_digests(db, file)
    return db


def _prepare(file: Path) -> None:
    """Make the tables, or bring those of an earlier version up to date."""
    newest = VERSIONS.newest()
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as db:
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not names:
            db.executescript(f"BEGIN IMMEDIATE; {_TABLES} INSERT INTO broker_version VALUES ('{newest}'); COMMIT;")
            return
        stored = db.execute("SELECT version_num FROM broker_version").fetchone() if VERSIONS.table in names else None
    if stored != (newest,):
        import sqlalchemy as sa

        from tocsin.runtime.schema import migrate, open_engine

        engine = open_engine(file)
        try:
            migrate(engine, VERSIONS)
        except (sa.exc.DatabaseError, UnicodeDecodeError) as exc:
            raise digests.unreadable(file, exc) from exc
        finally:
            engine.dispose()
