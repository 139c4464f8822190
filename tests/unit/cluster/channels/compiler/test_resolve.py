"""Names of columns and relations, and what they stand for."""

from __future__ import annotations

from sqlglot import exp

from tocsin.cluster.channels.compiler.check import CheckedQuery, check_query
from unit.cluster.channels.emergency import DATASETS


def check(sql: str) -> CheckedQuery:
    return check_query(sql, parameters=(), datasets=DATASETS, channel=True)


def test_stars_leave_out_what_is_internal() -> None:
    """`*` is the schema's columns, never `_seq`."""
    assert [column.name for column in check("SELECT * FROM Shelters").columns] == ["id", "name", "x", "y"]


def test_aliases_are_unique_in_the_whole_tree() -> None:
    """The compiler needs no scopes: the same alias at two levels is told apart."""
    tree = check("SELECT s.id FROM Shelters s WHERE s.x > (SELECT max(s.x) FROM Shelters s)").tree
    assert sorted(table.alias for table in tree.find_all(exp.Table)) == ["s", "s_2"]
