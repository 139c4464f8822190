"""Mistakes in a new channel that Spark would run and nobody would notice."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.review import review_channel, review_query
from tocsin.errors import StatementError
from unit.cluster.channels.emergency import DATASETS, channel

ALL = "etype STRING, n INT, at TIMESTAMP, sure BOOLEAN"


def review(condition: str, parameters: str) -> None:
    body = f"SELECT r.id FROM EmergencyReports r WHERE is_new(r) AND {condition}"
    review_channel(channel(f"CREATE CONTINUOUS CHANNEL C ({parameters}) AS {body}"), DATASETS)


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("r.severity = :etype", "r.severity (INT) is compared with :etype (STRING); make them one type, such as CAST("),
        ("r.etype = :n", "CAST(r.etype AS INT)"),
        ("r.severity > '3'", "write a number without quotes"),
        ("r.etype IN ('fire', 3)", "write '3'"),
        ("r.severity BETWEEN 1 AND 'x'", "r.severity (INT) is compared with 'x' (STRING)"),
        ("r.message = :sure", "r.message (STRING) is compared with :sure (BOOLEAN)"),
        ("CAST(r.message AS TIMESTAMP) > 'yesterday'", "'yesterday' stands for a TIMESTAMP: expected an ISO 8601 time"),
        (":at > '2026-01-02T03:04:05'", "stands for a TIMESTAMP: expected a time with its offset, such as Z"),
        (":at > TIMESTAMP '2026-01-02 03:04:05'", "stands for a TIMESTAMP: expected a time with its offset"),
        ("CAST('2026-01-02T03:04:05Z' AS DATE) > '2026-01-02'", "stands for a DATE: expected an ISO 8601 date"),
        ("r.severity + 1 = :etype", "r.severity + 1 (INT) is compared with :etype (STRING)"),
        ("r.severity / 2 > :etype", "CAST(:etype AS DOUBLE)"),
        ("r.severity * :etype > 3", "r.severity (INT) is calculated with :etype (STRING)"),
        ("length(r.message) = :etype", "length(r.message) (INT) is compared with :etype (STRING)"),
        ("lower(r.etype) = 3", "write '3'"),
        (":at > 17", ":at (TIMESTAMP) is compared with 17 (INT)"),
        ("r.etype = NULL", "write IS NULL"),
        ("(r.severity) <> NULL", "write IS NULL"),
    ],
)
def test_values_of_different_types_are_not_compared(condition: str, message: str) -> None:
    """A comparison of a number with a text is refused with the cast that makes it right, and points at its place."""
    used = ", ".join(one for one in ALL.split(", ") if f":{one.split()[0]}" in condition)
    with pytest.raises(StatementError) as refused:
        review(condition, used)
    assert message in refused.value.message
    assert refused.value.line == 1


@pytest.mark.parametrize(
    "condition",
    [
        "r.severity = CAST(:etype AS INT)",
        "r.x > 1 AND r.severity >= 2.5",
        "r.etype = :etype",
        ":at > '2026-01-02T03:04:05Z'",
        "coalesce(r.etype, r.message) = 3",
        "lower(r.etype) = :etype",
        "length(r.etype) > r.severity * 2 - :n",
        ":at > CAST('2026-01-02T03:04:05Z' AS TIMESTAMP) - INTERVAL 3 DAYS",
        "r.etype IS NULL AND r.severity <=> NULL",
    ],
)
def test_what_may_be_compared_passes(condition: str) -> None:
    """Numbers of any kind, times written as strings, and what only Spark can tell the type of."""
    used = ", ".join(one for one in ALL.split(", ") if f":{one.split()[0]}" in condition)
    review(condition, used)


@pytest.mark.parametrize("condition", ["etype = NULL", "severity = '3'", "length(etype) = 'x'"])
def test_what_deletes_rows_is_reviewed_too(condition: str) -> None:
    """A condition that holds for no row, or for others than were meant, is said before anything is deleted."""
    with pytest.raises(StatementError, match=r"comparison with NULL|is compared with"):
        review_query(f"SELECT * FROM EmergencyReports WHERE {condition}", DATASETS)


def test_a_parameter_that_is_not_used_is_an_error() -> None:
    """Everybody who subscribes would have to give a value that changes nothing."""
    with pytest.raises(StatementError, match="the parameter n is not used: write :n in the query, or don't declare it"):
        review("r.etype = :etype", "etype STRING, n INT")
