"""Brokers, backend subscriptions and brokers' holds on them, in the catalogue's database.

Identical subscriptions are one, also across brokers: the first broker that wants it creates it, the last one that
releases it ends it. An id is used once and never again, so it can serve as the epoch of positions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256

import msgspec
import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.cluster.results.core.numbers import id_floor
from tocsin.cluster.results.snapshot_requests import SnapshotRequest, request_table, waiting_among
from tocsin.errors import NotFound, NotRegistered
from tocsin.model.catalogue import BackendSubscription, ParameterValue
from tocsin.protocol.paths import path_part
from tocsin.runtime.sql_rows import among, in_chunks, insert_many, without_nul

_brokers = sa.Table(
    "broker",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
)
#: PostgreSQL's indexes take no texts above 2.7 kB, so there the digest of a key stands for it.
_KEY_DIGEST = r"sha256(CAST(replace(key, '\', '\\') AS BYTEA))"
subscription_table = sa.Table(
    "subscription",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=False),
    sa.Column("channel", sa.String, nullable=False),
    #: The permission class and the values as JSON: together with the channel, the subscription key.
    sa.Column("key", sa.Text, nullable=False),
    sa.Index("subscription_key", "channel", "key", unique=True).ddl_if(dialect="sqlite"),
    sa.Index("subscription_key", "channel", sa.text(_KEY_DIGEST), unique=True).ddl_if(dialect="postgresql"),
)
hold_table = sa.Table(
    "hold",
    metadata,
    # The broker first: brokers are few, so finding a subscription's holders takes one look-up per broker, and a
    # broker's own holds lie together, whatever their order of arrival.
    sa.Column("broker", sa.String, primary_key=True),
    sa.Column("subscription", sa.BigInteger, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
#: A table rather than columns of `subscription`: few of millions fail.
failure_table = sa.Table(
    "subscription_failure",
    metadata,
    sa.Column("subscription", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("channel", sa.String, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("failed_at_us", sa.BigInteger, nullable=False),
)
#: Subscriptions that have ended and whose holders may not have been notified yet.
_ending = sa.Table(
    "ending_subscription",
    metadata,
    sa.Column("subscription", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("channel", sa.String, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
)
counter_table = sa.Table(
    "counter",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("value", sa.BigInteger, nullable=False),
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_READ_CHUNK = 200_000
#: The prefix of the channel of an ended subscription; the id and the channel's name follow. No channel's name begins
#: with it.
ENDED_MARK = "#"
_has_ended = subscription_table.c.channel.startswith(ENDED_MARK)
_ended_channel = ENDED_MARK + sa.cast(subscription_table.c.id, sa.String) + " " + subscription_table.c.channel

#: Subscriptions that have ended, by channel.
Ended = dict[str, list[int]]


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The outcome of a bulk subscribe: the ids of all requested subscriptions, in order, and the new subscriptions."""

    ids: tuple[int, ...]
    created: tuple[BackendSubscription, ...]


