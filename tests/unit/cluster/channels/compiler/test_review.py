"""Mistakes in a new channel that Spark would run and nobody would notice."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.review import review_channel
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
        ("CAST(r.message AS TIMESTAMP) > 'yesterday'", "'yesterday' is compared with a TIMESTAMP and is no time"),
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
        "lower(r.etype) = 3",
        "r.etype IS NULL AND r.severity <=> NULL",
    ],
)
def test_what_may_be_compared_passes(condition: str) -> None:
    """Numbers of any kind, times written as strings, and what only Spark can tell the type of."""
    used = ", ".join(one for one in ALL.split(", ") if f":{one.split()[0]}" in condition)
    review(condition, used)


def test_a_parameter_that_is_not_used_is_an_error() -> None:
    """Everybody who subscribes would have to give a value that changes nothing."""
    with pytest.raises(StatementError, match="the parameter n is not used: write :n in the query, or don't declare it"):
        review("r.etype = :etype", "etype STRING, n INT")
