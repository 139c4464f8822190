"""Only harmless queries pass, and every refusal points at its place."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp

from tocsin.cluster.channels.compiler.check import CheckedQuery, check_query
from tocsin.cluster.channels.compiler.compile import compile_channel, compile_select
from tocsin.cluster.channels.compiler.dialect import sql_of
from tocsin.errors import ForbiddenSql, StatementError
from tocsin.model.catalogue import Channel, ChannelKind, Parameter
from tocsin.model.schema import ColumnType
from unit.cluster.channels.emergency import DATASETS, compile_body
from unit.cluster.channels.hostile import BODIES

ETYPE = (Parameter("etype", ColumnType.STRING),)


def check(sql: str, *, channel: bool = True) -> CheckedQuery:
    return check_query(sql, parameters=ETYPE if channel else (), datasets=DATASETS, channel=channel)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: ascii(body[:60]))
def test_hostile_bodies_are_refused_as_channels_and_as_queries(body: str) -> None:
    """No hostile query becomes a channel or runs as a SELECT."""
    with pytest.raises(StatementError):
        compile_channel(Channel("c", ChannelKind.REPETITIVE, (), body, 1.0), DATASETS)
    with pytest.raises(StatementError):
        compile_select(body, DATASETS)


def test_there_are_many_hostile_bodies() -> None:
    """The list is long, and nothing is in it twice."""
    assert len(set(BODIES)) == len(BODIES) >= 150


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM Shelters",
        "SELECT count(*) FROM EmergencyReports",
        "SELECT etype, count(*) AS n FROM EmergencyReports GROUP BY etype ORDER BY n DESC LIMIT 5",
        "WITH near AS (SELECT * FROM Shelters WHERE x > 5) SELECT name FROM near ORDER BY name",
        "SELECT id FROM Shelters UNION ALL (SELECT id FROM EmergencyReports LIMIT 3)",
        "SELECT r.id, s.name FROM EmergencyReports r LEFT JOIN Shelters s ON within(r.x, r.y, s.x, s.y, 500)",
        "SELECT upper(name) AS n, CASE WHEN x > 1 THEN 'a' ELSE 'it''s' END AS c, CAST(x AS INT) AS i FROM Shelters",
        "SELECT id, row_number() OVER (PARTITION BY etype ORDER BY severity DESC) AS n FROM EmergencyReports",
        "SELECT (SELECT max(x) FROM Shelters) AS far, DATE '2026-01-01' + INTERVAL 3 DAYS AS d FROM Shelters",
        "SELECT r.id FROM EmergencyReports r WHERE r.etype IN ('a', 'b') AND r.message NOT LIKE 'x%' AND r._seq > 5",
        "SELECT l.z FROM Shelters s, LATERAL (SELECT s.x + 1 AS z) l",
        "SELECT lpad(id, 10, '0') AS padded, concat_ws(',', id, name) AS both FROM Shelters -- a comment",
        "SELECT id FROM Shelters;",
    ],
)
def test_ordinary_queries_pass(sql: str) -> None:
    """What people write to look around is allowed."""
    assert compile_select(sql, DATASETS).datasets


@pytest.mark.parametrize(
    ("sql", "excerpt", "message"),
    [
        ("SELECT z FROM Shelters", "z", "unknown column z; known are id, name, x, y"),
        ("SELECT s.z FROM Shelters s", "s.z", "s has no column z; it has id, name, x, y"),
        ("SELECT t.x FROM Shelters s", "t.x", "unknown relation t; known here are s"),
        ("SELECT *\nFROM Nowhere", "Nowhere", "known are EmergencyReports, Shelters, UserLocations"),
        ("SELECT id FROM Shelters s JOIN EmergencyReports r ON true", "id", "id is a column of s and r"),
        ("SELECT s.id, r.id FROM Shelters s JOIN EmergencyReports r ON true", "r.id", "two outputs are called id"),
        ("SELECT id FROM Shelters WHERE name = :nme", ":nme", "unknown parameter :nme; declared are :etype"),
        ("SELECT id FROM Shelters WHERE reflect('a')", "reflect", "the function reflect is not allowed"),
        ("SELECT distance(x, y, 1) FROM Shelters", "distance", "distance takes 4 arguments, not 3"),
        ("SELECT distance(x, y, name, 2) AS d FROM Shelters", "distance", "distance takes numbers only"),
        ("SELECT id FROM Shelters s WHERE is_new(s)", "is_new", "REFERENCE dataset"),
        ("SELECT id FROM Shelters s WHERE is_new(t)", "is_new", "is_new takes the name or alias of a dataset"),
        ("SELECT CAST(x AS BINARY) FROM Shelters", "x", "the type BINARY is not allowed; allowed are STRING"),
        ("SELECT s.id FROM Shelters s, (SELECT 1 AS a)", "1", "needs a name"),
        ("SELECT id FROM Shelters UNION SELECT id, x FROM Shelters", "id", "same number of columns"),
        ("SELECT id FROM Shelters LIMIT x", "x", "LIMIT needs a whole number"),
    ],
)
def test_errors_point_at_the_place(sql: str, excerpt: str, message: str) -> None:
    """A refusal says what is wrong, what is known or allowed, and where."""
    with pytest.raises(StatementError) as refused:
        check(sql)
    assert message in refused.value.message
    line = sql.splitlines()[refused.value.line - 1]
    assert line[refused.value.column - 1 :].startswith(excerpt)


def test_is_new_is_for_channels() -> None:
    """A query to look around has no window."""
    with pytest.raises(StatementError, match="channels only"):
        check("SELECT id FROM EmergencyReports r WHERE is_new(r)", channel=False)


def test_forbidden_is_told_apart_from_mistaken() -> None:
    """Reaching out of the sandbox has its own error code; a typing mistake hasn't."""
    with pytest.raises(ForbiddenSql):
        check("SELECT reflect('a', 'b') FROM Shelters")
    with pytest.raises(StatementError) as mistaken:
        check("SELECT nmae FROM Shelters")
    assert not isinstance(mistaken.value, ForbiddenSql)


