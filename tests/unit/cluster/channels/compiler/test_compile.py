"""What a compiled query tells of itself. Whole texts are in tests/golden, equal rows in tests/property."""

from __future__ import annotations

import re

import pytest

from tocsin.cluster.channels.compiler.compile import compile_channel, compile_select
from tocsin.errors import StatementError
from tocsin.model.catalogue import OncePer
from unit.cluster.channels.emergency import DATASETS, FULL_REPORTS, channel, compile_body


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


def test_with_snapshot_stands_before_the_query() -> None:
    """After ONCE PER, if there is one. The query is the same: what is new is all that a snapshot changes."""
    body = "SELECT r.id FROM EmergencyReports r WHERE is_new(r)"
    for options, once in (("WITH SNAPSHOT", None), ("ONCE PER (r.id) with snapshot", OncePer("r.id")), ("", None)):
        found = channel(f"CREATE CONTINUOUS CHANNEL C () {options} AS {body}")
        assert (found.once, found.snapshot, found.body) == (once, bool(options), body)


@pytest.mark.parametrize(
    ("written", "once"),
    [
        ("ONCE PER (r.id)", OncePer("r.id")),
        (
            "ONCE PER ( r.id,\n upper(')' || r.etype) ) WITHIN 90 MINUTES",
            OncePer("r.id,\n upper(')' || r.etype)", 5400),
        ),
        ("once per (r.id) within 1.5 days", OncePer("r.id", 129_600)),
        ("", None),
    ],
)
def test_once_per_is_read_as_it_is_written(written: str, once: OncePer | None) -> None:
    """After the parameters and the period; its keys are columns of the rows, and no outputs."""
    for begin in ("CONTINUOUS CHANNEL C ()", "REPETITIVE CHANNEL C () PERIOD 1 MINUTES"):
        found = channel(f"CREATE {begin} {written} AS SELECT r.x FROM EmergencyReports r WHERE is_new(r)")
        assert found.once == once
        compiled = compile_channel(found, DATASETS)
        assert compiled.is_keyed == (once is not None)
        assert [column.name for column in compiled.columns] == ["x"]


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("ONCE (r.id)", "expected PER"),
        ("ONCE PER r.id", "expected '('"),
        ("ONCE PER ()", "ONCE PER needs a key"),
        ("ONCE PER (r.id", "the statement ends too soon"),
        ("ONCE PER (r.id) WITHIN 1 MONTH", "expected one of SECOND"),
        ("ONCE PER (r.id) WITHIN 0 DAYS", "between 1 second and 366 days"),
        ("ONCE PER (r.id) WITHIN 1e300 DAYS", "between 1 second and 366 days"),
        ("ONCE PER (r.id) WITHIN DAY", "WITHIN needs a number"),
        ("WITHIN 1 DAY", "WITHIN belongs to ONCE PER"),
        ("WITH SNAPSHOTS", "expected SNAPSHOT, not 'SNAPSHOTS'"),
        ("ONCE PER (r.id) WITH EXITS WITH SNAPSHOT", "a channel is WITH EXITS or WITH SNAPSHOT, not both"),
        ("ONCE PER (r.id) WITH SNAPSHOT WITH EXITS", "expected AS, not 'WITH'"),
        ("WITH SNAPSHOT ONCE PER (r.id)", "expected AS, not 'ONCE'"),
    ],
)
def test_once_per_that_is_not_complete_is_refused(written: str, reason: str) -> None:
    """With what is missing."""
    with pytest.raises(StatementError, match=re.escape(reason)):
        channel(f"CREATE CONTINUOUS CHANNEL C () {written} AS SELECT r.x FROM EmergencyReports r WHERE is_new(r)")


def test_rows_that_are_put_together_have_no_keys_but_outputs() -> None:
    """A key of something else would make DISTINCT rows differ, and of a UNION it would be unclear whose it is."""
    for body in (
        "SELECT DISTINCT r.etype FROM EmergencyReports r",
        "SELECT r.etype FROM EmergencyReports r UNION SELECT 'x'",
    ):
        begin = "CREATE REPETITIVE CHANNEL C () PERIOD 1 MINUTES ONCE PER"
        assert compile_channel(channel(f"{begin} (ETYPE) AS {body}"), DATASETS).is_keyed
        with pytest.raises(StatementError, match="ONCE PER takes outputs only: etype"):
            compile_channel(channel(f"{begin} (r.id) AS {body}"), DATASETS)
