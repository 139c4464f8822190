"""Rows: each value of a record as a key, or an error that names the column."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import pytest

from tocsin.errors import InvalidValue
from unit.filters.quotes import filter_of, row_of


def test_times_may_be_texts_or_values() -> None:
    """In any offset; what is beyond microseconds is cut off, as Spark does."""
    moment = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
    texts = ["2026-01-02T03:04:05.000006Z", "2026-01-02 04:04:05.000006+01:00", "2026-01-02T03:04:05.000006999Z"]
    assert {tuple(row_of(at=one)) for one in [moment, *texts]} == {tuple(row_of(at=moment))}
    assert row_of(day="2026-01-02") == row_of(day=date(2026, 1, 2))


def test_what_is_missing_is_null() -> None:
    """Columns that the schema does not have are left out."""
    assert list(row_of(other=5)) == ["YHOO", *[None] * 7]


def test_a_double_may_be_a_whole_number_or_not_finite() -> None:
    """As JSON and Spark write them: NaN is above all numbers, and equals itself."""
    above = filter_of("close > 1.7e308")
    assert row_of(close=1) == row_of(close=1.0)
    assert above.matches(row_of(close="NaN"))
    assert above.matches(row_of(close=float("inf")))
    assert not above.matches(row_of(close="-Infinity"))
    assert not filter_of("close <= 1.7e308").matches(row_of(close=float("nan")))


@pytest.mark.parametrize(
    ("values", "column"),
    [
        ({"symbol": 5}, "symbol"),
        ({"volume": 1.0}, "volume"),
        ({"volume": True}, "volume"),
        ({"volume": 2**63}, "volume"),
        ({"user": 2**31}, "user"),
        ({"halted": 1}, "halted"),
        ({"close": True}, "close"),
        ({"close": 10**400}, "close"),
        ({"close": "many"}, "close"),
        ({"close": []}, "close"),
        ({"at": 5}, "at"),
        ({"at": "2026-01-02T03:04:05"}, "at"),
        ({"day": "today"}, "day"),
        ({"day": datetime(2026, 1, 2, tzinfo=UTC)}, "day"),
        ({"name": ["x" * 1000]}, "name"),
        ({"name": 10**5000}, "name"),
        ({"volume": 10**5000}, "volume"),
    ],
)
def test_what_does_not_fit_its_column_is_an_error(values: dict[str, Any], column: str) -> None:
    """Nothing is converted silently."""
    with pytest.raises(InvalidValue, match=f"^{column}: expected"):
        row_of(**values)
