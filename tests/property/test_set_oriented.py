"""A channel run for all subscriptions at once gives the rows of its body run once for each of them.

The other side of the comparison is naive on purpose: the body's text with literals in place of parameters, `is_new`
as a filter and `within` as the plain exact test, one query per subscription.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.compiler.template import Relation, RelationRole
from tocsin.cluster.channels.core.radius_classes import count_classes, radius_groups
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind, OncePer, Parameter
from tocsin.model.schema import Column, ColumnType, Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: (etype, x, y, radius, least severity) of a subscription; the user is that of the same number.
PARAMETERS = (
    Parameter("etype", ColumnType.STRING),
    Parameter("px", ColumnType.DOUBLE),
    Parameter("py", ColumnType.DOUBLE),
    Parameter("radius", ColumnType.DOUBLE),
    Parameter("least", ColumnType.INT),
    Parameter("me", ColumnType.STRING),
)
_ARROW = {
    ColumnType.STRING: pa.string(),
    ColumnType.DOUBLE: pa.float64(),
    ColumnType.INT: pa.int32(),
    ColumnType.BIGINT: pa.int64(),
    ColumnType.BOOLEAN: pa.bool_(),
}


def _dataset(name: str, kind: DatasetKind, columns: str) -> Dataset:
    typed = tuple(Column(*pair) for pair in _pairs(columns))
    return Dataset(name, kind, Schema(typed, (typed[0].name,)))


def _pairs(columns: str) -> list[tuple[str, ColumnType]]:
    return [(name, ColumnType(type_)) for name, type_ in (column.split() for column in columns.split(","))]


REPORTS = _dataset("Reports", DatasetKind.ACTIVE, "id STRING, etype STRING, x DOUBLE, y DOUBLE, severity INT")
USERS = _dataset("Users", DatasetKind.KEYED, "user_id STRING, x DOUBLE, y DOUBLE")
SHELTERS = _dataset("Shelters", DatasetKind.REFERENCE, "name STRING, x DOUBLE, y DOUBLE")
DATASETS = {dataset.name.lower(): dataset for dataset in (REPORTS, USERS, SHELTERS)}

BODIES = {
    "equality": "SELECT r.id, r.severity FROM Reports r WHERE is_new(r) AND r.etype = :etype",
    "inequality": "SELECT r.id FROM Reports r WHERE is_new(r) AND r.severity >= :least",
    "no parameter": "SELECT r.id FROM Reports r WHERE is_new(r)",
    "in the output": "SELECT r.id, :etype AS asked, r.severity + :least AS more FROM Reports r WHERE is_new(r)",
    "whole": "SELECT r.id, r.x FROM Reports r WHERE r.etype = :etype",
    "not new": "SELECT r.id FROM Reports r WHERE NOT is_new(r) AND r.etype = :etype",
    "either is new": """SELECT r.id, u.user_id FROM Reports r JOIN Users u ON u.user_id = :me
        WHERE (is_new(r) OR is_new(u)) AND within(r.x, r.y, u.x, u.y, 500)""",
    "both are new": """SELECT r.id, u.user_id FROM Reports r JOIN Users u ON u.user_id = :me
        WHERE is_new(r) AND is_new(u) AND within(r.x, r.y, u.x, u.y, 512)""",
    "at a place": """SELECT r.id, distance(r.x, r.y, :px, :py) AS metres FROM Reports r
        WHERE is_new(r) AND within(r.x, r.y, :px, :py, :radius)""",
    "at a place, two radii": """SELECT r.id, h.name FROM Reports r JOIN Shelters h ON within(h.x, h.y, :px, :py, :least)
        WHERE is_new(r) AND within(r.x, r.y, :px, :py, :radius)""",
    "near a user": """SELECT r.id, u.x FROM Reports r JOIN Users u ON u.user_id = :me
        WHERE is_new(r) AND within(r.x, r.y, u.x, u.y, :radius)""",
    "of a type near a user, with shelter": """SELECT r.id, h.name FROM Reports r JOIN Users u ON u.user_id = :me
        JOIN Shelters h ON within(h.x, h.y, u.x, u.y, 1000.0)
        WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, u.x, u.y, 512.0)""",
    "at a place, with shelter": """SELECT r.id, h.name FROM Reports r JOIN Shelters h ON within(h.x, h.y, :px, :py, 500)
        WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, :px, :py, :radius)""",
    "shelter if any": """SELECT r.id, h.name FROM Reports r LEFT JOIN Shelters h ON within(h.x, h.y, r.x, r.y, :radius)
        WHERE is_new(r) AND r.etype = :etype""",
    "no shelter": """SELECT r.id FROM Reports r LEFT ANTI JOIN Shelters h ON within(h.x, h.y, r.x, r.y, 500)
        WHERE is_new(r) AND r.severity >= :least""",
    "not within": "SELECT r.id, within(r.x, r.y, :px, :py, :radius) AS near FROM Reports r WHERE is_new(r)",
    "grouped": """SELECT r.etype, count(*) AS n, max(r.severity) AS worst, :least AS least FROM Reports r
        WHERE is_new(r) AND r.severity >= :least GROUP BY r.etype HAVING count(*) >= 1""",
    "total": """SELECT count(*) AS n, coalesce(sum(r.severity), -1) AS total,
        count(*) FILTER (WHERE r.severity > 1) AS bad, :etype AS asked
        FROM Reports r WHERE is_new(r) AND within(r.x, r.y, :px, :py, :radius)""",
    "total above": "SELECT count(DISTINCT r.etype) AS n FROM Reports r WHERE r.severity >= :least HAVING count(*) < 3",
    "distinct": "SELECT DISTINCT r.etype FROM Reports r WHERE is_new(r) AND r.severity >= :least",
    "worst two": """SELECT r.id, r.severity AS s FROM Reports r WHERE is_new(r) AND r.severity >= :least
        ORDER BY s DESC, r.id LIMIT 2 OFFSET 1""",
    "nearest": """SELECT r.id FROM Reports r WHERE is_new(r) AND r.x IS NOT NULL AND r.y IS NOT NULL
        ORDER BY distance(r.x, r.y, :px, :py), r.id LIMIT 1""",
    "distinct two": "SELECT DISTINCT r.etype FROM Reports r WHERE r.severity >= :least ORDER BY r.etype LIMIT 2",
    "union": """SELECT r.id FROM Reports r WHERE is_new(r) AND r.etype = :etype
        UNION SELECT u.user_id FROM Users u WHERE is_new(u) AND u.user_id = :me ORDER BY id LIMIT 2""",
    "except": """SELECT r.etype FROM Reports r WHERE is_new(r)
        EXCEPT SELECT r.etype FROM Reports r WHERE r.etype = :etype""",
    "window": """SELECT r.id, rank() OVER (PARTITION BY r.etype ORDER BY r.severity, r.id) AS place FROM Reports r
        WHERE is_new(r) AND r.severity >= :least""",
    "exists": """SELECT r.id FROM Reports r WHERE is_new(r) AND EXISTS
        (SELECT 1 FROM Reports q WHERE q.etype = :etype AND q.severity = r.severity)""",
    "with": """WITH mine AS (SELECT r.id, r.x, r.y FROM Reports r WHERE is_new(r) AND r.etype = :etype)
        SELECT m.id, count(*) AS n FROM mine m JOIN Shelters h ON within(m.x, m.y, h.x, h.y, 500) GROUP BY m.id""",
    "with, twice": """WITH mine AS (SELECT r.id, r.severity FROM Reports r WHERE is_new(r) AND r.etype = :etype)
        SELECT a.id, b.id AS other FROM mine a JOIN mine b ON a.severity = b.severity WHERE a.severity >= :least""",
    "total of with": """WITH mine AS (SELECT r.severity FROM Reports r WHERE is_new(r) AND r.etype = :etype)
        SELECT count(*) AS n, avg(m.severity) AS mean FROM mine m""",
    "left join with": """SELECT u.user_id, m.n FROM Users u
        LEFT JOIN (SELECT count(*) AS n FROM Reports r WHERE r.etype = :etype AND is_new(r)) m ON m.n > 0
        WHERE u.user_id = :me""",
    "near, grouped": """SELECT r.etype, count(*) AS n FROM Reports r JOIN Users u ON u.user_id = :me
        WHERE is_new(r) AND within(r.x, r.y, u.x, u.y, :radius)
        AND EXISTS (SELECT 1 FROM Reports q WHERE q.etype = r.etype AND q.severity = 1) GROUP BY r.etype""",
    "near, ranked": """SELECT r.id, rank() OVER (ORDER BY r.severity, r.id) AS place, h.name
        FROM Reports r JOIN Users u ON u.user_id = :me LEFT JOIN Shelters h ON within(h.x, h.y, u.x, u.y, 300)
        WHERE is_new(r) AND within(r.x, r.y, u.x, u.y, :radius) ORDER BY place, h.name LIMIT 3""",
    "whole numbers": """SELECT r.id FROM Reports r JOIN Reports q ON within(r.severity, q.severity, 1, 2, 1)
        WHERE is_new(r) AND q.etype = :etype""",
    "lateral": """SELECT r.id, l.s FROM Reports r, LATERAL (SELECT r.severity + :least AS s) l WHERE is_new(r)""",
    "full join": """SELECT r.id, u.user_id FROM Reports r FULL JOIN Users u ON r.id = u.user_id
        WHERE r.etype = :etype OR u.user_id = :me""",
}

FAR = [1e18, -1e18, 1e300, -1e300, 2.0**33, -(2.0**41)]
#: The edges of cells and of circles, and the floats next to them.
EDGES = [0.0, -0.0, 256.0, 512.0, -256.0, 500.0, 499.99999999999994, 500.00000000000006, -1e-13, 1000.0, 1012.0]
COMMON_RADII = [0.0, 500.0, 512.0, 256.0, 1.0, 0.001, -3.0, 1000.0, 300.0]
#: With tiny and huge ones, and the floats around the borders of classes.
RADII = [*COMMON_RADII, 5e-324, 1e-9, 2.0**-19, 511.9999999995, 511.9999999996, 4e4, 1e18, 2.0**1000, 1e300, 1.7e308]
#: Subscriptions times new rows that are compared exactly: none, some and all of the subscriptions.
EXACT_PAIRS = [0, 20, 10**9]
TYPES = ["flood", "fire", "it's", "a\\b"]


@dataclass(frozen=True)
class City:
    reports: Sequence[tuple[object, ...]]
    users: Sequence[tuple[object, ...]]
    shelters: Sequence[tuple[object, ...]]
    subscriptions: Sequence[tuple[object, ...]]
    exact_pairs: int


@st.composite
def cities(draw: st.DrawFn) -> City:
    """Enough points that pairs lie at every distance; Spark takes the same time for ten rows and for fifty."""
    chance = Random(draw(st.integers(0, 2**32)))

    def coordinate() -> float:
        pick = chance.random()
        if pick < 0.05:
            return chance.choice(FAR)
        return chance.choice(EDGES) if pick < 0.4 else chance.uniform(-700, 1300)

    def spot() -> tuple[float | None, float | None]:
        x, y = coordinate(), coordinate()
        return (None if chance.random() < 0.05 else x, y) if chance.random() < 0.95 else (x, None)

    def report(number: int) -> tuple[object, ...]:
        etype = chance.choice([*TYPES, None])
        return (f"r{number}", etype, *spot(), chance.choice([0, 1, 2, 3, None]), chance.random() < 0.6)

    def subscription(number: int) -> tuple[object, ...]:
        where = (coordinate(), coordinate())
        radius = chance.choice(RADII)
        return (number + 1, chance.choice(TYPES), *where, radius, chance.randrange(4), f"u{number}")

    return City(
        [report(number) for number in range(chance.choice([0, 3, 40, 40]))],
        [(f"u{number}", *spot(), chance.random() < 0.6) for number in range(chance.choice([1, 12]))],
        [(f"h{number}", *spot()) for number in range(chance.choice([0, 12, 12]))],
        [subscription(number) for number in range(chance.choice([1, 4, 6]))],
        chance.choice(EXACT_PAIRS),
    )


def _view(spark: SparkSession, name: str, columns: Sequence[tuple[str, ColumnType]], rows: Sequence[object]) -> str:
    schema = pa.schema([(column, _ARROW[type_]) for column, type_ in columns])
    rows_by_name = [dict(zip(schema.names, row, strict=True)) for row in rows]  # type: ignore[call-overload]
    spark.createDataFrame(pa.Table.from_pylist(rows_by_name, schema)).createOrReplaceTempView(name)
    return name


def _bind(spark: SparkSession, city: City) -> dict[Relation, str]:
    """A view for every relation a channel can ask for."""
    names = {}
    for dataset, rows in ((REPORTS, city.reports), (USERS, city.users), (SHELTERS, city.shelters)):
        columns = [(column.name, column.type) for column in dataset.schema]
        marked = [row if len(row) > len(columns) else (*row, False) for row in rows]
        full_name = f"full_{dataset.name}"
        _view(spark, full_name, [*columns, ("_is_new", ColumnType.BOOLEAN)], marked)
        new_name = f"new_{dataset.name}"
        spark.sql(f"SELECT * EXCEPT (_is_new) FROM {full_name} WHERE _is_new").createOrReplaceTempView(new_name)
        names[Relation(RelationRole.FULL, dataset.name)] = full_name
        names[Relation(RelationRole.FULL_MARKED, dataset.name)] = full_name
        names[Relation(RelationRole.NEW, dataset.name)] = new_name
    columns = [("_subscription", ColumnType.BIGINT), *((parameter.name, parameter.type) for parameter in PARAMETERS)]
    names[Relation(RelationRole.SUBSCRIPTIONS)] = _view(spark, "subscriptions", columns, city.subscriptions)
    return names


_ARGUMENTS = r"\(([^(),]+), ([^(),]+), ([^(),]+), ([^(),]+)(?:, ([^(),]+))?\)"


def _naively(body: str, subscription: Sequence[object]) -> str:
    """The body for one subscription, by plain replacement of text."""
    number, *values = subscription
    for parameter, value in zip(PARAMETERS, values, strict=True):
        literal = "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'" if isinstance(value, str) else repr(value)
        if isinstance(value, float):
            literal = f"double('{value!r}')"
        body = re.sub(rf":{parameter.name}\b", lambda _, literal=literal: literal, body)
    point = r"sqrt(power(\1 - \3, 2) + power(\2 - \4, 2))"
    body = re.sub(r"double\('([^']*)'\)", r"«\1»", body)
    body = re.sub("distance" + _ARGUMENTS, point, body)
    body = re.sub("within" + _ARGUMENTS, rf"({point} <= \5)", body)
    body = re.sub(r"«([^»]*)»", r"double('\1')", body)
    body = re.sub(r"is_new\((\w+)\)", r"\1._is_new", body)
    body = re.sub(r"\b(Reports|Users|Shelters)\b", r"full_\1", body)
    options = "map('ignoreNullFields', 'false')"
    return f"SELECT {number}L AS subscription, to_json(struct(c.*), {options}) AS payload FROM ({body}) AS c"


def _rows(spark: SparkSession, sql: str) -> Counter[tuple[int, str]]:
    table = spark.sql(sql).toArrow()
    assert table.schema.names == ["subscription", "payload"]
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
@settings(
    max_examples=3,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(city=cities())
def test_one_query_for_all_equals_one_query_each(spark: SparkSession, body: str, city: City) -> None:
    """The rendered query gives the same multiset of (subscription, payload) as the body run per subscription."""
    compiled = compile_channel(Channel("c", ChannelKind.REPETITIVE, PARAMETERS, body, 1.0), DATASETS)
    names = _bind(spark, city)
    groups = radius_groups(
        compiled.radius_parameters,
        _radius_classes(compiled.radius_parameters, city),
        new_rows=1,
        max_exact_pairs=city.exact_pairs,
    )
    naive = " UNION ALL ".join(f"({_naively(body, subscription)})" for subscription in city.subscriptions)
    assert _rows(spark, compiled.render_groups(names, groups)) == _rows(spark, naive)


_KEYED = {
    "either is new": ("r.id, u.user_id", BODIES["either is new"]),
    "either is new, radii": (
        "r.id, r.severity + 0.0",
        """SELECT r.id, distance(r.x, r.y, u.x, u.y) AS metres FROM Reports r JOIN Users u ON u.user_id = :me
        WHERE within(r.x, r.y, u.x, u.y, :radius) AND (is_new(u) OR is_new(r)) AND r.severity >= :least""",
    ),
    "either is new, if any": (
        "r.id, h.name",
        """SELECT r.id, h.name, u.user_id FROM Reports r JOIN Users u ON u.user_id = :me
        LEFT JOIN Shelters h ON within(h.x, h.y, r.x, r.y, 500.0) WHERE is_new(r) OR is_new(u)""",
    ),
}


@pytest.mark.parametrize(("keys", "body"), _KEYED.values(), ids=_KEYED.keys())
@settings(
    max_examples=3,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(city=cities())
def test_with_once_per_equal_keys_mean_equal_rows(spark: SparkSession, keys: str, body: str, city: City) -> None:
    """The keys here tell all rows apart: so of the rows with a key there is one payload, and all payloads together are
    those of the body run per subscription."""
    once = OncePer(keys)
    compiled = compile_channel(Channel("c", ChannelKind.REPETITIVE, PARAMETERS, body, 1.0, once), DATASETS)
    names = _bind(spark, city)
    classes = _radius_classes(compiled.radius_parameters, city)
    groups = radius_groups(compiled.radius_parameters, classes, new_rows=1, max_exact_pairs=city.exact_pairs)
    found = spark.sql(compiled.render_groups(names, groups)).toArrow()
    assert found.schema.names == ["subscription", "payload", "key"]
    by_key = {(row["subscription"], row["key"]): (row["subscription"], row["payload"]) for row in found.to_pylist()}
    rows = {(row["subscription"], row["payload"]) for row in found.to_pylist()}
    assert len(by_key) == len(rows)
    naive = " UNION ALL ".join(f"({_naively(body, subscription)})" for subscription in city.subscriptions)
    assert Counter(by_key.values()) == _rows(spark, naive)


def _radius_classes(parameters: Sequence[str], city: City) -> Counter[tuple[float, ...]]:
    numbers = {parameter.name: number for number, parameter in enumerate(PARAMETERS, start=1)}
    columns = [[float(row[numbers[name]]) for row in city.subscriptions] for name in parameters]  # type: ignore[arg-type]
    return count_classes([np.array(column) for column in columns]) if parameters else Counter()
