"""Carries out statements: what each one does to the cluster, and what it answers.

A statement changes everything it should or nothing. Statements that change what exists run one at a time.
"""

from __future__ import annotations

import json
from concurrent.futures import CancelledError
from dataclasses import replace
from pathlib import Path
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.channels.compiler import statements as st
from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.compiler.review import review_channel, review_query
from tocsin.cluster.channels.compiler.scripts import read_script
from tocsin.cluster.channels.spark_verdict import explain
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.core.inserts import records_of
from tocsin.cluster.datasets.loading import read_file, resolve_import
from tocsin.cluster.datasets.reference_keys import key_columns, repeats
from tocsin.cluster.erasure import forget_person, in_words
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.feeds.dead_letters import rejections
from tocsin.cluster.listings import Answer, describe, show
from tocsin.cluster.queries import collect, select
from tocsin.errors import AlreadyExists, InUse, InvalidValue, NotFound, TocsinError, Unavailable
from tocsin.model.catalogue import Channel, Dataset, DatasetKind, Feed, FeedSource
from tocsin.model.grants import Action, Grant, GranteeKind
from tocsin.model.schema import Schema

#: The statements that change what exists.
_Change = (
    st.CreateDataset
    | st.AlterDatasetAddColumn
    | st.CreateFeed
    | st.CreateChannel
    | st.Drop
    | st.GrantTo
    | st.RevokeFrom
    | st.CreatePublisher
    | st.DropPublisher
)
#: The statements that change the rows of datasets.
_RowChange = st.Insert | st.Delete | st.ForgetPerson | st.LoadDataset


