"""Carries out statements: what each one does to the cluster, and what it answers.

A statement changes everything it should or nothing. Statements that change what exists run one at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import Any, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.channels.compiler import statements as st
from tocsin.cluster.channels.compiler.compile import CompiledChannel, compile_channel
from tocsin.cluster.channels.compiler.fitting import carried_over, without_layout
from tocsin.cluster.channels.compiler.review import review_channel, review_query
from tocsin.cluster.channels.compiler.scripts import read_script
from tocsin.cluster.channels.spark_verdict import explain
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.core.records import records_of
from tocsin.cluster.datasets.loading import read_file, resolve_import
from tocsin.cluster.datasets.reference_keys import key_columns, repeats
from tocsin.cluster.erasure import forget_person
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.feeds.dead_letters import rejections
from tocsin.cluster.listings import Answer, describe, show
from tocsin.cluster.queries import collect, select
from tocsin.cluster.replacement import replace_channel
from tocsin.errors import AlreadyExists, InUse, InvalidValue, NotFound, TocsinError, Unavailable
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind, Feed, FeedSource
from tocsin.model.grants import Action, Grant, GranteeKind
from tocsin.model.schema import ResultColumn, Schema

_Handler = Callable[[Cluster, Any], Answer]


def run_script(cluster: Cluster, text: str) -> list[Answer]:
    """Carry out statements in order. The first failure ends the script. Earlier statements stay carried out, and
    the error says what they did. A script with a statement that can't be parsed is not begun."""
    script = read_script(text)
    answers: list[Answer] = []
    for at, one in enumerate(script.statements):
        try:
            answers.append(run(cluster, one.statement))
        except TocsinError as error:
            script.locate(error, at, [answer.message for answer in answers])
            raise
    return answers


def run(cluster: Cluster, statement: st.Statement) -> Answer:
    if (change := _CHANGES.get(type(statement))) is not None:
        return _change(cluster, statement, change)
    return _OTHERS[type(statement)](cluster, statement)


def _change(cluster: Cluster, statement: st.Statement, change: _Handler) -> Answer:
    """A statement that changes what exists: such statements run one at a time."""
    with cluster.statement_lock:
        try:
            return change(cluster, statement)
        except AlreadyExists as exc:
            if getattr(statement, "if_not_exists", False):
                return Answer(f"{exc}{_difference(cluster, statement)}: nothing to do")
            raise AlreadyExists(f"{exc}; IF NOT EXISTS before the name leaves it as it is") from exc
        except NotFound as exc:
            if getattr(statement, "if_exists", False):
                return Answer(f"{exc}: nothing to do")
            raise


def _difference(cluster: Cluster, statement: st.Statement) -> str:
    """The existing object may differ from the statement. It stays as it is, and the answer says so."""
    catalogue = cluster.catalogue
    match statement:
        case st.CreateDataset(dataset):
            found = catalogue.dataset(dataset.name)
            # Columns may have been added since.
            columns = found.schema.columns[: len(dataset.schema.columns)]
            is_same = (found.kind, columns, found.schema.primary_key) == (
                dataset.kind,
                dataset.schema.columns,
                dataset.schema.primary_key,
            )
        case st.CreateChannel(channel):
            is_same = without_layout(catalogue.channel(channel.name)) == without_layout(channel)
        case st.AlterDatasetAddColumn(dataset=name, column=column):
            is_same = catalogue.dataset(name).schema.find(column.name) == column
        case _:
            is_same = True
    return "" if is_same else ", defined differently, and stays as it is"


# Datasets


def _create_dataset(cluster: Cluster, statement: st.CreateDataset) -> Answer:
    dataset = statement.dataset
    if dataset.name.lower() in cluster.catalogue.datasets:
        raise AlreadyExists(f"dataset {dataset.name} exists already")
    cluster.store.create(dataset, cluster.intake.landing.end)
    try:
        cluster.catalogue.add_dataset(dataset)
    except BaseException:
        cluster.store.drop(dataset.name)
        raise
    return Answer(f"{dataset.kind.lower()} dataset {dataset.name} created")