class SubscriptionRegistry:
    """Which broker holds what. Calls are transactions; bulk calls are one transaction each."""

    def __init__(self, engine: sa.Engine, now_us: int = 0) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        with engine.begin() as connection:
            found = connection.execute(
                sa.select(counter_table.c.value).where(counter_table.c.name == "subscription")
            ).scalar()
            if found is None:
                connection.execute(counter_table.insert().values(name="subscription", value=0))
            # An id that was used after the back-up, from which this database was restored, must not be used again.
            self._last_id = max(int(found or 0), id_floor(now_us))

    # Brokers

    def put_broker(self, name: str) -> None:
        """Register a broker; nothing changes if it is registered already."""
        with self._lock, self._engine.begin() as connection:
            if not _is_registered(connection, name):
                connection.execute(_brokers.insert().values(name=name))

    def brokers(self) -> list[str]:
        """The names of all brokers, in order."""
        with self._engine.connect() as connection:
            return list(connection.scalars(sa.select(_brokers.c.name).order_by(_brokers.c.name)))

    def check_registered(self, name: str) -> None:
        """Raises NotRegistered if there is no such broker."""
        with self._engine.connect() as connection:
            if not _is_registered(connection, name):
                raise NotRegistered(f"no broker called {name}; register it with PUT /v1/brokers/{path_part(name)}")

    def remove_broker(self, name: str) -> Ended:
        """Forget a broker and its holds; returns the subscriptions that no broker holds any more."""
        self.check_registered(name)
        with self._lock, self._engine.begin() as connection:
            held = list(connection.scalars(sa.select(hold_table.c.subscription).where(hold_table.c.broker == name)))
            connection.execute(hold_table.delete().where(hold_table.c.broker == name))
            connection.execute(_brokers.delete().where(_brokers.c.name == name))
            return _remove_unheld(connection, held)

    # Subscriptions

    def subscribe(
        self,
        broker: str,
        channel: str,
        wanted: Sequence[tuple[ParameterValue, ...]],
        permission: str = "",
        *,
        snapshot: bool = False,
    ) -> Subscribed:
        """Hold a subscription to `channel` for each of `wanted` (checked values, in declared order). With `snapshot`,
        each new one waits for a snapshot; the number of this request is its id."""
        self.check_registered(broker)
        keys = [_key_of(values, permission) for values in wanted]
        with self._lock, self._engine.begin() as connection:
            known = _ids_by_key(connection, channel, list(dict.fromkeys(keys)))
            next_id = self._last_id
            created: list[BackendSubscription] = []
            rows: list[tuple[int, str, str]] = []
            for key, values in zip(keys, wanted, strict=True):
                if key not in known:
                    next_id += 1
                    known[key] = next_id
                    created.append(BackendSubscription(next_id, channel, values, permission))
                    rows.append((next_id, channel, key))
            if created:
                insert_many(connection, subscription_table, rows)
                _set_last_id(connection, next_id)
            if snapshot:
                insert_many(connection, request_table, [(one.id, one.id, True) for one in created])
            ids = tuple(known[key] for key in keys)
            new = {one.id for one in created}
            held = set(_held_among(connection, broker, [one for one in dict.fromkeys(ids) if one not in new]))
            insert_many(connection, hold_table, [(broker, one) for one in dict.fromkeys(ids) if one not in held])
            self._last_id = next_id
        return Subscribed(ids, tuple(created))

    def unsubscribe(self, broker: str, ids: Sequence[int]) -> Ended:
        """Release `ids`; returns those that no broker holds any more. Ids that are not held are an error, and then
        nothing changes."""
        self.check_registered(broker)
        with self._lock, self._engine.begin() as connection:
            for chunk in in_chunks(list(dict.fromkeys(ids))):
                mine = sa.and_(hold_table.c.broker == broker, among(connection, hold_table.c.subscription, chunk))
                held = set(connection.scalars(sa.select(hold_table.c.subscription).where(mine)))
                if missing := [one for one in chunk if one not in held]:
                    raise NotFound(f"broker {broker} holds no subscription {missing[0]}")
                connection.execute(hold_table.delete().where(mine))
            return _remove_unheld(connection, ids)

    def request_snapshots(self, served: Mapping[int, int]) -> None:
        """Note that these subscriptions wait for a snapshot. `served` has for each the highest number of a request of
        its channel that is served: if it has a later request already, there is no need of another."""
        with self._lock, self._engine.begin() as connection:
            waiting = waiting_among(connection, served, in_chunks(list(served)))
            wanted = [one for one in served if one not in waiting]
            rows = [(self._last_id + at, one, False) for at, one in enumerate(wanted, 1)]
            if rows:
                insert_many(connection, request_table, rows)
                _set_last_id(connection, rows[-1][0])
                self._last_id = rows[-1][0]

    def snapshot_requests(self, channel: str, after: int, limit: int | None = None) -> list[SnapshotRequest]:
        """Requests of a channel's subscriptions with numbers after `after`, in order."""
        query = (
            sa.select(request_table)
            .join(subscription_table, subscription_table.c.id == request_table.c.subscription)
            .where(request_table.c.number > after, subscription_table.c.channel == channel)
            .order_by(request_table.c.number)
            .limit(limit)
        )
        with self._engine.connect() as connection:
            rows = connection.execute(query).all()
        return [SnapshotRequest(row.number, row.subscription, row.is_first) for row in rows]

    def forget_snapshot_requests(self, channel: str, through: int) -> None:
        """Remove a channel's requests up to this number, which are served."""
        is_of_channel = sa.exists().where(
            subscription_table.c.id == request_table.c.subscription, subscription_table.c.channel == channel
        )
        with self._lock, self._engine.begin() as connection:
            connection.execute(request_table.delete().where(request_table.c.number <= through, is_of_channel))

    def end_channel(self, channel: str) -> None:
        """End all subscriptions of a channel that was dropped. Brokers keep their holds, so that they get the result
        that says so, but the subscriptions can't be found by the channel's name any more: a new channel may soon have
        it."""
        of_channel = subscription_table.c.channel == channel
        with self._lock, self._engine.begin() as connection:
            connection.execute(subscription_table.update().where(of_channel).values(channel=_ended_channel))
            connection.execute(failure_table.delete().where(failure_table.c.channel == channel))

    def naming(self, text: str) -> Ended:
        """The subscriptions that have this text as one of their values, by channel."""
        query = sa.select(subscription_table).where(
            subscription_table.c.key.contains(_encode(text).decode(), autoescape=True), ~_has_ended
        )
        found: Ended = {}
        with self._engine.connect() as connection:
            for row in connection.execute(query):
                if text in _subscription(row.id, row.channel, row.key).values:
                    found.setdefault(row.channel, []).append(row.id)
        return found

    def end(self, ids: Sequence[int]) -> None:
        """End these for good, as `end_channel` does, and forget their values."""
        with self._lock, self._engine.begin() as connection:
            for chunk in in_chunks(ids):
                mine = among(connection, subscription_table.c.id, chunk)
                values = {"channel": _ended_channel, "key": _key_of((), "")}
                connection.execute(subscription_table.update().where(mine).values(values))
                connection.execute(failure_table.delete().where(among(connection, failure_table.c.subscription, chunk)))

    @contextmanager
    def ending(self, channel: str, ids: Sequence[int], reason: str) -> Iterator[Callable[[sa.Connection], None]]:
        """A function that ends these subscriptions of a channel within a transaction of the caller, and notes that
        their holders are to be notified."""

        def end(connection: sa.Connection) -> None:
            for chunk in in_chunks(ids):
                mine = among(connection, subscription_table.c.id, chunk)
                connection.execute(subscription_table.update().where(mine).values(channel=_ended_channel))
                connection.execute(failure_table.delete().where(among(connection, failure_table.c.subscription, chunk)))
                insert_many(connection, _ending, [(one, channel, reason) for one in chunk])

        # Taken before the caller's transaction begins, as for all other changes.
        with self._lock:
            yield end

    def next_ending(self) -> tuple[str, str, list[int]] | None:
        """The channel, the reason and the ids of some subscriptions whose holders are to be notified; None if there are
        none. The same ones until `notified` is called."""
        with self._engine.connect() as connection:
            rows = connection.execute(sa.select(_ending).order_by(_ending.c.subscription).limit(_READ_CHUNK)).all()
        if not rows:
            return None
        first = rows[0]
        same = [row.subscription for row in rows if (row.channel, row.reason) == (first.channel, first.reason)]
        return first.channel, first.reason, same

    def notified(self, ids: Sequence[int]) -> None:
        """The holders of these have been notified of the end."""
        with self._lock, self._engine.begin() as connection:
            for chunk in in_chunks(ids):
                connection.execute(_ending.delete().where(among(connection, _ending.c.subscription, chunk)))

    def forget_ended(self, broker: str) -> None:
        """Release ended subscriptions for a broker that starts anew: it does not know them."""
        ids = sa.select(subscription_table.c.id).where(_has_ended)
        mine = sa.and_(hold_table.c.broker == broker, hold_table.c.subscription.in_(ids))
        with self._lock, self._engine.begin() as connection:
            held = list(connection.scalars(sa.select(hold_table.c.subscription).where(mine)))
            connection.execute(hold_table.delete().where(mine))
            _remove_unheld(connection, held)

    # Failed subscriptions: brokers keep their holds, so that they can be notified, but no run includes them.

    def fail(self, channel: str, reasons: Mapping[int, str], now_us: int) -> None:
        """Note that subscriptions can't be run, and why. Leaves out those that have ended meanwhile."""
        with self._lock, self._engine.begin() as connection:
            for chunk in in_chunks(list(reasons)):
                mine = among(connection, subscription_table.c.id, chunk)
                there = connection.scalars(sa.select(subscription_table.c.id).where(mine))
                rows = [(one, channel, without_nul(reasons[one]), now_us) for one in there]
                connection.execute(failure_table.delete().where(among(connection, failure_table.c.subscription, chunk)))
                insert_many(connection, failure_table, rows)

    def failures(self, channel: str) -> dict[int, str]:
        """The subscriptions of a channel that have failed, and why."""
        query = sa.select(failure_table).where(failure_table.c.channel == channel)
        with self._engine.connect() as connection:
            return {row.subscription: row.reason for row in connection.execute(query)}

    def failed_counts(self) -> dict[str, int]:
        """Failed subscriptions per channel."""
        query = sa.select(failure_table.c.channel, sa.func.count()).group_by(failure_table.c.channel)
        with self._engine.connect() as connection:
            return {row[0]: int(row[1]) for row in connection.execute(query)}

    def find(self, ids: Sequence[int]) -> dict[int, BackendSubscription]:
        found: dict[int, BackendSubscription] = {}
        with self._engine.connect() as connection:
            for chunk in in_chunks(ids):
                wanted = among(connection, subscription_table.c.id, chunk)
                rows = connection.execute(sa.select(subscription_table).where(wanted))
                found.update({row.id: _subscription(row.id, row.channel, row.key) for row in rows})
        return found

    def of_channel(self, channel: str) -> Iterator[list[BackendSubscription]]:
        """All subscriptions of a channel, in chunks by id, so that memory stays bounded."""
        last = 0
        while True:
            query = (
                sa.select(subscription_table.c.id, subscription_table.c.key)
                .where(subscription_table.c.channel == channel, subscription_table.c.id > last)
                .order_by(subscription_table.c.id)
                .limit(_READ_CHUNK)
            )
            with self._engine.connect() as connection:
                rows = connection.execute(query).all()
            if not rows:
                return
            last = rows[-1].id
            yield [_subscription(row.id, channel, row.key) for row in rows]

    def ids_of(self, channel: str) -> npt.NDArray[np.int64]:
        """The ids of all subscriptions of a channel."""
        query = sa.select(subscription_table.c.id).where(subscription_table.c.channel == channel)
        with self._engine.connect() as connection:
            # PostgreSQL's driver would hold all rows at once otherwise.
            rows = connection.scalars(query, execution_options={"yield_per": _READ_CHUNK})
            return np.fromiter(rows, np.int64)

    def living_among(self, channel: str, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Which of these are ids of subscriptions of a channel."""
        if len(ids) > _READ_CHUNK:
            return np.intersect1d(ids, self.ids_of(channel))
        living: list[int] = []
        with self._engine.connect() as connection:
            for chunk in in_chunks(ids.tolist()):
                is_living = (subscription_table.c.channel == channel) & subscription_table.c.id.in_(chunk)
                living += connection.scalars(sa.select(subscription_table.c.id).where(is_living)).all()
        return np.array(living, np.int64)

    def held_by(self, broker: str, after: int = 0, limit: int = 1000) -> list[BackendSubscription]:
        """A broker's subscriptions by id, a page at a time."""
        query = (
            sa.select(subscription_table)
            .join(hold_table, hold_table.c.subscription == subscription_table.c.id)
            .where(hold_table.c.broker == broker, subscription_table.c.id > after, ~_has_ended)
            .order_by(subscription_table.c.id)
            .limit(limit)
        )
        with self._engine.connect() as connection:
            return [_subscription(row.id, row.channel, row.key) for row in connection.execute(query)]

    def held_among(self, broker: str, ids: Sequence[int]) -> list[int]:
        """Which of `ids` a broker holds."""
        with self._engine.connect() as connection:
            return _held_among(connection, broker, ids)

    def counts(self) -> dict[str, int]:
        """Subscriptions per channel, without ended ones."""
        query = (
            sa.select(subscription_table.c.channel, sa.func.count())
            .where(~_has_ended)
            .group_by(subscription_table.c.channel)
        )
        with self._engine.connect() as connection:
            return {row[0]: int(row[1]) for row in connection.execute(query)}


def _key_of(values: Sequence[ParameterValue], permission: str) -> str:
    """The subscription key within a channel."""
    return _encode([permission, *values]).decode()


def _is_registered(connection: sa.Connection, broker: str) -> bool:
    return connection.execute(sa.select(_brokers).where(_brokers.c.name == broker)).first() is not None


def _subscription(one: int, channel: str, key: str) -> BackendSubscription:
    permission, *values = _decode(key)
    return BackendSubscription(one, channel, tuple(values), permission)


def _ids_by_key(connection: sa.Connection, channel: str, keys: list[str]) -> dict[str, int]:
    known: dict[str, int] = {}
    for chunk in in_chunks(keys):
        query = sa.select(subscription_table.c.key, subscription_table.c.id).where(
            subscription_table.c.channel == channel, _has_key(connection, chunk)
        )
        known.update({row.key: row.id for row in connection.execute(query)})
    return known


def _has_key(connection: sa.Connection, keys: Sequence[str]) -> sa.ColumnElement[bool]:
    """Has one of these keys, in the form that the index on keys serves."""
    if connection.dialect.name == "sqlite":
        return subscription_table.c.key.in_(keys)
    digests = [sha256(key.encode()).digest() for key in keys]
    return among(connection, sa.literal_column(_KEY_DIGEST, sa.LargeBinary), digests)


def _holders(connection: sa.Connection, ids: Sequence[int]) -> dict[str, list[int]]:
    brokers = connection.scalars(sa.select(_brokers.c.name)).all()
    found = {broker: _held_among(connection, broker, ids) for broker in brokers}
    return {broker: held for broker, held in found.items() if held}


def _held_among(connection: sa.Connection, broker: str, ids: Sequence[int]) -> list[int]:
    found: list[int] = []
    for chunk in in_chunks(ids):
        is_wanted = among(connection, hold_table.c.subscription, chunk)
        query = sa.select(hold_table.c.subscription).where(hold_table.c.broker == broker, is_wanted)
        found.extend(connection.scalars(query))
    return found


def _set_last_id(connection: sa.Connection, value: int) -> None:
    connection.execute(counter_table.update().where(counter_table.c.name == "subscription").values(value=value))


def _remove_unheld(connection: sa.Connection, ids: Sequence[int]) -> Ended:
    held = {one for mine in _holders(connection, ids).values() for one in mine}
    ended: Ended = {}
    for chunk in in_chunks([one for one in dict.fromkeys(ids) if one not in held]):
        these = among(connection, subscription_table.c.id, chunk)
        for row in connection.execute(sa.select(subscription_table.c.id, subscription_table.c.channel).where(these)):
            ended.setdefault(row.channel, []).append(row.id)
        connection.execute(subscription_table.delete().where(these))
        connection.execute(failure_table.delete().where(among(connection, failure_table.c.subscription, chunk)))
        connection.execute(request_table.delete().where(among(connection, request_table.c.subscription, chunk)))
    return ended