class Interpreter:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def run_script(self, text: str) -> list[Answer]:
        """Carry out statements in order. The first failure ends the script. Earlier statements stay carried out, and
        the error says what they did. A script with a statement that can't be parsed is not begun."""
        script = read_script(text)
        answers: list[Answer] = []
        for at, one in enumerate(script.statements):
            try:
                answers.append(self.run(one.statement))
            except TocsinError as error:
                script.locate(error, at, [answer.message for answer in answers])
                raise
        return answers

    def run(self, statement: st.Statement) -> Answer:
        match statement:
            case st.Select():
                return select(self._cluster, statement)
            case st.Show():
                return show(self._cluster, statement)
            case st.Describe():
                return describe(self._cluster, statement)
            case st.ExplainChannel():
                return self._explain(statement)
            case st.Insert() | st.Delete() | st.ForgetPerson() | st.LoadDataset():
                return self._change_rows(statement)
            case st.PauseChannel():
                return self._pause(statement)
            case st.ResumeChannel():
                return self._resume(statement)
            case _:
                return self._change_what_exists(statement)

    def _change_rows(self, statement: _RowChange) -> Answer:
        match statement:
            case st.Insert():
                return self._insert(statement)
            case st.Delete():
                return self._delete(statement)
            case st.ForgetPerson():
                return self._forget(statement)
            case st.LoadDataset():
                return self._load(statement)
            case _ as never:
                assert_never(never)

    def _change_what_exists(self, statement: _Change) -> Answer:
        with self._cluster.statement_lock:
            try:
                return self._change(statement)
            except AlreadyExists as exc:
                if getattr(statement, "if_not_exists", False):
                    return Answer(f"{exc}{self._difference(statement)}: nothing to do")
                raise AlreadyExists(f"{exc}; IF NOT EXISTS before the name leaves it as it is") from exc
            except NotFound as exc:
                if getattr(statement, "if_exists", False):
                    return Answer(f"{exc}: nothing to do")
                raise

    def _difference(self, statement: _Change) -> str:
        """The existing object may differ from the statement. It stays as it is, and the answer says so."""
        catalogue = self._cluster.catalogue
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
                is_same = _without_layout(catalogue.channel(channel.name)) == _without_layout(channel)
            case st.AlterDatasetAddColumn(dataset=name, column=column):
                is_same = catalogue.dataset(name).schema.find(column.name) == column
            case _:
                is_same = True
        return "" if is_same else ", defined differently, and stays as it is"

    def _change(self, statement: _Change) -> Answer:
        match statement:
            case st.CreateDataset():
                return self._create_dataset(statement)
            case st.AlterDatasetAddColumn():
                return self._add_column(statement)
            case st.CreateFeed():
                return self._create_feed(statement)
            case st.CreateChannel():
                return self._create_channel(statement)
            case st.Drop():
                return self._drop(statement)
            case st.GrantTo(grant):
                return self._grant(grant)
            case st.RevokeFrom(grant):
                return self._revoke(grant)
            case st.CreatePublisher(name):
                token = self._cluster.grants.create_publisher(name)
                message = f"publisher {name} created; its token is shown only now"
                return Answer(message, ("publisher", "token"), [(name, token)])
            case st.DropPublisher(name):
                self._cluster.grants.drop_publisher(name)
                return Answer(f"publisher {name} dropped: its token is void")
            case _ as never:
                assert_never(never)

    # Datasets

    def _create_dataset(self, statement: st.CreateDataset) -> Answer:
        dataset, cluster = statement.dataset, self._cluster
        if dataset.name.lower() in cluster.catalogue.datasets:
            raise AlreadyExists(f"dataset {dataset.name} exists already")
        cluster.store.create(dataset, cluster.intake.landing.end)
        try:
            cluster.catalogue.add_dataset(dataset)
        except BaseException:
            cluster.store.drop(dataset.name)
            raise
        return Answer(f"{dataset.kind.lower()} dataset {dataset.name} created")

    def _add_column(self, statement: st.AlterDatasetAddColumn) -> Answer:
        cluster, column = self._cluster, statement.column
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
                cluster.executor.recompile(name, channel)
        return Answer(f"column {column.name} added to {stored.dataset.name}")

    def _insert(self, statement: st.Insert) -> Answer:
        """Sends the rows through the landing log, like all records, and waits until they are in the table."""
        cluster = self._cluster
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

    def _delete(self, statement: st.Delete) -> Answer:
        """Runs between two batches: a row that came in between would be deleted unseen, or come back."""
        cluster = self._cluster
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
        return Answer(f"{count} row{'' if count == 1 else 's'} deleted from {dataset.name}")

    def _forget(self, statement: st.ForgetPerson) -> Answer:
        try:
            forgotten = forget_person(self._cluster, statement.name)
        except CancelledError:
            raise Unavailable("the cluster stopped; nothing was removed", retry_after_s=1.0) from None
        return Answer(in_words(forgotten, statement.name))

    def _load(self, statement: st.LoadDataset) -> Answer:
        cluster = self._cluster
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

    def _create_feed(self, statement: st.CreateFeed) -> Answer:
        feed, cluster = statement.feed, self._cluster
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

    def _create_channel(self, statement: st.CreateChannel) -> Answer:
        channel, cluster = statement.channel, self._cluster
        if channel.name.lower() in cluster.catalogue.channels:
            raise AlreadyExists(f"channel {channel.name} exists already")
        review_channel(channel, cluster.catalogue.datasets)
        compiled = cluster.compile(channel)
        explain(cluster.spark, cluster.executor.views, cluster.store, channel, compiled)
        cluster.grants.forget(Action.SUBSCRIBE, channel.name)
        if cluster.settings.channels_open:
            cluster.grants.grant(Grant(Action.SUBSCRIBE, channel.name, GranteeKind.ALL))
        cluster.put_to_work(channel, compiled)
        try:
            cluster.catalogue.add_channel(channel)
        except BaseException:
            cluster.retire(channel)
            raise
        return Answer(f"{channel.kind.lower()} channel {channel.name} created")

    def _pause(self, statement: st.PauseChannel) -> Answer:
        name = self._cluster.catalogue.channel(statement.name).name
        if not self._cluster.pause(name):
            return Answer(f"channel {name} is paused already: nothing to do")
        return Answer(f"channel {name} paused")

    def _resume(self, statement: st.ResumeChannel) -> Answer:
        name = self._cluster.catalogue.channel(statement.name).name
        if not self._cluster.resume(name):
            return Answer(f"channel {name} is not paused: nothing to do")
        return Answer(f"channel {name} resumed")

    def _drop(self, statement: st.Drop) -> Answer:
        cluster, name = self._cluster, statement.name
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

    def _grant(self, grant: Grant) -> Answer:
        found = self._existing(grant)
        is_new = self._cluster.grants.grant(found)
        return Answer(f"granted: {found}" if is_new else f"{found}: granted already, nothing to do")

    def _revoke(self, grant: Grant) -> Answer:
        found = self._existing(grant)
        ended = self._cluster.revoke(found)
        if ended is None:
            return Answer(f"{found}: not granted, nothing to do")
        note = f"; {ended} subscription{' ends' if ended == 1 else 's end'}" if found.action is Action.SUBSCRIBE else ""
        return Answer(f"revoked: {found}{note}")

    def _existing(self, grant: Grant) -> Grant:
        """The grant with names as they were created. Raises NotFound."""
        cluster = self._cluster
        if grant.action is Action.SUBSCRIBE:
            return replace(grant, on=cluster.catalogue.channel(grant.on).name)
        cluster.grants.check_publisher(grant.grantee)
        return replace(grant, on=cluster.catalogue.feed(grant.on).name)

    def _explain(self, statement: st.ExplainChannel) -> Answer:
        cluster = self._cluster
        channel = cluster.catalogue.channel(statement.name)
        compiled = cluster.executor.states[channel.name.lower()].compiled
        sql, plan = explain(cluster.spark, cluster.executor.views, cluster.store, channel, compiled)
        return Answer(f"channel {channel.name}", ("part", "text"), [("sql", sql), ("plan", plan)])


def _without_layout(channel: Channel) -> Channel:
    return replace(channel, name=channel.name.lower(), body=" ".join(channel.body.split()))


def _refuse_repeated_keys(schema: Schema, rows: pa.Table, path: Path) -> None:
    if not schema.primary_key:
        return
    keys = list(schema.primary_key)
    repeated = rows.group_by(keys).aggregate([([], "count_all")]).filter(pc.field("count_all") > 1)
    if repeated.num_rows:
        first = {name: repeated.column(name)[0].as_py() for name in keys}
        raise InvalidValue(f"{path.name}: the key {first} comes more than once; nothing was loaded")
