"""The catalogue: datasets, feeds and channels by name, in a relational database.

SQLite by default, PostgreSQL if its address is given. Names compare without regard to case. Every change is one
transaction: it happens as a whole or not at all. `database.py` says what else is in the same database.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from tocsin.errors import AlreadyExists, InUse, NotFound
from tocsin.model.catalogue import (
    Channel,
    ChannelKind,
    Dataset,
    DatasetKind,
    Feed,
    FeedSource,
    FilledBy,
    OncePer,
    Parameter,
)
from tocsin.model.schema import Column, ColumnType, ResultColumn, Schema
from tocsin.runtime.sql_rows import without_nul

_Named = TypeVar("_Named", Dataset, Feed, Channel)
_Value = TypeVar("_Value")

metadata = sa.MetaData()

_datasets = sa.Table(
    "dataset",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("schema", sa.Text, nullable=False),
)
_feeds = sa.Table(
    "feed",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("dataset", sa.String, nullable=False),
    sa.Column("source", sa.String, nullable=False),
    sa.Column("location", sa.String, nullable=False),
)
_channels = sa.Table(
    "channel",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("kind", sa.String, nullable=False),
    sa.Column("parameters", sa.Text, nullable=False),
    sa.Column("body", sa.Text, nullable=False),
    sa.Column("period_s", sa.Float),
    #: ONCE PER, as JSON; null for channels without it.
    sa.Column("once", sa.Text),
    sa.Column("retention_s", sa.Float),
    sa.Column("snapshot", sa.Boolean, nullable=False, server_default=sa.false()),
)
_paused_channels = sa.Table(
    "paused_channel",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    #: Empty if a person paused it.
    sa.Column("reason", sa.Text, nullable=False, server_default=""),
)


#: The columns of channels' results, as JSON. Only Spark knows their types; they are stored so that a cluster can say
#: them before Spark is there.
_result_columns = sa.Table(
    "result_columns",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("columns", sa.Text, nullable=False),
)


class Catalogue:
    """What exists. Reads come from memory; changes go to the database first."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.RLock()
        with engine.connect() as connection:
            #: By lower-case name, like `feeds` and `channels`.
            self.datasets = {row.key: _dataset(row) for row in connection.execute(sa.select(_datasets))}
            self.feeds = {row.key: _feed(row) for row in connection.execute(sa.select(_feeds))}
            self.channels = {row.key: _channel(row) for row in connection.execute(sa.select(_channels))}
            self._paused: dict[str, str] = {
                row.key: row.reason for row in connection.execute(sa.select(_paused_channels))
            }
            self._result_columns: dict[str, tuple[ResultColumn, ...]] = {
                row.key: msgspec.json.decode(row.columns, type=tuple[ResultColumn, ...])
                for row in connection.execute(sa.select(_result_columns))
            }
        #: Goes up when the columns of the results of a channel change that may have subscriptions.
        self.columns_version = 0

    def is_paused(self, channel: str) -> bool:
        return channel.lower() in self._paused

    def pause_reason(self, channel: str) -> str:
        """Why a channel is paused; empty if a person paused it."""
        return self._paused.get(channel.lower(), "")

    def dataset(self, name: str) -> Dataset:
        return _find(self.datasets, name, "dataset")

    def feed(self, name: str) -> Feed:
        return _find(self.feeds, name, "feed")

    def channel(self, name: str) -> Channel:
        return _find(self.channels, name, "channel")

    def once(self) -> list[tuple[str, OncePer]]:
        """The channels with ONCE PER."""
        return [(channel.name, channel.once) for channel in self.channels.values() if channel.once is not None]

    def add_dataset(self, dataset: Dataset) -> None:
        with self._changing() as connection:
            self.datasets = _added(connection, _datasets, self.datasets, dataset, _dataset_row(dataset))

    def alter_dataset(self, dataset: Dataset) -> None:
        """Store a dataset's new schema under its old name."""
        with self._changing() as connection:
            key = self.dataset(dataset.name).name.lower()
            connection.execute(_datasets.update().where(_datasets.c.key == key).values(**_dataset_row(dataset)))
            self.datasets = {**self.datasets, key: dataset}

    def drop_dataset(self, name: str, used_by: list[str]) -> Dataset:
        """Remove a dataset. `used_by` names the channels that read it; if there are any, it stays."""
        with self._changing() as connection:
            dataset = self.dataset(name)
            key = name.lower()
            feeds = [f"feed {feed.name}" for feed in self.feeds.values() if feed.dataset.lower() == key]
            if users := feeds + [f"channel {channel}" for channel in used_by]:
                raise InUse(f"dataset {dataset.name} is used by {', '.join(users)}; drop those first")
            self.datasets = _without(connection, _datasets, self.datasets, key)
            return dataset

    def add_feed(self, feed: Feed) -> None:
        with self._changing() as connection:
            self.feeds = _added(connection, _feeds, self.feeds, feed, msgspec.to_builtins(feed))
            self.dataset(feed.dataset)

    def drop_feed(self, name: str) -> Feed:
        with self._changing() as connection:
            feed = self.feed(name)
            self.feeds = _without(connection, _feeds, self.feeds, name.lower())
            return feed

    def result_columns(self, channel: str) -> tuple[ResultColumn, ...]:
        """The columns of a channel's results; none if they are not known yet."""
        return self._result_columns.get(channel.lower(), ())

    def set_result_columns(self, channel: str, columns: tuple[ResultColumn, ...]) -> None:
        with self._changing() as connection:
            self._change_columns(connection, channel.lower(), columns)

    def add_channel(self, channel: Channel, columns: tuple[ResultColumn, ...] = ()) -> None:
        with self._changing() as connection:
            self.channels = _added(connection, _channels, self.channels, channel, _channel_row(channel))
            self._set_columns(connection, channel.name.lower(), columns)

    def alter_channel(
        self,
        channel: Channel,
        also: Callable[[sa.Connection], None] = lambda _connection: None,
        columns: tuple[ResultColumn, ...] = (),
    ) -> None:
        """Store a channel's new definition under its old name, and do `also` in the same transaction. Without
        `columns`, those of its results stay."""
        with self._changing() as connection:
            key = self.channel(channel.name).name.lower()
            also(connection)
            if columns:
                self._change_columns(connection, key, columns)
            connection.execute(_channels.update().where(_channels.c.key == key).values(**_channel_row(channel)))
            self.channels = {**self.channels, key: channel}

    def own_retentions(self) -> dict[str, float]:
        """The channels that keep their results for a time of their own, and how many seconds that is."""
        return {one.name: one.retention_s for one in self.channels.values() if one.retention_s is not None}

    def drop_channel(self, name: str) -> Channel:
        with self._changing() as connection:
            channel = self.channel(name)
            self._set_paused(connection, channel, paused=False)
            self._set_columns(connection, name.lower(), ())
            self.channels = _without(connection, _channels, self.channels, name.lower())
            return channel

    def pause_channel(self, name: str, reason: str = "") -> bool:
        """Keep a channel from running, in this process and later ones; False if it was paused already. `reason` says
        why, if no person wanted it."""
        with self._changing() as connection:
            return self._set_paused(connection, self.channel(name), paused=True, reason=reason)

    def resume_channel(self, name: str) -> bool:
        """Let a channel run again; False if it was not paused."""
        with self._changing() as connection:
            return self._set_paused(connection, self.channel(name), paused=False)

    def _set_paused(self, connection: sa.Connection, channel: Channel, *, paused: bool, reason: str = "") -> bool:
        key = channel.name.lower()
        if self.is_paused(key) == paused:
            return False
        if paused:
            reason = without_nul(reason)
            connection.execute(_paused_channels.insert().values(key=key, reason=reason))
            self._paused = {**self._paused, key: reason}
        else:
            self._paused = _without(connection, _paused_channels, self._paused, key)
        return True

    def _change_columns(self, connection: sa.Connection, key: str, columns: tuple[ResultColumn, ...]) -> None:
        """Of a channel that may have subscriptions."""
        if self._result_columns.get(key, ()) != columns:
            self._set_columns(connection, key, columns)
            self.columns_version += 1

    def _set_columns(self, connection: sa.Connection, key: str, columns: tuple[ResultColumn, ...]) -> None:
        others = {name: known for name, known in self._result_columns.items() if name != key}
        connection.execute(_result_columns.delete().where(_result_columns.c.key == key))
        if columns:
            text = msgspec.json.encode(columns).decode()
            connection.execute(_result_columns.insert().values(key=key, columns=text))
        self._result_columns = {**others, key: columns} if columns else others

    @contextmanager
    def _changing(self) -> Iterator[sa.Connection]:
        """One change at a time; if the database refuses it, memory keeps its former state."""
        with self._lock:
            before = self.datasets, self.feeds, self.channels, self._paused, self._result_columns
            try:
                with self._engine.begin() as connection:
                    yield connection
            except BaseException:
                self.datasets, self.feeds, self.channels, self._paused, self._result_columns = before
                raise


