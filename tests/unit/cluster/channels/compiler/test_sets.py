"""One query for all subscriptions at once: what can't become one. Equal rows are in tests/property."""

from __future__ import annotations

import pytest

from tocsin.errors import StatementError
from unit.cluster.channels.emergency import compile_body


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
