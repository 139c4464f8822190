"""Domains: keys are in the order of the values, and literals are exact."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.filters.domains import DOMAINS, TEXT_END, after, before, double_key, end_of_prefix
from tocsin.model.schema import ColumnType

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@given(st.floats(), st.floats())
def test_keys_of_doubles_are_in_sparks_order(one: float, other: float) -> None:
    """NaN equals NaN and is above everything; both zeros are the same."""
    if math.isnan(one) or math.isnan(other):
        assert (double_key(one) > double_key(other)) == (math.isnan(one) and not math.isnan(other))
    else:
        assert (double_key(one) < double_key(other)) == (one < other)
        assert (double_key(one) == double_key(other)) == (one == other)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_literal_of_a_double_reads_back(value: float) -> None:
    """Every finite one has a literal; no neighbour has the same."""
    key = double_key(value)
    literal = DOMAINS[ColumnType.DOUBLE].literal(key)
    assert literal is not None
    assert double_key(float(literal)) == key


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_has_no_literal(value: float) -> None:
    """Spark SQL has none either."""
    assert DOMAINS[ColumnType.DOUBLE].literal(double_key(value)) is None


@pytest.mark.parametrize(
    ("value", "cuts"),
    [
        (5, (5, 6)),
        (Decimal("2.5"), (3, 3)),
        (Decimal("2.0"), (2, 3)),
        (-2.5, (-2, -2)),
        # As DOUBLEs, two whole numbers are the same here.
        (2.0**53, (2**53, 2**53 + 2)),
        (1e19, (2**63, 2**63)),
        (-1e19, (-(2**63), -(2**63))),
        # All that round to the literal.
        (2.0**63, (2**63 - 512, 2**63)),
    ],
)
def test_whole_numbers_are_cut_as_spark_compares_them(value: Decimal | float, cuts: tuple[int, int]) -> None:
    """With a fraction exactly, with a DOUBLE as DOUBLEs."""
    assert DOMAINS[ColumnType.BIGINT].cuts_at(value) == cuts


@given(TEXTS, TEXTS)
def test_the_end_of_a_prefix_is_right_after_all_texts_that_begin_with_it(prefix: str, text: str) -> None:
    assert (prefix <= text < end_of_prefix(prefix)) == text.startswith(prefix)


def test_a_prefix_may_end_with_the_last_of_all_characters() -> None:
    """Then the character before it counts on; with none before it, there is no end. Surrogates are no characters."""
    assert end_of_prefix("a\U0010ffff") == "b"
    assert end_of_prefix("\U0010ffff") is TEXT_END
    assert end_of_prefix("\ud7ff") == "\ue000"


@given(TEXTS)
def test_nothing_lies_between_a_text_and_the_next(text: str) -> None:
    """And the end is beyond all."""
    assert text < after(text) < TEXT_END
    assert before(after(text)) == text
    assert max(text, TEXT_END, after(text)) is TEXT_END
