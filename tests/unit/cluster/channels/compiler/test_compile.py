"""The compiler's decisions, one by one. Whole texts are in tests/golden, equal rows in tests/property."""

from __future__ import annotations

from math import inf, isinf, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.compiler.compile import (
    Relation,
    RelationRole,
    cell_size_for,
    compile_channel,
    compile_select,
)
from tocsin.errors import StatementError
from unit.cluster.channels.emergency import DATASETS, channel, compile_body, shown, shown_name

NEW_REPORTS = Relation(RelationRole.NEW, "EmergencyReports")
FULL_REPORTS = Relation(RelationRole.FULL, "EmergencyReports")
MARKED_REPORTS = Relation(RelationRole.FULL_MARKED, "EmergencyReports")
SUBSCRIPTIONS = Relation(RelationRole.SUBSCRIPTIONS)


@pytest.mark.parametrize(
    ("body", "relations"),
    [
        ("SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype", {NEW_REPORTS}),
        ("SELECT id FROM EmergencyReports WHERE is_new(EmergencyReports)", {NEW_REPORTS}),
        ("SELECT r.id FROM EmergencyReports r WHERE (is_new(r) AND (r.x > 1))", {NEW_REPORTS}),
        ("SELECT r.id FROM EmergencyReports r WHERE is_new(r) OR r.x > 1", {MARKED_REPORTS}),
        ("SELECT r.id FROM EmergencyReports r WHERE NOT is_new(r)", {MARKED_REPORTS}),
        ("SELECT r.id, is_new(r) AS fresh FROM EmergencyReports r", {MARKED_REPORTS}),
        (
            "SELECT a.id FROM EmergencyReports a JOIN EmergencyReports b ON is_new(a) AND a.x = b.x",
            {NEW_REPORTS, FULL_REPORTS},
        ),
        (
            "SELECT r.id FROM Shelters s LEFT JOIN EmergencyReports r ON r.id = s.id AND is_new(r)",
            {NEW_REPORTS, Relation(RelationRole.FULL, "Shelters")},
        ),
        (
            "SELECT r.id FROM Shelters s LEFT JOIN EmergencyReports r ON r.id = s.id WHERE is_new(r)",
            {MARKED_REPORTS, Relation(RelationRole.FULL, "Shelters")},
        ),
        (
            "SELECT r.id FROM EmergencyReports r LEFT JOIN Shelters s ON r.id = s.id AND is_new(r)",
            {MARKED_REPORTS, Relation(RelationRole.FULL, "Shelters")},
        ),
        (
            "SELECT r.id FROM EmergencyReports r FULL JOIN Shelters s ON r.id = s.id WHERE is_new(r)",
            {MARKED_REPORTS, Relation(RelationRole.FULL, "Shelters")},
        ),
    ],
)
def test_is_new_narrows_a_relation_only_where_that_means_the_same(body: str, relations: set[Relation]) -> None:
    """A filter becomes the NEW relation; anything else becomes a mark on all rows."""
    compiled = compile_body(body)
    assert set(compiled.relations) == relations | {SUBSCRIPTIONS}
    assert compiled.windows == ("EmergencyReports",)


def test_without_is_new_every_run_gives_the_whole_result() -> None:
    """A repetitive channel may do so, and then watches all it reads."""
    compiled = compile_body("SELECT r.id FROM EmergencyReports r JOIN Shelters s ON r.id = s.id")
    assert compiled.windows == compiled.datasets == ("EmergencyReports", "Shelters")


def test_a_continuous_channel_needs_is_new() -> None:
    """It runs on new records, so it has to say which."""
    with pytest.raises(StatementError, match="is_new"):
        compile_channel(channel("CREATE CONTINUOUS CHANNEL C () AS SELECT id FROM EmergencyReports"), DATASETS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("SELECT 1 AS a", "at least one dataset"),
        ("SELECT x.id FROM (SELECT id FROM EmergencyReports) x WHERE is_new(x)", "is_new takes the name"),
        ("SELECT s.id FROM Shelters s WHERE is_new(s)", "REFERENCE"),
        (
            "SELECT r.etype, count(*) AS n FROM EmergencyReports r",
            "must be inside an aggregate function or in GROUP BY",
        ),
        (
            "SELECT r.id FROM EmergencyReports r FULL JOIN Shelters s ON r.id = :etype",
            "beside a RIGHT or FULL JOIN, parameters are allowed in WHERE and SELECT only",
        ),
        (
            """SELECT r.id FROM EmergencyReports r WHERE EXISTS (SELECT 1 FROM Shelters s WHERE EXISTS
               (SELECT 1 FROM UserLocations u WHERE u.user_id = :user_id))""",
            "subquery of a subquery",
        ),
        (
            "SELECT DISTINCT r.etype FROM EmergencyReports r ORDER BY r.severity LIMIT 1",
            "ORDER BY can only name outputs",
        ),
    ],
)
def test_what_cannot_be_set_oriented_is_refused_with_the_reason(body: str, message: str) -> None:
    """At CREATE CHANNEL, not when it runs."""
    with pytest.raises(StatementError) as refused:
        compile_body(body)
    assert message in refused.value.message


def order_of_joins(sql: str) -> list[str]:
    """The relations, in the order in which the text joins them."""
    names = [*map(shown_name, (NEW_REPORTS, FULL_REPORTS)), "full_UserLocations", "full_Shelters", "subscriptions"]
    return sorted((name for name in names if name in sql), key=sql.index)


