"""WITH EXITS: how changes end results, and which queries are refused. That the rows are right, tests/integration/
test_exits.py shows."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.compile import CompiledChannel, compile_channel
from tocsin.cluster.channels.compiler.exits import ExitPlan
from tocsin.errors import StatementError
from unit.cluster.channels.emergency import DATASETS, channel

_FROM = "FROM EmergencyReports r JOIN UserLocations u ON u.user_id = :me"
_EITHER = "(is_new(r) OR is_new(u))"


def _compiled(body: str, once: str = "ONCE PER (r.id) WITH EXITS") -> CompiledChannel:
    kind, period = ("CONTINUOUS", "") if "is_new" in body else ("REPETITIVE", "PERIOD 1 SECONDS")
    return compile_channel(channel(f"CREATE {kind} CHANNEL C (me STRING) {period} {once} AS {body}"), DATASETS)


@pytest.mark.parametrize(
    ("body", "key"),
    [
        (f"SELECT r.id {_FROM} WHERE {_EITHER} AND r.x > u.x", "r.id"),
        (f"SELECT r.id {_FROM} WHERE r.x > u.x", "r.id"),
        (f"SELECT u.user_id {_FROM} AND is_new(u) WHERE r.x > u.x", "u.user_id"),
        ("SELECT u.x FROM UserLocations u JOIN EmergencyReports r ON r.id = :me WHERE is_new(u)", "u.user_id"),
        (f"SELECT r.id {_FROM} LEFT JOIN EmergencyReports o ON o.x = r.x WHERE is_new(u)", "r.id, o.id"),
    ],
)
def test_a_row_touches_the_results_that_its_primary_key_tells(body: str, key: str) -> None:
    """Because parameters give the primary key, or because it is the key of ONCE PER."""
    compiled = _compiled(body, f"ONCE PER ({key}) WITH EXITS")
    assert compiled.exits is not None
    assert compiled.exits.by_row == ("UserLocations",)
    assert "UserLocations" in compiled.windows
    assert compiled.holding is not None
    assert {relation.role.value for relation in compiled.holding.relations} == {"FULL", "SUBSCRIPTIONS"}


@pytest.mark.parametrize(
    ("body", "key", "by_check"),
    [
        (f"SELECT r.id {_FROM} WHERE is_new(r)", "r.id", ("UserLocations",)),
        (f"SELECT r.id {_FROM} WHERE is_new(r) AND is_new(u)", "r.id", ("UserLocations",)),
        (f"SELECT r.id {_FROM} AND {_EITHER} WHERE r.x > 0", "r.id", ("UserLocations",)),
        (
            "SELECT r.id FROM EmergencyReports r JOIN UserLocations u ON u.x = r.x AND :me = r.id WHERE is_new(u)",
            "r.id",
            ("UserLocations",),
        ),
        (f"SELECT r.id {_FROM} JOIN Shelters s ON s.x = u.x WHERE {_EITHER}", "r.id", ("Shelters",)),
        (
            f"SELECT r.id {_FROM} WHERE {_EITHER} AND NOT EXISTS (SELECT o.x FROM EmergencyReports o WHERE o.x = r.y)",
            "r.id",
            ("EmergencyReports",),
        ),
        (
            f"SELECT r.id {_FROM} LEFT JOIN UserLocations o ON o.x = r.x WHERE {_EITHER}",
            "r.id",
            ("UserLocations",),
        ),
        (
            "SELECT u.x FROM UserLocations u JOIN EmergencyReports r ON r.id = :me WHERE is_new(u)",
            "u.user_id, u.x",
            ("UserLocations",),
        ),
    ],
)
def test_any_other_change_has_all_results_checked(body: str, key: str, by_check: tuple[str, ...]) -> None:
    """A relation that the results do not name a row of, that is not watched alone, or of which a further row can end a
    result. Its changes are watched, with is_new or without."""
    compiled = _compiled(body, f"ONCE PER ({key}) WITH EXITS")
    assert compiled.exits is not None
    assert compiled.exits.by_check == by_check
    assert set(by_check) <= set(compiled.windows)


def test_new_rows_that_can_end_nothing_are_no_reason_to_look() -> None:
    """Those of an ACTIVE dataset that each result needs a row of."""
    compiled = _compiled(f"SELECT r.id {_FROM} WHERE is_new(u)")
    assert compiled.exits == ExitPlan(by_row=("UserLocations",), by_check=())
    assert compiled.windows == ("UserLocations",)
    assert compiled.watched == ("EmergencyReports", "UserLocations")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND r.id = :me", "needs a KEYED dataset"),
        (f"SELECT r.id, count(*) AS n {_FROM} WHERE {_EITHER} GROUP BY r.id", "do not depend on each other"),
        (f"SELECT DISTINCT r.id {_FROM} WHERE {_EITHER}", "do not depend on each other"),
        (f"SELECT r.id {_FROM} WHERE {_EITHER} ORDER BY r.x LIMIT 3", "do not depend on each other"),
        (f"SELECT r.id {_FROM} WHERE {_EITHER} UNION SELECT r.id {_FROM} WHERE is_new(r)", "do not depend"),
        (f"SELECT r.id {_FROM} WHERE is_new(r) OR r.x > u.x", "nobody can tell what holds"),
        (f"SELECT r.id {_FROM} WHERE NOT is_new(r)", "nobody can tell what holds"),
        (
            (
                f"SELECT r.id {_FROM} WHERE {_EITHER} AND EXISTS "
                "(SELECT s.x FROM EmergencyReports s WHERE is_new(s) AND s.x = r.x)"
            ),
            "nobody can tell what holds",
        ),
    ],
)
def test_queries_of_which_nobody_can_say_what_holds_are_refused(body: str, reason: str) -> None:
    """With the reason, and what to write."""
    key = "id" if "DISTINCT" in body or "UNION" in body else "r.id"
    with pytest.raises(StatementError, match=reason):
        _compiled(body, f"ONCE PER ({key}) WITH EXITS")


def test_newness_is_no_key() -> None:
    """It passes with the run, and so would the result."""
    with pytest.raises(StatementError, match="nobody can tell what holds"):
        _compiled(f"SELECT r.id, is_new(r) AS fresh {_FROM} WHERE {_EITHER}", "ONCE PER (r.id, fresh) WITH EXITS")


def test_exits_need_keys() -> None:
    """WITH EXITS stands after ONCE PER and WITHIN, and is written again as it was."""
    once = channel(
        "CREATE CONTINUOUS CHANNEL C () ONCE PER (u.x) WITHIN 1 MINUTE WITH EXITS AS SELECT u.x FROM UserLocations u"
    ).once
    assert str(once) == "ONCE PER (u.x) WITHIN 60 SECONDS WITH EXITS"
    with pytest.raises(StatementError, match="WITH EXITS needs ONCE PER"):
        _compiled(f"SELECT r.id {_FROM} WHERE is_new(r)", "WITH EXITS")
    with pytest.raises(StatementError, match="expected SNAPSHOT, not 'EXIT'"):
        _compiled(f"SELECT r.id {_FROM} WHERE is_new(r)", "ONCE PER (r.id) WITH EXIT")
