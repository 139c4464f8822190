"""One-off queries: SELECT, and the rows that DELETE looks for."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa

from tocsin.cluster.channels.compiler import statements as st
from tocsin.cluster.channels.compiler.compile import compile_select
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.arrow import wire_values
from tocsin.cluster.listings import Answer
from tocsin.cluster.spark_errors import SPARK_ERRORS, reason_of
from tocsin.cluster.spark_jobs import cancel_jobs, job_group, time_limit
from tocsin.errors import StatementError


def select(cluster: Cluster, statement: st.Select) -> Answer:
    most = cluster.settings.select_max_rows
    table = collect(cluster, statement.sql, most + 1)
    truncated = table.num_rows > most
    table = table.slice(0, most)
    columns = [_values(column) for column in table.columns]
    rows = list(zip(*columns, strict=True)) if columns else []
    return Answer(f"{len(rows)} rows", tuple(table.column_names), rows, truncated)


def collect(cluster: Cluster, sql: str, limit_rows: int | None = None) -> pa.Table:
    """The rows of a query, within the time limit of a SELECT."""
    compiled = compile_select(sql, cluster.catalogue.datasets)
    spark, timeout_s = cluster.spark, cluster.settings.select_timeout_s
    group = f"select-{uuid.uuid4().hex}"
    with job_group(spark, group, "SELECT"), time_limit(timeout_s, partial(cancel_jobs, spark, group)) as is_late:
        try:
            with ExitStack() as leases:
                names = {
                    relation: leases.enter_context(cluster.executor.views.full(relation.dataset))
                    for relation in compiled.relations
                }
                frame = spark.sql(compiled.render(names))
                return (frame if limit_rows is None else frame.limit(limit_rows)).toArrow()
        except SPARK_ERRORS as exc:
            reason = f"took longer than {timeout_s:g} s" if is_late.is_set() else reason_of(exc)
            raise StatementError(reason, text=sql) from exc


def _values(column: pa.ChunkedArray) -> list[Any]:
    """A column as values that JSON can carry. All values of a column have one form, even beside one that Python can't
    represent, such as the year 10000."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        return wire_values(column)
    try:
        return [float(value) if isinstance(value, Decimal) else value for value in column.to_pylist()]
    except (ValueError, OverflowError):
        return list(column.cast(pa.string()).to_pylist())