def _find(known: Mapping[str, _Named], name: str, kind: str) -> _Named:
    if (found := known.get(name.lower())) is None:
        names = ", ".join(sorted(value.name for value in known.values())) or "none yet"
        raise NotFound(f"no {kind} called {name}; there are: {names}")
    return found


def _added(
    connection: sa.Connection, table: sa.Table, known: Mapping[str, _Named], new: _Named, row: Mapping[str, Any]
) -> dict[str, _Named]:
    if (taken := known.get(new.name.lower())) is not None:
        raise AlreadyExists(f"{table.name} {taken.name} exists already")
    connection.execute(table.insert().values(key=new.name.lower(), **row))
    return {**known, new.name.lower(): new}


def _without(connection: sa.Connection, table: sa.Table, known: Mapping[str, _Value], key: str) -> dict[str, _Value]:
    connection.execute(table.delete().where(table.c.key == key))
    return {one: value for one, value in known.items() if one != key}


def _dataset_row(dataset: Dataset) -> dict[str, Any]:
    columns = [[column.name, column.type, column.nullable] for column in dataset.schema]
    schema = json.dumps({"columns": columns, "primary_key": list(dataset.schema.primary_key)})
    return {"name": dataset.name, "kind": dataset.kind.value, "schema": schema}


def _dataset(row: Any) -> Dataset:
    stored = json.loads(row.schema)
    columns = tuple(Column(name, ColumnType(kind), nullable) for name, kind, nullable in stored["columns"])
    return Dataset(row.name, DatasetKind(row.kind), Schema(columns, tuple(stored["primary_key"])))


def _feed(row: Any) -> Feed:
    return Feed(row.name, row.dataset, FeedSource(row.source), row.location)


def _channel_row(channel: Channel) -> dict[str, Any]:
    parameters = json.dumps([[one.name, one.type, one.maximum, one.filled_by] for one in channel.parameters])
    per = channel.once
    once = None if per is None else json.dumps([per.keys, per.within_s, per.with_exits])
    return {**msgspec.to_builtins(channel), "parameters": parameters, "once": once}


def _channel(row: Any) -> Channel:
    parameters = tuple(_parameter(*one) for one in json.loads(row.parameters))
    once = None if row.once is None else OncePer(*json.loads(row.once))
    kind = ChannelKind(row.kind)
    return Channel(row.name, kind, parameters, row.body, row.period_s, once, row.retention_s, bool(row.snapshot))


def _parameter(name: str, kind: str, maximum: float | None = None, filled_by: str | None = None) -> Parameter:
    """Older catalogues have no maximum, and don't say which parameters are filled in."""
    return Parameter(name, ColumnType(kind), maximum, None if filled_by is None else FilledBy(filled_by))
