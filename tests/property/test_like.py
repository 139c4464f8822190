"""LIKE and ILIKE as they are spelled out, against Spark's own."""

from __future__ import annotations

import random
import time
from itertools import product
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from tocsin.cluster.channels.compiler.dialect import sql_of
from tocsin.cluster.channels.compiler.patterns import UnsupportedPattern, check_pattern, spell_out_pattern

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Characters of each length in UTF-8, those that lower case makes longer, and those that patterns are made of.
ALPHABET = "abA%_\\é\N{MATHEMATICAL FRAKTUR SMALL A}İΣς\n"
PATTERNS = 120


def _patterns() -> list[str]:
    chance = random.Random(7)
    found: set[str] = {
        "%_%",
        "a%b",
        "%a%",
        "%a%b%",
        "a%_%b",
        "%%",
        "%",
        "",
        "a%%b",
        "%\\%%",
        "a_%_b",
        "%aba%ba",
        "ab%ba",
    }
    while len(found) < PATTERNS:
        pattern = "".join(chance.choice("aab%%%_é\\ΣİA") for _ in range(chance.randint(1, 7)))
        try:
            check_pattern(pattern)
        except UnsupportedPattern:
            continue
        found.add(pattern)
    return sorted(found)


def _texts() -> list[str | None]:
    chance = random.Random(8)
    short = ["".join(letters) for length in range(6) for letters in product("ab", repeat=length)]
    mixed = ["".join(chance.choice(ALPHABET) for _ in range(chance.randint(1, 8))) for _ in range(200)]
    return [None, *short, *mixed]


def _comparison(pattern: str, kind: type[exp.Like | exp.ILike], *, negate: bool) -> exp.Like | exp.ILike:
    return kind(this=exp.column("s", quoted=True), expression=exp.Literal.string(pattern), negate=negate)


def test_like_matches_what_sparks_own_matches(spark: SparkSession) -> None:
    """A pattern that is spelled out matches the same texts as Spark's LIKE and ILIKE, NULL included."""
    spark.createDataFrame([(text,) for text in _texts()], "s STRING").coalesce(1).createOrReplaceTempView("like_texts")
    comparisons = [
        _comparison(pattern, kind, negate=number % 5 == 0)
        for number, pattern in enumerate(_patterns())
        for kind in (exp.Like, exp.ILike)
    ]
    spelled_out = [(one, spelled) for one in comparisons if (spelled := spell_out_pattern(one.copy())) != one]
    assert len(spelled_out) > PATTERNS // 2, "many of the patterns are spelled out"
    for first in range(0, len(spelled_out), 60):
        pairs = spelled_out[first : first + 60]
        counts = ", ".join(
            f"count_if(NOT (({sql_of(one)}) <=> ({sql_of(spelled)}))) AS c{number}"
            for number, (one, spelled) in enumerate(pairs)
        )
        (row,) = spark.sql(f"SELECT {counts} FROM like_texts").collect()
        wrong = {sql_of(one): count for (one, _), count in zip(pairs, row, strict=True) if count}
        assert not wrong


def test_like_takes_a_moment_for_a_long_text(spark: SparkSession) -> None:
    """Three % and a text of a megabyte: a regular expression would take years, and nothing would interrupt it."""
    spark.sql("SELECT repeat('ab', 500000) AS s").createOrReplaceTempView("long_text")
    spelled = [
        sql_of(spell_out_pattern(_comparison(pattern, kind, negate=False)))
        for pattern in ("%ba%a%c", "%a%b%c%", "_%b%a%aa_", "%\\%%a%")
        for kind in (exp.Like, exp.ILike)
    ]
    began = time.monotonic()
    (row,) = spark.sql(f"SELECT {', '.join(spelled)} FROM long_text").collect()
    assert not any(row)
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("%f_re%", "may hold _ only next to a %"),
        ("%" * 9, "at most 8 %"),
        ("a" * 1_001, "at most 1,000 characters"),
        ("a\\b", "a backslash may stand before"),
        ("a\\", "a backslash may stand before"),
    ],
)
def test_patterns_that_would_take_long_are_refused(pattern: str, reason: str) -> None:
    """What can't be matched in linear time, or fails in a run, is refused with what is allowed."""
    with pytest.raises(UnsupportedPattern, match=reason):
        check_pattern(pattern)
