"""The coordinator's durable state, in a relational database.

Every change is one transaction, synced to disk before the request is answered.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa

from tocsin.coordinator.moves.table import MoveRecord, PlanRun
from tocsin.coordinator.registry import instructions as ins
from tocsin.coordinator.registry.records import BrokerRecord, SessionRecord, SessionSubscription
from tocsin.coordinator.store import tables
from tocsin.coordinator.store.plan_store import PlanStore
from tocsin.errors import AlreadyExists, NotFound
from tocsin.model.people import FINGERPRINT_MARK, fingerprint, without_name
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.incarnations import Holder
from tocsin.protocol.subscription_keys import KeyText
from tocsin.runtime.clock import Clock
from tocsin.runtime.free_pages import erase_free_pages

_POLICY = "placement_policy"
_STOPPED = "stopped_evacuations"
_VERSION = "revocations_version"
_LONGEST_LIFETIME = "longest_token_lifetime_us"
#: 90 days: a broker that was away for so long has no sessions any more.
_FORGOTTEN_KEPT_US = 90 * 86_400 * 1_000_000


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
    """The state that the machine starts from. `policy` is empty until one was chosen; plans and moves are those under
    way."""

    brokers: tuple[BrokerRecord, ...]
    sessions: tuple[SessionRecord, ...]
    policy: str
    runs: tuple[PlanRun, ...] = ()
    moves: tuple[MoveRecord, ...] = ()
    stopped_evacuations: tuple[str, ...] = ()


class Store:
    """Its methods wait for the disk: they are for threads, not for the event loop."""

    def __init__(self, engine: sa.Engine, clock: Clock) -> None:
        self._engine = engine
        self._clock = clock
        #: Some changes depend on what they read first, such as the next version of revocations.
        self._lock = threading.Lock()
        self.plans = PlanStore(engine)

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        with self._lock, self._engine.begin() as connection:
            yield connection

    # ── brokers, sessions, policy ───────────────────────────────────────────────────────────────────────────────────

    def load(self) -> Remembered:
        with self._engine.connect() as connection:
            return Remembered(
                tuple(_broker(row) for row in connection.execute(sa.select(tables.brokers))),
                tuple(_session(row) for row in connection.execute(sa.select(tables.sessions))),
                _read_setting(connection, _POLICY),
                *self.plans.unfinished(connection),
                tuple(json.loads(_read_setting(connection, _STOPPED) or "[]")),
            )

    def apply(self, instructions: Iterable[ins.Storing]) -> None:
        """Store all of them in one transaction, with at most one instruction for each broker, session or setting."""
        by_kind: dict[type[Any], list[Any]] = {}
        for one in instructions:
            by_kind.setdefault(type(one), []).append(one)
        brokers = [one.broker for one in by_kind.get(ins.StoreBroker, ())]
        sessions = [one.session for one in by_kind.get(ins.StoreSession, ())]
        brokers_gone = [one.broker for one in by_kind.get(ins.ForgetBroker, ())] + [one.name for one in brokers]
        sessions_gone = [one.subscriber for one in by_kind.get(ins.ForgetSession, ())] + [
            one.subscriber for one in sessions
        ]
        with self._changing() as connection:
            # Delete and insert: every database can replace a row in this way.
            _delete(connection, tables.brokers, tables.brokers.c.name, brokers_gone)
            _delete(connection, tables.sessions, tables.sessions.c.subscriber, sessions_gone)
            if brokers:
                connection.execute(tables.brokers.insert(), [_broker_row(one) for one in brokers])
            if sessions:
                connection.execute(tables.sessions.insert(), [_session_row(one) for one in sessions])
            for one in by_kind.get(ins.StorePolicy, ()):
                _write_setting(connection, _POLICY, one.policy)
            for one in by_kind.get(ins.StoreStoppedEvacuations, ()):
                _write_setting(connection, _STOPPED, json.dumps(one.brokers))
            self.plans.apply(
                connection,
                [one.run for one in by_kind.get(ins.StorePlanRun, ())],
                [one.move for one in by_kind.get(ins.StoreMove, ())],
                {one.plan: one.kept_cov for one in by_kind.get(ins.StoreKeptCov, ())},
                by_kind.get(ins.Audit, []),
                self._clock.now_us(),
            )

    def setting(self, name: str) -> str:
        """A setting that was chosen at run time; empty if none was."""
        with self._engine.connect() as connection:
            return _read_setting(connection, name)

    def choose(self, name: str, value: str) -> None:
        self.choose_all({name: value})

    def choose_all(self, values: Mapping[str, str]) -> None:
        with self._changing() as connection:
            for name, value in values.items():
                _write_setting(connection, name, value)

    # ── users ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def add_user(self, user: UserRecord) -> None:
        row = {
            "name": user.name,
            "password": user.password_hash,
            "permission": user.permission,
            "created_at_us": user.created_at_us,
        }
        try:
            with self._changing() as connection:
                connection.execute(tables.users.insert().values(row))
        except sa.exc.IntegrityError as exc:
            raise AlreadyExists(f"user {user.name} exists already") from exc

    def user(self, name: str) -> UserRecord | None:
        with self._engine.connect() as connection:
            row = connection.execute(sa.select(tables.users).where(tables.users.c.name == name)).first()
        return _user(row) if row is not None else None

    def users(self, after: str, limit: int) -> list[UserRecord]:
        """By name, a page at a time."""
        query = sa.select(tables.users).where(tables.users.c.name > after).order_by(tables.users.c.name).limit(limit)
        with self._engine.connect() as connection:
            return [_user(row) for row in connection.execute(query)]

    def remove_user(self, name: str, void_before_us: int) -> Revocation:
        with self._changing() as connection:
            if not connection.execute(tables.users.delete().where(tables.users.c.name == name)).rowcount:
                raise NotFound(f"no user called {name}")
            return _revoke(connection, name, void_before_us)

    def revoke(self, name: str, void_before_us: int) -> Revocation:
        with self._changing() as connection:
            if connection.execute(sa.select(tables.users.c.name).where(tables.users.c.name == name)).first() is None:
                raise NotFound(f"no user called {name}")
            return _revoke(connection, name, void_before_us)

    def forget_person(self, name: str, void_before_us: int) -> tuple[Revocation, bool]:
        """Remove the user, if there is one, and keep the revocation of older tokens under a fingerprint of the name.
        Returns also whether there was such a user."""
        with self._changing() as connection:
            removed = connection.execute(tables.users.delete().where(tables.users.c.name == name)).rowcount
            connection.execute(tables.revocations.delete().where(tables.revocations.c.user == name))
            return _revoke(connection, fingerprint(name), void_before_us), bool(removed)

    def erase_traces(self, name: str) -> None:
        """Remove the name from plans, from the audit log and from the files of the database."""
        with self._changing() as connection:
            for table in (tables.audit, tables.plans, tables.moves):
                _erase_name(connection, table, name)
        erase_free_pages(self._engine)

    def longest_lifetime_us(self) -> int:
        """The longest lifetime that tokens were ever given."""
        return int(self.setting(_LONGEST_LIFETIME) or 0)

    def revocations(self, now_us: int, lifetime_us: int) -> tuple[dict[str, Revocation], int]:
        """All revocations that still matter, and their version. A revocation is forgotten once all its tokens have
        expired, by the longest lifetime that tokens were ever given; fingerprints later, for brokers that are away."""
        with self._changing() as connection:
            longest_us = max(lifetime_us, int(_read_setting(connection, _LONGEST_LIFETIME) or 0))
            _write_setting(connection, _LONGEST_LIFETIME, str(longest_us))
            is_person = tables.revocations.c.user.startswith(FINGERPRINT_MARK)
            forgotten_us = max(longest_us, _FORGOTTEN_KEPT_US)
            kept_us = sa.case((is_person, forgotten_us), else_=longest_us)
            connection.execute(
                tables.revocations.delete().where(tables.revocations.c.void_before_us < now_us - kept_us)
            )
            rows = connection.execute(sa.select(tables.revocations)).all()
            found = {row.user: Revocation(row.user, row.void_before_us, row.version) for row in rows}
            return found, int(_read_setting(connection, _VERSION) or 0)


def _delete(connection: sa.Connection, table: sa.Table, column: sa.ColumnElement[str], keys: list[str]) -> None:
    if keys:
        connection.execute(table.delete().where(column == sa.bindparam("key")), [{"key": key} for key in keys])


def _revoke(connection: sa.Connection, user: str, void_before_us: int) -> Revocation:
    revocation = Revocation(user, void_before_us, int(_read_setting(connection, _VERSION) or 0) + 1)
    _write_setting(connection, _VERSION, str(revocation.version))
    connection.execute(tables.revocations.delete().where(tables.revocations.c.user == user))
    row = {"user": user, "void_before_us": void_before_us, "version": revocation.version}
    connection.execute(tables.revocations.insert().values(row))
    return revocation


def _erase_name(connection: sa.Connection, table: sa.Table, name: str) -> None:
    """Replace the name in all text columns, where it is the whole text or a value in JSON."""
    texts = [column for column in table.columns if isinstance(column.type, sa.String)]
    holds = sa.or_(*(column.contains(name, autoescape=True) for column in texts))
    for row in connection.execute(sa.select(table).where(holds)).mappings().all():
        values = {column.name: _erased(row[column.name], name) for column in texts}
        same = sa.and_(*(table.c[one.name] == row[one.name] for one in table.primary_key))
        connection.execute(table.update().where(same).values(values))


def _erased(text: str, name: str) -> str:
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return str(without_name(text, name))
    return msgspec.json.encode(without_name(value, name)).decode() if isinstance(value, dict | list) else text


def _read_setting(connection: sa.Connection, name: str) -> str:
    query = sa.select(tables.settings.c.value).where(tables.settings.c.name == name)
    return connection.execute(query).scalar() or ""


def _write_setting(connection: sa.Connection, name: str, value: str) -> None:
    connection.execute(tables.settings.delete().where(tables.settings.c.name == name))
    connection.execute(tables.settings.insert().values(name=name, value=value))


def _user(row: Any) -> UserRecord:
    return UserRecord(row.name, row.password, row.permission, row.created_at_us)


def _broker(row: Any) -> BrokerRecord:
    location = None if row.x is None else (row.x, row.y)
    holder = Holder(row.identity, row.incarnation)
    return BrokerRecord(row.name, row.url, location, row.capacity, BrokerState(row.mode), row.dead, holder)


def _broker_row(broker: BrokerRecord) -> Mapping[str, Any]:
    x, y = broker.location or (None, None)
    return {
        "name": broker.name,
        "url": broker.url,
        "x": x,
        "y": y,
        "capacity": broker.capacity,
        "mode": broker.mode.value,
        "dead": broker.dead,
        "identity": broker.holder.identity,
        "incarnation": broker.holder.incarnation,
    }


def _session(row: Any) -> SessionRecord:
    subscriptions = tuple(
        # Each key is one object, however many sessions share it.
        SessionSubscription(KeyText(sys.intern(key)), position, *map(sys.intern, where))
        for key, position, *where in json.loads(row.subscriptions)
    )
    former = frozenset(json.loads(row.former))
    return SessionRecord(row.subscriber, row.owner, row.generation, row.connected, subscriptions, former)


def _session_row(session: SessionRecord) -> Mapping[str, Any]:
    return {
        "subscriber": session.subscriber,
        "owner": session.owner,
        "generation": session.generation,
        "connected": session.connected,
        "subscriptions": msgspec.json.encode(list(map(_held, session.subscriptions))).decode(),
        "former": msgspec.json.encode(sorted(session.former)).decode(),
    }


def _held(held: SessionSubscription) -> tuple[str, ...]:
    """The filter only if there is one, as nearly all have none."""
    return (held.key, held.position, held.where) if held.where else (held.key, held.position)
