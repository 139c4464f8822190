"""`is_new`: which relations hold only the rows of the window."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel
from tocsin.cluster.channels.compiler.template import SUBSCRIPTIONS, Relation, RelationRole
from tocsin.errors import StatementError
from unit.cluster.channels.emergency import DATASETS, FULL_REPORTS, MARKED_REPORTS, NEW_REPORTS, channel, compile_body


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