def _add_column(cluster: Cluster, statement: st.AlterDatasetAddColumn) -> Answer:
    column = statement.column
    stored = cluster.store[cluster.catalogue.dataset(statement.dataset).name]
    if stored.dataset.schema.find(column.name) is not None:
        raise AlreadyExists(f"dataset {stored.dataset.name} has a column {column.name} already")
    if not column.nullable:
        raise InvalidValue(f"column {column.name} can't be NOT NULL: rows already stored have no value for it")
    dataset = stored.dataset
    grown = Dataset(dataset.name, dataset.kind, dataset.schema.with_column(column))
    datasets = {**cluster.catalogue.datasets, dataset.name.lower(): grown}
    # First, since a channel that conflicts with the column (two of one name, say) refuses it.
    compiled = {
        name: compile_channel(cluster.catalogue.channel(name), datasets) for name in cluster.users_of(dataset.name)
    }
    # Between two batches, so that no batch sees half of the change.
    with cluster.ingestion.batch_lock:
        stored.add_column(column)
        cluster.catalogue.alter_dataset(stored.dataset)
        for name, channel in compiled.items():
            # A run under way ends with the former query.
            cluster.executor.states[name.lower()].compiled = channel
    for name in compiled:
        cluster.find_result_columns(name)
    return Answer(f"column {column.name} added to {stored.dataset.name}")


def _insert(cluster: Cluster, statement: st.Insert) -> Answer:
    """Sends the rows through the landing log, like all records, and waits until they are in the table."""
    dataset = cluster.catalogue.dataset(statement.dataset)
    records = records_of(dataset, statement.columns, statement.rows)
    if dataset.kind is DatasetKind.REFERENCE and dataset.schema.primary_key:
        taken = cluster.store[dataset.name].keys()
        for at, reason in repeats(taken, key_columns(dataset.schema, records), dataset.schema.primary_key).items():
            raise InvalidValue(f"row {at + 1}: {reason}; nothing was inserted")
    lines = [json.dumps(record).encode() for record in records]
    feed = Feed("", dataset.name, FeedSource.HTTP)
    receipt = cluster.intake.accept(feed, DecodedBody(b"\n".join(lines), len(lines))).result()
    try:
        cluster.intake.wait_ingested(receipt.end).result()
    except CancelledError:
        raise Unavailable(
            "the cluster stopped; the rows are safe and will be in the table after a start", retry_after_s=1.0
        ) from None
    rejected = rejections(cluster.store[dataset.name].dead_letters, receipt.position, receipt.end)
    if rejected:
        first = rejected[0]
        raise InvalidValue(
            f"{len(rejected)} of {len(lines)} rows were refused and are dead letters now; "
            f"the first is row {first['line']}: {first['reason']}"
        )
    return Answer(f"{len(lines)} rows inserted into {dataset.name}")


def _delete(cluster: Cluster, statement: st.Delete) -> Answer:
    """Runs between two batches: a row that came in between would be deleted unseen, or come back."""
    dataset = cluster.catalogue.dataset(statement.dataset)
    if dataset.kind is DatasetKind.ACTIVE:
        raise InvalidValue(
            f"{dataset.name} is an ACTIVE dataset: subscribers have been notified of its rows, which stay until "
            "dataset_retention_s has passed; rows of KEYED and REFERENCE datasets can be deleted"
        )
    review_query(statement.doomed, cluster.catalogue.datasets)
    with cluster.statement_lock, cluster.ingestion.batch_lock:
        stored = cluster.store[dataset.name]
        before = len(stored)
        if dataset.kind is DatasetKind.KEYED:
            stored.delete_keys(collect(cluster, statement.doomed))
        else:
            stored.replace(collect(cluster, statement.kept))
        count = before - len(stored)
    if count:
        cluster.executor.run_continuous([dataset.name])
    return Answer(f"{count} row{'' if count == 1 else 's'} deleted from {dataset.name}")


def _forget(cluster: Cluster, statement: st.ForgetPerson) -> Answer:
    try:
        return Answer(forget_person(cluster, statement.name))
    except CancelledError:
        raise Unavailable("the cluster stopped; nothing was removed", retry_after_s=1.0) from None


def _load(cluster: Cluster, statement: st.LoadDataset) -> Answer:
    stored = cluster.store[cluster.catalogue.dataset(statement.dataset).name]
    path = resolve_import(statement.path, cluster.import_folders)
    dataset = stored.dataset
    rows = read_file(cluster.spark, dataset, path, statement.format)
    if dataset.kind is DatasetKind.REFERENCE:
        _refuse_repeated_keys(dataset.schema, rows, path)
    with cluster.statement_lock:
        if cluster.store.get(dataset.name) is not stored or stored.dataset != dataset:
            raise InUse(f"dataset {dataset.name} was changed while {path.name} was read; nothing was loaded")
        if dataset.kind is DatasetKind.REFERENCE:
            stored.replace(rows)
        else:
            stored.commit(rows)
    stored.sync()  # The landing log can't bring these rows again.
    cluster.executor.run_continuous([dataset.name])
    return Answer(f"{rows.num_rows} rows loaded into {stored.dataset.name}")


