"""Values of columns as JSON carries them."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from math import inf, nan
from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.datasets.arrow import ARROW_TYPES, wire_values
from tocsin.model.schema import ColumnType


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        (ColumnType.STRING, "ä b", "ä b"),
        (ColumnType.BOOLEAN, False, False),
        (ColumnType.INT, -(2**31), -(2**31)),
        (ColumnType.BIGINT, 2**63 - 1, 2**63 - 1),
        (ColumnType.DOUBLE, 0.5, 0.5),
        (ColumnType.DOUBLE, nan, "NaN"),
        (ColumnType.DOUBLE, inf, "Infinity"),
        (ColumnType.DOUBLE, -inf, "-Infinity"),
        (ColumnType.TIMESTAMP, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "2026-01-02T03:04:05.000000Z"),
        (ColumnType.TIMESTAMP, datetime(1969, 12, 31, 23, 59, 59, 1, tzinfo=UTC), "1969-12-31T23:59:59.000001Z"),
        (ColumnType.DATE, date(2024, 2, 29), "2024-02-29"),
    ],
)
def test_each_type_is_written_as_in_results(type_: ColumnType, value: Any, written: Any) -> None:
    """Times are ISO 8601 in UTC with microseconds, what JSON has no number for is a string, and NULL is null."""
    column = pa.chunked_array([pa.array([value, None], ARROW_TYPES[type_])])
    assert wire_values(column) == [written, None]
    json.dumps(wire_values(column), allow_nan=False)


@pytest.mark.parametrize("type_", ColumnType)
def test_no_rows_are_no_values(type_: ColumnType) -> None:
    """An empty column of any type is an empty list."""
    assert wire_values(pa.chunked_array([pa.array([], ARROW_TYPES[type_])])) == []


def test_years_that_python_has_no_date_for() -> None:
    """A timestamp beyond the year 9999 can be stored, so it can be written."""
    column = pa.chunked_array([pa.array([253402300800_000_000], ARROW_TYPES[ColumnType.TIMESTAMP])])
    assert wire_values(column) == ["10000-01-01T00:00:00.000000Z"]


def test_one_odd_row_does_not_change_the_form_of_the_others() -> None:
    """A column has one form, also beside a year that Python has no value for."""
    odd = [1_767_323_045_000_000, 253402300800_000_000]
    column = pa.chunked_array([pa.array(odd, ARROW_TYPES[ColumnType.TIMESTAMP])])
    assert wire_values(column) == ["2026-01-02T03:04:05.000000Z", "10000-01-01T00:00:00.000000Z"]