@pytest.mark.parametrize(
    ("body", "order"),
    [
        (
            "SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND r.etype = :etype",
            ["new_EmergencyReports", "subscriptions"],
        ),
        (
            """SELECT r.id FROM UserLocations u JOIN EmergencyReports r ON within(r.x, r.y, u.x, u.y, :r)
               WHERE u.user_id = :user_id AND is_new(r) AND r.etype = :etype""",
            ["new_EmergencyReports", "full_UserLocations", "subscriptions"],
        ),
        (
            """SELECT r.id FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
               WHERE is_new(r) AND r.etype = :etype""",
            ["new_EmergencyReports", "subscriptions", "full_UserLocations"],
        ),
        (
            """SELECT r.id FROM Shelters s JOIN UserLocations u ON within(s.x, s.y, u.x, u.y, 10)
               JOIN EmergencyReports r ON within(r.x, r.y, u.x, u.y, 10) WHERE is_new(r) AND u.user_id = :user_id""",
            ["new_EmergencyReports", "full_UserLocations", "subscriptions", "full_Shelters"],
        ),
    ],
)
def test_joins_begin_with_what_is_new(body: str, order: list[str]) -> None:
    """Then comes what multiplies the rows least, whatever order the author wrote."""
    assert order_of_joins(shown(compile_body(body))) == order


def test_the_rows_found_before_the_subscriptions_are_broadcast_together() -> None:
    """A hint can only name one relation, so they are gathered in a subquery; without hints the text is the same."""
    compiled = compile_body(
        """SELECT r.id FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :user_id
           WHERE is_new(r) AND within(r.x, r.y, u.x, u.y, :r)"""
    )
    names = {relation: shown_name(relation) for relation in compiled.relations}
    hinted = compiled.render(names, {"r": 256.0})
    assert "/*+ BROADCAST(`_candidates`) */ " in hinted
    plain = hinted.replace("/*+ BROADCAST(`_candidates`) */ ", "").replace("/*+ BROADCAST(`r`) */ ", "")
    assert compiled.render(names, {"r": 256.0}, broadcast=False) == plain
    assert "/*+" not in plain


def test_a_radius_parameter_leaves_the_cell_size_open() -> None:
    """It follows from the subscriptions; a literal radius is known at once; a column gives no cells."""
    near = "SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND within(r.x, r.y, :x, :y, {})"
    assert compile_body(near.format(":r")).radius_parameters == ("r",)
    literal = compile_body(near.format("500"))
    assert literal.radius_parameters == ()
    assert "256.0D" in shown(literal)
    assert "_cell" not in shown(compile_body(near.format("r.severity")))


def test_only_the_joined_side_of_a_left_join_is_repeated() -> None:
    """Repeating the other side would repeat the rows that match nothing."""
    body = "SELECT r.id FROM EmergencyReports r LEFT JOIN Shelters s ON within(r.x, r.y, s.x, s.y, 9) WHERE is_new(r)"
    assert "FROM full_Shelters AS `s` LATERAL VIEW" in shown(compile_body(body))


def test_no_relation_is_repeated_twice() -> None:
    """What is new is repeated for the largest partner, the small reference for the other."""
    body = """SELECT r.id FROM EmergencyReports r JOIN Shelters s ON within(r.x, r.y, s.x, s.y, 100)
              WHERE is_new(r) AND within(r.x, r.y, :x, :y, 500)"""
    sql = shown(compile_body(body))
    assert "FROM new_EmergencyReports AS `r` LATERAL VIEW" in sql
    assert "FROM full_Shelters AS `s` LATERAL VIEW" in sql
    assert "FROM subscriptions AS `_s` LATERAL VIEW" not in sql


def test_payloads_keep_the_names_and_order_of_the_outputs() -> None:
    """Columns as written in the SELECT list."""
    compiled = compile_body("SELECT r.severity AS Worst, r.* FROM EmergencyReports r WHERE is_new(r)")
    names = ["Worst", "id", "etype", "x", "y", "severity", "message"]
    assert [column.name for column in compiled.columns] == names


def test_a_select_reads_whole_datasets() -> None:
    """Every relation is FULL, distances are spelled out, and the columns are known."""
    compiled = compile_select("SELECT id, distance(x, y, 0, 0) AS d FROM EmergencyReports ORDER BY d LIMIT 3", DATASETS)
    assert compiled.relations == (FULL_REPORTS,)
    assert [column.name for column in compiled.columns] == ["id", "d"]
    assert compiled.render({FULL_REPORTS: "v"}) == (
        "SELECT `EmergencyReports`.`id` AS `id`, "
        "SQRT(POWER(`EmergencyReports`.`x` - 0, 2) + POWER(`EmergencyReports`.`y` - 0, 2)) AS `d` "
        "FROM v AS `EmergencyReports` ORDER BY `d` LIMIT 3"
    )


@given(st.floats(min_value=0, allow_nan=False))
def test_cells_are_powers_of_two_wider_than_half_the_radius(radius: float) -> None:
    """So two cells to each side are always enough, and dividing by the size is exact."""
    size = cell_size_for(radius)
    assert size > radius / 2 or size == inf
    assert isinf(size) or log2(size) == int(log2(size))
    assert size <= max(2 * radius, 2.0**-20) or isinf(size)
