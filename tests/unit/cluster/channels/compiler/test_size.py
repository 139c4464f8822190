"""A short text that stands for a lot of work is refused, at once and before any of the work is done."""

from __future__ import annotations

import time

import pytest

from tocsin.cluster.channels.compiler.compile import compile_select
from tocsin.cluster.channels.compiler.size import MAX_RELATIONS, MAX_SIZE
from tocsin.errors import StatementError
from unit.cluster.channels.emergency import DATASETS, compile_body

#: Refusals take milliseconds; the work that they save takes seconds to hours.
REFUSED_WITHIN_CPU_S = 2.0


_TO_LONGER = f", 'a', '{'b' * 100}')"


def _doubled_aliases(count: int) -> str:
    aliases = ", ".join(f"a{n} + a{n} AS a{n + 1}" for n in range(count))
    return f"SELECT x + 1 AS a0, {aliases} FROM Shelters"


def _doubled_subqueries(count: int) -> str:
    """Spark writes all of it out when it moves the condition to where the rows are read."""
    query = "SELECT x FROM Shelters"
    for n in range(count):
        query = f"SELECT x + x AS x FROM ({query}) AS t{n}"
    return f"{query} WHERE x > 5"


def _joined(count: int) -> str:
    joins = "".join(f" JOIN Shelters t{n} ON t{n}.id = t{n - 1}.id" for n in range(1, count))
    return f"SELECT t0.id FROM Shelters t0{joins}"


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        (_doubled_aliases(20), "too large"),
        (_doubled_subqueries(14), "too large"),
        (f"SELECT x + 1 AS a, {', '.join(['*'] * 2_000)} FROM Shelters", "two outputs|too large"),
        (f"SELECT id FROM Shelters WHERE EXISTS (SELECT {', '.join(['*'] * 5_000)} FROM Shelters)", "too large"),
        (f"SELECT CASE {' '.join(f'WHEN x = {n} THEN {n}' for n in range(2_000))} END AS a FROM Shelters", "too large"),
        (f"SELECT id FROM Shelters WHERE x IN ({', '.join(map(str, range(9_000)))})", "too large"),
        (f"SELECT {'hex(' * 20}id{')' * 20} AS a FROM Shelters", "too large"),
        (f"SELECT {'replace(' * 6}id{_TO_LONGER * 6} AS a FROM Shelters", "too large"),
        (f"SELECT x + x + x + x AS a, {', '.join(['a'] * 2_000)} FROM Shelters", "two outputs|too large"),
        (f"SELECT count(*) AS n FROM Shelters GROUP BY {', '.join(['1'] * 9_000)}", "too large"),
        ("SELECT " + "(" * 8 + "id" + " LIKE '%a%b%c%d%')" * 8 + " AS a FROM Shelters", "too large"),
        (_joined(200), f"{MAX_RELATIONS} relations"),
        (" UNION ALL ".join(["SELECT id FROM Shelters"] * 40), f"{MAX_RELATIONS} relations"),
        ("SELECT round(x, 100000000) AS a FROM Shelters", "argument 2 of round must be a number between -38 and 38"),
        ("SELECT floor(x, -100000000) AS a FROM Shelters", "argument 2 of floor"),
        ("SELECT format_number(x, 2000000000) AS a FROM Shelters", "argument 2 of format_number"),
        ("SELECT format_number(x, int(y)) AS a FROM Shelters", "argument 2 of format_number"),
        ("SELECT lpad(id, 1001) AS a FROM Shelters", "argument 2 of lpad"),
        ("SELECT approx_count_distinct(id, 0.0001) AS a FROM Shelters", "argument 2 of approx_count_distinct"),
        ("SELECT replace(id, 'a', name) AS a FROM Shelters", "argument 3 of replace must be a string literal"),
        (f"SELECT concat_ws('{'x' * 101}', id, name) AS a FROM Shelters", "argument 1 of concat_ws"),
        (f"SELECT {'9' * 5_000} AS a FROM Shelters", "at most 64 characters"),
        (f"SELECT id FROM Shelters LIMIT {'9' * 5_000}", "at most 64 characters|whole number"),
        ("SELECT id FROM Shelters LIMIT 9999999999", "whole number up to"),
        ("SELECT id FROM Shelters WHERE id LIKE '%a_b%c'", "may hold _ only next to a %"),
    ],
    ids=lambda value: ascii(value[:50]),
)
def test_queries_that_grow_are_refused_before_they_grow(sql: str, reason: str) -> None:
    """Every expansion is counted before it is made; joins, literals and what they make functions do are bounded."""
    began = time.thread_time()
    for compile_it in (lambda sql: compile_select(sql, DATASETS), compile_body):
        with pytest.raises(StatementError, match=reason):
            compile_it(sql)
    assert time.thread_time() - began < REFUSED_WITHIN_CPU_S


@pytest.mark.parametrize(
    "sql",
    [
        _doubled_aliases(6),
        _doubled_subqueries(6),
        _joined(MAX_RELATIONS),
        f"SELECT id FROM Shelters WHERE x IN ({', '.join(map(str, range(MAX_SIZE // 2)))})",
        f"SELECT CASE {' '.join(f'WHEN x = {n} THEN {n}' for n in range(200))} END AS a FROM Shelters",
        f"SELECT id FROM Shelters WHERE {' AND '.join(f'x <> {n}' for n in range(250))}",
        "SELECT round(x, -2) AS a, round(y) AS b, format_number(x, 2) AS c, hex(base64(id)) AS d FROM Shelters",
        "SELECT replace(id, 'a', 'bcd') AS a, levenshtein(id, name) AS b FROM Shelters LIMIT 10 OFFSET 5",
        "SELECT id FROM Shelters WHERE name LIKE '_%fire%_in_' OR name NOT ILIKE 'a%b%\\\\%'",
    ],
    ids=lambda value: ascii(value[:50]),
)
def test_queries_that_people_write_still_pass(sql: str) -> None:
    """The bounds are well above what people write."""
    compile_select(sql, DATASETS)
    compile_body(sql)
