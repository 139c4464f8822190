"""Patterns and distances between texts, in time that one long record can't stretch. Spark's own are compared with in
tests/property."""

from __future__ import annotations

from tocsin.cluster.channels.compiler.compile import compile_select
from unit.cluster.channels.emergency import DATASETS


def test_levenshtein_of_long_texts_is_null() -> None:
    """It takes time with the product of both lengths: texts of a megabyte would take hours."""
    compiled = compile_select("SELECT levenshtein(id, name) AS a FROM Shelters", DATASETS)
    assert "CHAR_LENGTH(`Shelters`.`name`) <= 1000, LEVENSHTEIN(" in "".join(map(str, compiled.parts))
