"""Rows of an INSERT."""

from __future__ import annotations

import pytest

from tocsin.cluster.datasets.core.records import records_of
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema

SHELTERS = Dataset(
    "Shelters",
    DatasetKind.KEYED,
    Schema((Column("id", ColumnType.STRING, nullable=False), Column("Beds", ColumnType.INT)), ("id",)),
)


def test_rows_become_records_with_the_schemas_names() -> None:
    """Columns may be named in any order and case; without names, a row has all of them in order."""
    assert records_of(SHELTERS, ("BEDS", "id"), [(5, "a")]) == [{"Beds": 5, "id": "a"}]
    assert records_of(SHELTERS, None, [("a", 5), ("b", None)]) == [{"id": "a", "Beds": 5}, {"id": "b", "Beds": None}]


@pytest.mark.parametrize(
    ("columns", "rows", "reason"),
    [
        (("id", "rooms"), [("a", 1)], "no column rooms; it has id, Beds"),
        (None, [("a", 1), ("b",)], "row 2 has 1 values for 2 columns"),
        (None, [("a", 1), ("b", "many")], "row 2: Beds"),
        (("Beds",), [(1,)], "row 1: id"),
    ],
)
def test_the_first_row_that_does_not_fit_is_named(
    columns: tuple[str, ...] | None, rows: list[tuple[object, ...]], reason: str
) -> None:
    """With its number and what is wrong; then no row is inserted."""
    with pytest.raises(InvalidValue, match=reason):
        records_of(SHELTERS, columns, rows)
