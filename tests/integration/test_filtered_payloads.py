"""What a broker decides on a payload is what Spark's WHERE decides on the row that the payload was made of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocsin.broker.core.matching import SourceFilters
from tocsin.broker.shell.cluster_link import _deliveries
from tocsin.cluster.channels.compiler.sets import payload_query
from tocsin.cluster.channels.spark_verdict import result_columns
from tocsin.errors import StatementError
from tocsin.filters.results import filtered_columns
from worlds.drawn_filters import SCHEMA, conditions, drawn, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Beside the drawn columns: what a query may compute, and what no record may hold.
_COMPUTED = {
    "tiny": "CAST(i % 100 AS TINYINT)",
    "small": "CAST(i % 30000 AS SMALLINT)",
    "later": "timestamp_seconds(253402300800 + abs(b % 100000000))",
    "earlier": "timestamp_seconds(-62135596801 - abs(b % 100000000))",
    "last_day": "date_from_unix_date(2932897 + abs(i % 1000))",
    "first_day": "date_from_unix_date(-719163 - abs(i % 1000))",
    "ratio": "d / 3",
    "total": "CAST(b AS DECIMAL(22, 2))",
    "single": "CAST(d AS FLOAT)",
    "list": "array(i, 5)",
    "nothing": "NULL",
    "select": "i",
}
_REFUSED = {"total": "DECIMAL(22,2)", "single": "FLOAT", "list": "ARRAY<INT>", "nothing": "VOID"}
_MORE = [
    "tiny > 1",
    "tiny IN (1, 2.0, 300)",
    "small <= 3",
    "small = 1e0",
    "later > TIMESTAMP '2200-12-31T23:59:59Z'",
    "later < TIMESTAMP '2200-12-31T23:59:59Z' OR later IS NULL",
    "earlier < TIMESTAMP '1900-01-01T00:00:00Z'",
    "earlier >= TIMESTAMP '1900-01-01T00:00:00Z' OR earlier IS NULL",
    "last_day > DATE '2200-12-31'",
    "first_day < DATE '1900-01-01'",
    "ratio > 0.1",
    "ratio = 0.1 OR ratio >= 1.7e308",
    "NOT ratio < 5",
    "`select` = 1",
]


def test_brokers_decide_as_spark_does(spark: SparkSession) -> None:
    """Types and payloads are those that the cluster makes, lines and frames those that brokers pull: NULL, NaN, numbers
    beyond 2^53, years without four digits. A column that JSON does not say exactly is refused by name."""
    from pyspark.sql import functions as F  # noqa: N812

    rows = drawn(records(), 120)
    names = [column.name for column in SCHEMA]
    ddl = ", ".join(f"{column.name} {column.type}" for column in SCHEMA)
    spark.createDataFrame([tuple(one[name] for name in names) for one in rows], ddl).coalesce(
        1
    ).createOrReplaceTempView("drawn_rows")
    computed = ", ".join(f"{sql} AS `{name}`" for name, sql in _COMPUTED.items())
    body = f"SELECT 7 AS _subscription, *, {computed} FROM drawn_rows"
    all_names = [*names, *_COMPUTED]
    found = spark.sql(payload_query(body, all_names))
    columns = result_columns(found, all_names)
    for name, kind in _REFUSED.items():
        assert next(one.type for one in columns if one.name == name) == kind
        for text in (f"{name} > 5", f"{name} IS NULL"):
            try:
                filtered_columns(columns).parse(text)
            except StatementError as exc:
                assert str(exc).startswith(f"{name} is {kind}, which filters don't compare; "), str(exc)  # noqa: PT017
            else:
                raise AssertionError(f"{text} was taken")
    filters = SourceFilters(columns, {})
    texts = [one.text for one in drawn(conditions(), 150)] + _MORE
    groups = {}
    for text in texts:
        try:
            groups[text] = filters.parse(text)
        except StatementError as exc:
            assert "no record can match" in str(exc)  # noqa: PT017
    assert len(groups) > 100
    assert groups.keys() >= set(_MORE)
    table = spark.sql(body)
    truths = [F.coalesce(F.expr(text), F.lit(False)).alias(f"t{at}") for at, text in enumerate(groups)]
    verdicts = table.select(*truths).collect()
    payloads: list[Any] = [one.payload for one in found.collect()]
    lines = _lines_of(payloads)
    deliveries = _deliveries(lines)
    wrong = [
        (text, delivery.payload(), verdict[f"t{at}"])
        for delivery, verdict in zip(deliveries, verdicts, strict=True)
        for at, (text, group) in enumerate(groups.items())
        if filters.row_of(delivery) is None or group.matches(delivery) != verdict[f"t{at}"]
    ]
    assert not wrong


def _lines_of(payloads: list[str]) -> bytes:
    """As the cluster answers a pull."""
    import pyarrow as pa

    from tocsin.cluster.results.wire import NDJSON, encode_results

    count = len(payloads)
    table = pa.table(
        {
            "subscription": [7] * count,
            "sequence": list(range(1, count + 1)),
            "channel": ["C"] * count,
            "payload": payloads,
            "committed_at": pa.array([1] * count, pa.timestamp("us", tz="UTC")),
            "key": pa.nulls(count),
            "held": pa.nulls(count),
            "kind": pa.nulls(count),
        }
    )
    return encode_results(table, NDJSON)[1]
