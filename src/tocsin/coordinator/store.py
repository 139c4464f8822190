"""What the coordinator remembers over restarts, in a relational database: SQLite by default, PostgreSQL by address.

Every change is one transaction, synced to disk before it is answered.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import sqlalchemy as sa

from tocsin.coordinator.instructions import (
    ForgetBroker,
    ForgetSession,
    StoreBroker,
    StorePolicy,
    StoreSession,
    Storing,
)
from tocsin.coordinator.records import BrokerRecord, Held, SessionRecord, SubscriptionKey
from tocsin.errors import AlreadyExists, ClusterFailure, NotFound
from tocsin.protocol.coordination import BrokerState

_metadata = sa.MetaData()

# The names begin alike, so that a database can be shared with the cluster's catalogue.
_users = sa.Table(
    "coordinator_user",
    _metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("password", sa.String, nullable=False),
    sa.Column("permission", sa.String, nullable=False),
    sa.Column("created_at_us", sa.BigInteger, nullable=False),
)
#: Outlives the user: whoever takes the name later must not be spoken for by older tokens.
_revocations = sa.Table(
    "coordinator_revocation",
    _metadata,
    sa.Column("user", sa.String, primary_key=True),
    sa.Column("void_before_us", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
_brokers = sa.Table(
    "coordinator_broker",
    _metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("url", sa.String, nullable=False),
    sa.Column("x", sa.Float),
    sa.Column("y", sa.Float),
    sa.Column("capacity", sa.Float, nullable=False),
    sa.Column("mode", sa.String, nullable=False),
    sa.Column("dead", sa.Boolean, nullable=False),
)
_sessions = sa.Table(
    "coordinator_session",
    _metadata,
    sa.Column("subscriber", sa.String, primary_key=True),
    sa.Column("owner", sa.String, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("connected", sa.Boolean, nullable=False),
    sa.Column("subscriptions", sa.Text, nullable=False),
    sa.Column("former", sa.Text, nullable=False),
)
_settings = sa.Table(
    "coordinator_setting",
    _metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
)

_POLICY = "placement_policy"
_VERSION = "revocations_version"
_LONGEST_LIFETIME = "longest_token_lifetime_us"


@dataclass(frozen=True, slots=True)
class UserRecord:
    name: str
    password_hash: str
    permission: str
    created_at_us: int


@dataclass(frozen=True, slots=True)
class Revocation:
    """Tokens of `user` issued before `void_before_us` are void. `version` grows with every revocation of anybody."""

    user: str
    void_before_us: int
    version: int


@dataclass(frozen=True, slots=True)
class Remembered:
    """What the machine starts from. `policy` is empty until one was chosen."""

    brokers: tuple[BrokerRecord, ...]
    sessions: tuple[SessionRecord, ...]
    policy: str


def open_database(url: str | Path) -> sa.Engine:
    """An engine for `url`, or for the SQLite file at a path, with all tables in place."""
    address = f"sqlite:///{url}" if isinstance(url, Path) else url
    try:
        engine = sa.create_engine(address, connect_args={"timeout": 30} if address.startswith("sqlite") else {})
        if engine.dialect.name == "sqlite":

            @sa.event.listens_for(engine, "connect")
            def _tune(connection: Any, _record: Any) -> None:
                # WAL lets readers go on while a writer commits; FULL makes a commit survive a power cut.
                connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;")

        _metadata.create_all(engine)
    except (sa.exc.SQLAlchemyError, ImportError) as exc:
        reason = str(exc.__cause__ or exc)
        raise ClusterFailure(f"the coordinator's database can't be opened: {reason}") from exc
    return engine


class Store:
    """Its methods wait for the disk: they are for threads, not for the event loop."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def close(self) -> None:
        self._engine.dispose()

    # ── brokers, sessions, policy ───────────────────────────────────────────────────────────────────────────────────

    def load(self) -> Remembered:
        with self._engine.connect() as connection:
            return Remembered(
                tuple(_broker(row) for row in connection.execute(sa.select(_brokers))),
                tuple(_session(row) for row in connection.execute(sa.select(_sessions))),
                _read_setting(connection, _POLICY),
            )

    def apply(self, instructions: Iterable[Storing]) -> None:
        """All of it in one transaction. At most one instruction may be about the same broker, session or setting."""
        gone: dict[str, list[dict[str, str]]] = {"broker": [], "session": []}
        brokers, sessions, policy = [], [], None
        for one in instructions:
            match one:
                case StoreSession(session):
                    gone["session"].append({"key": session.subscriber})
                    sessions.append(_session_row(session))
                case ForgetSession(subscriber):
                    gone["session"].append({"key": subscriber})
                case StoreBroker(broker):
                    gone["broker"].append({"key": broker.name})
                    brokers.append(_broker_row(broker))
                case ForgetBroker(name):
                    gone["broker"].append({"key": name})
                case StorePolicy(name):
                    policy = name
        with self._engine.begin() as connection:
            # Delete and insert: the one way to replace a row that every database understands.
            if gone["broker"]:
                connection.execute(_brokers.delete().where(_brokers.c.name == sa.bindparam("key")), gone["broker"])
            if gone["session"]:
                chosen = _sessions.c.subscriber == sa.bindparam("key")
                connection.execute(_sessions.delete().where(chosen), gone["session"])
            if brokers:
                connection.execute(_brokers.insert(), brokers)
            if sessions:
                connection.execute(_sessions.insert(), sessions)
            if policy is not None:
                _write_setting(connection, _POLICY, policy)

    # ── users ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_user(self, user: UserRecord) -> None:
        row = {
            "name": user.name,
            "password": user.password_hash,
            "permission": user.permission,
            "created_at_us": user.created_at_us,
        }
        try:
            with self._engine.begin() as connection:
                connection.execute(_users.insert().values(row))
        except sa.exc.IntegrityError as exc:
            raise AlreadyExists(f"user {user.name} exists already") from exc

    def user(self, name: str) -> UserRecord | None:
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(_users).where(_users.c.name == name)).first()
        return _user(row) if row is not None else None

    def users(self, after: str, limit: int) -> list[UserRecord]:
        """By name, a page at a time."""
        query = sa.select(_users).where(_users.c.name > after).order_by(_users.c.name).limit(limit)
        with self._engine.connect() as connection:
            return [_user(row) for row in connection.execute(query)]

    def remove_user(self, name: str, void_before_us: int) -> Revocation:
        with self._engine.begin() as connection:
            if not connection.execute(_users.delete().where(_users.c.name == name)).rowcount:
                raise NotFound(f"no user called {name}")
            return _revoke(connection, name, void_before_us)

    def revoke(self, name: str, void_before_us: int) -> Revocation:
        with self._engine.begin() as connection:
            if connection.execute(sa.select(_users.c.name).where(_users.c.name == name)).first() is None:
                raise NotFound(f"no user called {name}")
            return _revoke(connection, name, void_before_us)

    def revocations(self, now_us: int, lifetime_us: int) -> tuple[dict[str, Revocation], int]:
        """All that still matter, and their version. Those are forgotten whose tokens have all expired by now, going by
        the longest lifetime that tokens were ever given."""
        with self._engine.begin() as connection:
            longest_us = max(lifetime_us, int(_read_setting(connection, _LONGEST_LIFETIME) or 0))
            _write_setting(connection, _LONGEST_LIFETIME, str(longest_us))
            connection.execute(_revocations.delete().where(_revocations.c.void_before_us < now_us - longest_us))
            rows = connection.execute(sa.select(_revocations)).all()
            found = {row.user: Revocation(row.user, row.void_before_us, row.version) for row in rows}
            return found, int(_read_setting(connection, _VERSION) or 0)


