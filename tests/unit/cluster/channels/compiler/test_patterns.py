"""Patterns and distances between texts, in time that one long record can't stretch. Spark's own are compared with in
tests/property."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.compile import compile_select
from tocsin.cluster.channels.compiler.patterns import UnsupportedPattern, check_pattern
from unit.cluster.channels.emergency import DATASETS


def test_levenshtein_of_long_texts_is_null() -> None:
    """It takes time with the product of both lengths: texts of a megabyte would take hours."""
    compiled = compile_select("SELECT levenshtein(id, name) AS a FROM Shelters", DATASETS)
    assert "CHAR_LENGTH(`Shelters`.`name`) <= 1000, LEVENSHTEIN(" in "".join(map(str, compiled.parts))


@pytest.mark.parametrize("pattern", ["", "%", "a%b%c", "%_fire_%", "100\\%", "%".join("a" * 9), "_" * 1000])
def test_patterns_that_take_linear_time_pass(pattern: str) -> None:
    """Up to eight % signs, and _ wherever a search needs no trying."""
    check_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("%f_re%", "only next to a %"),
        ("%".join("a" * 10), "at most 8 % signs"),
        ("a" * 1001, "at most 1,000 characters"),
        ("a\\b", "a backslash may stand before"),
        ("a\\", "a backslash may stand before"),
    ],
)
def test_other_patterns_are_refused_with_the_reason(pattern: str, reason: str) -> None:
    """Before a channel is made of them, not in a run."""
    with pytest.raises(UnsupportedPattern, match=reason):
        check_pattern(pattern)