# Feeds and channels


def _create_feed(cluster: Cluster, statement: st.CreateFeed) -> Answer:
    feed = statement.feed
    if feed.name.lower() in cluster.catalogue.feeds:
        raise AlreadyExists(f"feed {feed.name} exists already")
    dataset = cluster.catalogue.dataset(feed.dataset)
    location = feed.location
    if feed.source is FeedSource.FOLDER:
        folder = resolve_import(location, cluster.import_folders)
        if not folder.is_dir():
            raise InvalidValue(f"{location!r} is no folder")
        location = str(folder)
    feed = Feed(feed.name, dataset.name, feed.source, location)
    cluster.intake.begin(feed)
    cluster.catalogue.add_feed(feed)
    cluster.watch(feed)
    return Answer(f"feed {feed.name} into {dataset.name} created")


def _create_channel(cluster: Cluster, statement: st.CreateChannel) -> Answer:
    channel = statement.channel
    before = cluster.catalogue.channels.get(channel.name.lower())
    if before is not None:
        if not statement.or_replace:
            raise AlreadyExists(f"channel {channel.name} exists already")
        channel = carried_over(before, channel)
        if without_layout(before) == without_layout(channel):
            return Answer(f"channel {before.name} is defined so already: nothing to do")
    review_channel(channel, cluster.catalogue.datasets)
    compiled = compile_channel(channel, cluster.catalogue.datasets)
    verdict = explain(cluster.spark, cluster.executor.views, cluster.store, channel, compiled)
    if before is not None:
        return _replace_channel(cluster, channel, compiled, verdict.columns)
    cluster.grants.forget(Action.SUBSCRIBE, channel.name)
    if cluster.settings.channels_open:
        cluster.grants.grant(Grant(Action.SUBSCRIBE, channel.name, GranteeKind.ALL))
    cluster.put_to_work(channel, compiled)
    try:
        cluster.catalogue.add_channel(channel, verdict.columns)
    except BaseException:
        cluster.retire(channel)
        raise
    return Answer(f"{channel.kind.lower()} channel {channel.name} created")


def _replace_channel(
    cluster: Cluster, channel: Channel, compiled: CompiledChannel, columns: tuple[ResultColumn, ...]
) -> Answer:
    done = replace_channel(cluster, channel, compiled, columns)
    kept = f"{done.kept} subscription{' goes' if done.kept == 1 else 's go'} on"
    paused = "; it stays paused" if cluster.catalogue.is_paused(channel.name) else ""
    return Answer(f"{channel.kind.lower()} channel {channel.name} replaced; {kept}, {done.ended} ended{paused}")


def _alter_channel(cluster: Cluster, statement: st.AlterChannel) -> Answer:
    before = cluster.catalogue.channel(statement.name)
    if statement.period_s is not None and before.kind is not ChannelKind.REPETITIVE:
        raise InvalidValue(
            f"channel {before.name} is CONTINUOUS and has no period: it runs when records arrive; "
            "only its retention can be set"
        )
    after = before
    if statement.period_s is not None:
        after = replace(after, period_s=statement.period_s)
    if statement.retention_s is not None:
        after = replace(after, retention_s=statement.retention_s or None)
    if after == before:
        return Answer(f"channel {before.name} has these values already: nothing to do")
    cluster.alter(after)
    return Answer(f"channel {after.name} altered")


def _pause(cluster: Cluster, statement: st.PauseChannel) -> Answer:
    name = cluster.catalogue.channel(statement.name).name
    if not cluster.pause(name):
        return Answer(f"channel {name} is paused already: nothing to do")
    return Answer(f"channel {name} paused")


def _resume(cluster: Cluster, statement: st.ResumeChannel) -> Answer:
    name = cluster.catalogue.channel(statement.name).name
    if not cluster.resume(name):
        return Answer(f"channel {name} is not paused: nothing to do")
    return Answer(f"channel {name} resumed")


