"""What a compiled query tells of itself. Whole texts are in tests/golden, equal rows in tests/property."""

from __future__ import annotations

from tocsin.cluster.channels.compiler.compile import compile_select
from unit.cluster.channels.emergency import DATASETS, FULL_REPORTS, compile_body


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