@pytest.mark.parametrize("count", [29, 299, 1000])
@pytest.mark.parametrize(
    "nest",
    [
        lambda n: " + ".join(["x"] * n),
        lambda n: " OR ".join(["x > 1"] * n),
        lambda n: "NOT " * n + "x > 1",
        lambda n: "- " * n + "x",
        lambda n: "x" + "::int" * n,
        lambda n: "abs(" * n + "x" + ")" * n,
        lambda n: "CASE WHEN true THEN " * n + "1" + " END" * n,
        lambda n: "coalesce((SELECT max(" * n + "x" + ") FROM Shelters), 0)" * n,
        lambda n: f"{'+'.join(['x'] * n)} + CASE WHEN {' OR '.join(['x > 1'] * n)} THEN abs({'*'.join(['x'] * n)}) END",
    ],
)
def test_nests_of_any_depth_are_compiled_or_refused(nest: Callable[[int], str], count: int) -> None:
    """No depth ends in anything but SQL or a StatementError."""
    for compile_it in (lambda sql: compile_select(sql, DATASETS), compile_body):
        with contextlib.suppress(StatementError):
            compile_it(f"SELECT {nest(count)} AS a FROM Shelters")


@pytest.mark.parametrize("count", [5, 20, 100])
def test_long_chains_of_with_are_compiled_or_refused(count: int) -> None:
    """Expanding WITH nests queries too."""
    tables = ", ".join(f"a{n} AS (SELECT id FROM {f'a{n - 1}' if n else 'Shelters'})" for n in range(count))
    sql = f"WITH {tables} SELECT id FROM a{count - 1}"
    for compile_it in (lambda sql: compile_select(sql, DATASETS), compile_body):
        with contextlib.suppress(StatementError) if count > 5 else contextlib.nullcontext():
            compile_it(sql)


@example("{z:}")  # sqlglot raises AttributeError here
@given(st.text(alphabet="ab'\"\\`;-/*${}:n\n ", max_size=30))
def test_text_that_passes_survives_being_written(text: str) -> None:
    """Quotes, escapes and comments thrown together are refused, or mean the same when generated and read again."""
    for sql in (
        f"SELECT '{text}' AS a FROM Shelters",
        f'SELECT "{text}" AS a FROM Shelters',
        f"SELECT {text} FROM Shelters",
    ):
        try:
            checked = check(sql)
        except StatementError:
            continue
        written = sql_of(checked.tree)
        assert sql_of(check(written).tree) == written
        literals = [literal.this for literal in checked.tree.find_all(exp.Literal)]
        assert [literal.this for literal in check(written).tree.find_all(exp.Literal)] == literals
