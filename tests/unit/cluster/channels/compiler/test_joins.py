"""The order in which relations and subscriptions are joined."""

from __future__ import annotations

import pytest

from unit.cluster.channels.emergency import FULL_REPORTS, NEW_REPORTS, compile_body, shown, shown_name


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
