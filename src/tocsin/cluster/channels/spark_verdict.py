"""Spark's part in compiling a channel: its verdict at CREATE CHANNEL and its plan for EXPLAIN."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tocsin.cluster.channels.compiler.compile import CompiledChannel
from tocsin.cluster.channels.compiler.near import cell_size_for
from tocsin.cluster.channels.compiler.template import Relation, RelationRole
from tocsin.cluster.channels.compiler.windows import IS_NEW_COLUMN
from tocsin.cluster.channels.subscription_relation import subscription_rows
from tocsin.cluster.datasets.store import DatasetStore
from tocsin.cluster.datasets.views import DatasetViews
from tocsin.errors import StatementError
from tocsin.model.catalogue import Channel
from tocsin.model.schema import ResultColumn

#: Any radius does for a plan; a common one makes EXPLAIN show a likely cell size.
_EXAMPLE_RADIUS_M = 500.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rewritten SQL, Spark's plan for it, and the columns of the results."""

    sql: str
    plan: str
    columns: tuple[ResultColumn, ...]


def explain(
    spark: SparkSession, views: DatasetViews, store: DatasetStore, channel: Channel, compiled: CompiledChannel
) -> Verdict:
    """Spark's verdict over relations of the right shape with no rows.

    Raises StatementError, with Spark's own words, if Spark can't run it.
    """
    queries = [compiled] if compiled.holding is None else [compiled, compiled.holding]
    relations = {relation for query in queries for relation in query.relations}
    with ExitStack() as leases:
        names = {}
        for relation in relations:
            nothing = schema_of(relation, store, channel).empty_table()
            names[relation] = leases.enter_context(views.of_arrow(nothing))
        sizes = {name: cell_size_for(_EXAMPLE_RADIUS_M) for name in compiled.radius_parameters}
        columns: tuple[ResultColumn, ...] = ()
        try:
            for query in queries:
                found = spark.sql(query.render(names, sizes))
                columns = columns or result_columns(found, [one.name for one in compiled.columns])
            plan = spark.sql(f"EXPLAIN FORMATTED {compiled.render(names, sizes)}").collect()[0][0]
        except PySparkException as exc:
            reason = (exc.getMessage() or str(exc)).strip().splitlines()[0]
            raise StatementError(f"Spark can't run channel {channel.name}: {reason}", text=channel.body) from exc
    shown = {relation: _shown(relation) for relation in relations}
    sql = "\n\n-- What holds, if all results are checked:\n".join(one.render(shown, sizes) for one in queries)
    return Verdict(sql, str(plan), columns)


def result_columns(found: DataFrame, names: Sequence[str]) -> tuple[ResultColumn, ...]:
    """The columns of these names in the rows that a channel's query makes payloads of: the outermost rows below its
    payloads that have all of them."""
    plans = [found._jdf.queryExecution().analyzed()]  # noqa: SLF001
    while plans:
        plans = [children.apply(at) for one in plans for children in (one.children(),) for at in range(children.size())]
        for plan in plans:
            fields = StructType.fromJson(json.loads(plan.schema().json()))
            types = {field.name.lower(): field.dataType.simpleString().upper() for field in fields}
            if all(one.lower() in types for one in names):
                return tuple(ResultColumn(one, types[one.lower()]) for one in names)
    raise AssertionError(f"no part of the query has the columns {', '.join(names)}")


def schema_of(relation: Relation, store: DatasetStore, channel: Channel) -> pa.Schema:
    if relation.role is RelationRole.SUBSCRIPTIONS:
        return subscription_rows(channel, []).schema
    schema = store[relation.dataset].rows.schema
    is_marked = relation.role is RelationRole.FULL_MARKED
    return schema.append(pa.field(IS_NEW_COLUMN, pa.bool_())) if is_marked else schema


def _shown(relation: Relation) -> str:
    names = {RelationRole.SUBSCRIPTIONS: "subscriptions", RelationRole.NEW: f"new_{relation.dataset}"}
    return names.get(relation.role, relation.dataset)