def _revoke(connection: sa.Connection, user: str, void_before_us: int) -> Revocation:
    revocation = Revocation(user, void_before_us, int(_read_setting(connection, _VERSION) or 0) + 1)
    _write_setting(connection, _VERSION, str(revocation.version))
    connection.execute(_revocations.delete().where(_revocations.c.user == user))
    row = {"user": user, "void_before_us": void_before_us, "version": revocation.version}
    connection.execute(_revocations.insert().values(row))
    return revocation


def _read_setting(connection: sa.Connection, name: str) -> str:
    query = sa.select(_settings.c.value).where(_settings.c.name == name)
    return connection.execute(query).scalar() or ""


def _write_setting(connection: sa.Connection, name: str, value: str) -> None:
    connection.execute(_settings.delete().where(_settings.c.name == name))
    connection.execute(_settings.insert().values(name=name, value=value))


def _user(row: Any) -> UserRecord:
    return UserRecord(row.name, row.password, row.permission, row.created_at_us)


def _broker(row: Any) -> BrokerRecord:
    place = None if row.x is None else (row.x, row.y)
    return BrokerRecord(row.name, row.url, place, row.capacity, BrokerState(row.mode), row.dead)


def _broker_row(broker: BrokerRecord) -> Mapping[str, Any]:
    x, y = broker.place or (None, None)
    return {
        "name": broker.name,
        "url": broker.url,
        "x": x,
        "y": y,
        "capacity": broker.capacity,
        "mode": broker.mode.value,
        "dead": broker.dead,
    }


def _session(row: Any) -> SessionRecord:
    subscriptions = tuple(
        # Each key once, however many sessions share it.
        Held(SubscriptionKey(sys.intern(key)), position)
        for key, position in json.loads(row.subscriptions)
    )
    former = frozenset(json.loads(row.former))
    return SessionRecord(row.subscriber, row.owner, row.generation, row.connected, subscriptions, former)


def _session_row(session: SessionRecord) -> Mapping[str, Any]:
    return {
        "subscriber": session.subscriber,
        "owner": session.owner,
        "generation": session.generation,
        "connected": session.connected,
        "subscriptions": msgspec.json.encode([(held.key, held.position) for held in session.subscriptions]).decode(),
        "former": msgspec.json.encode(sorted(session.former)).decode(),
    }
