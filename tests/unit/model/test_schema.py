"""Schemas: columns in order, found whatever their case."""

from __future__ import annotations

from tocsin.model.schema import Column, ColumnType, Schema


def test_columns_are_found_in_any_case_and_kept_as_written() -> None:
    """A schema grows at its end, and the one it grew from stays as it was."""
    schema = Schema((Column("Id", ColumnType.STRING, nullable=False), Column("n", ColumnType.INT)), ("Id",))
    found = schema.find("ID")
    assert found is not None
    assert found.name == "Id"
    assert schema.find("m") is None
    assert schema.required == ("Id",)
    grown = schema.with_column(Column("m", ColumnType.DATE))
    assert grown.names == ("Id", "n", "m")
    assert schema.names == ("Id", "n")
    assert grown.primary_key == ("Id",)
