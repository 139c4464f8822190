"""The rows of an INSERT as records of their dataset (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tocsin.cluster.datasets.core.records import misfit
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import Dataset


def records_of(dataset: Dataset, columns: Sequence[str] | None, rows: Sequence[Sequence[Any]]) -> list[dict[str, Any]]:
    """One record for each row, with the dataset's spelling of column names. Without a list of columns, each row has all
    of them. Raises InvalidValue for the first row that does not fit."""
    names: list[str] = []
    for given in columns or dataset.schema.names:
        if (column := dataset.schema.find(given)) is None:
            known = ", ".join(dataset.schema.names)
            raise InvalidValue(f"dataset {dataset.name} has no column {given}; it has {known}")
        names.append(column.name)
    records = []
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            remedy = f"name the columns: INSERT INTO {dataset.name} ({names[0]}, ...) VALUES ..."
            raise InvalidValue(
                f"row {number} has {len(row)} values for {len(names)} columns ({', '.join(names)}); {remedy}"
            )
        records.append(dict(zip(names, row, strict=True)))
        if (reason := misfit(dataset.schema, records[-1])) is not None:
            raise InvalidValue(f"row {number}: {reason}; nothing was inserted")
    return records