def _drop(cluster: Cluster, statement: st.Drop) -> Answer:
    name = statement.name
    match statement.kind:
        case st.Kind.DATASET:
            dataset = cluster.catalogue.drop_dataset(name, cluster.users_of(name))
            cluster.store[dataset.name].end_upkeep()  # Before the lock: ingestion should not wait for it too.
            with cluster.ingestion.batch_lock:
                cluster.store.drop(dataset.name)
        case st.Kind.FEED:
            feed = cluster.catalogue.drop_feed(name)
            cluster.grants.forget(Action.PUBLISH, feed.name)
            cluster.unwatch(feed)
            cluster.metrics.forget_feed(feed.name)
        case st.Kind.CHANNEL:
            channel = cluster.catalogue.drop_channel(name)
            cluster.grants.forget(Action.SUBSCRIBE, channel.name)
            count = cluster.retire(channel)
            ended = f"{count} subscription{'' if count == 1 else 's'} ended with it"
            return Answer(f"channel {channel.name} dropped; {ended}")
        case _ as never:
            assert_never(never)
    return Answer(f"{statement.kind.lower()} {name} dropped")


# Grants


def _grant(cluster: Cluster, statement: st.GrantTo) -> Answer:
    found = _existing(cluster, statement.grant)
    is_new = cluster.grants.grant(found)
    return Answer(f"granted: {found}" if is_new else f"{found}: granted already, nothing to do")


def _revoke(cluster: Cluster, statement: st.RevokeFrom) -> Answer:
    found = _existing(cluster, statement.grant)
    ended = cluster.revoke(found)
    if ended is None:
        return Answer(f"{found}: not granted, nothing to do")
    note = f"; {ended} subscription{' ends' if ended == 1 else 's end'}" if found.action is Action.SUBSCRIBE else ""
    return Answer(f"revoked: {found}{note}")


def _create_publisher(cluster: Cluster, statement: st.CreatePublisher) -> Answer:
    token = cluster.grants.create_publisher(statement.name)
    message = f"publisher {statement.name} created; its token is shown only now"
    return Answer(message, ("publisher", "token"), [(statement.name, token)])


def _drop_publisher(cluster: Cluster, statement: st.DropPublisher) -> Answer:
    cluster.grants.drop_publisher(statement.name)
    return Answer(f"publisher {statement.name} dropped: its token is void")


def _existing(cluster: Cluster, grant: Grant) -> Grant:
    """The grant with names as they were created. Raises NotFound."""
    if grant.action is Action.SUBSCRIBE:
        return replace(grant, on=cluster.catalogue.channel(grant.on).name)
    cluster.grants.check_publisher(grant.grantee)
    return replace(grant, on=cluster.catalogue.feed(grant.on).name)


def _explain(cluster: Cluster, statement: st.ExplainChannel) -> Answer:
    channel = cluster.catalogue.channel(statement.name)
    compiled = cluster.executor.states[channel.name.lower()].compiled
    verdict = explain(cluster.spark, cluster.executor.views, cluster.store, channel, compiled)
    return Answer(f"channel {channel.name}", ("part", "text"), [("sql", verdict.sql), ("plan", verdict.plan)])


#: What carries out each statement that changes what exists, and each other one.
_CHANGES: Mapping[type[st.Statement], _Handler] = {
    st.CreateDataset: _create_dataset,
    st.AlterDatasetAddColumn: _add_column,
    st.CreateFeed: _create_feed,
    st.CreateChannel: _create_channel,
    st.AlterChannel: _alter_channel,
    st.Drop: _drop,
    st.GrantTo: _grant,
    st.RevokeFrom: _revoke,
    st.CreatePublisher: _create_publisher,
    st.DropPublisher: _drop_publisher,
}
_OTHERS: Mapping[type[st.Statement], _Handler] = {
    st.Select: select,
    st.Show: show,
    st.Describe: describe,
    st.ExplainChannel: _explain,
    st.Insert: _insert,
    st.Delete: _delete,
    st.ForgetPerson: _forget,
    st.LoadDataset: _load,
    st.PauseChannel: _pause,
    st.ResumeChannel: _resume,
}


def _refuse_repeated_keys(schema: Schema, rows: pa.Table, path: Path) -> None:
    if not schema.primary_key:
        return
    keys = list(schema.primary_key)
    repeated = rows.group_by(keys).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if repeated.num_rows:
        first = {name: repeated.column(name)[0].as_py() for name in keys}
        raise InvalidValue(f"{path.name}: the key {first} comes more than once; nothing was loaded")
