"""Why a record was refused: each reason names the column, what is expected and what came."""

from __future__ import annotations

import pytest

from tocsin.cluster.datasets.core.records import misfit, reason_for_rejection
from tocsin.model.schema import Column, ColumnType, Schema

_SCHEMA = Schema(
    (Column("id", ColumnType.STRING, nullable=False), *(Column(kind.lower(), kind) for kind in ColumnType)), ("id",)
)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected a JSON object, got [1]"),
        (b"5", "expected a JSON object, got 5"),
        (b'"text"', "expected a JSON object"),
        (b'{"id": null}', "id: missing"),
        (b'{"ID": "a"}', "id: missing"),
        (b'{"id": "a", "int": 2147483648}', "int: expected a whole number of 32 bits, got 2147483648"),
        (b'{"id": "a", "int": 1.5}', "int: expected"),
        (b'{"id": "a", "int": true}', "int: expected"),
        (b'{"id": "a", "bigint": 9223372036854775808}', "bigint: expected a whole number of 64 bits"),
        (b'{"id": "a", "double": "1"}', "double: expected a finite number"),
        (b'{"id": "a", "double": 1e999}', "double: expected a finite number, got Infinity"),
        (b'{"id": "a", "double": -1' + 400 * b"0" + b"}", "double: expected a finite number, got -1000"),
        (b'{"id": "a", "boolean": "true"}', "boolean: expected true or false"),
        (b'{"id": "a", "timestamp": "yesterday"}', "timestamp: expected an ISO 8601 time"),
        (b'{"id": "a", "date": "2026-02-30"}', "date: expected a day that exists"),
        (b'{"id": "\xff"}', "not UTF-8 at byte 8"),
        (b'{"id": "\\xff"}', "a byte that isn't UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": "a", "int": 1' + 5_000 * b"0" + b"}", "has more than 4300 digits"),
        (b'{"id": "' + b"x" * 300_000 + b'"}', "at most 200000 are allowed"),
        (b'{"id": "a", "int": "' + b"y" * 500 + b'"}', "…"),
    ],
)
def test_the_reason_names_what_is_wrong(raw: bytes, words: str) -> None:
    """A dead letter says which column, what is expected there and what was found, and never at length."""
    reason = reason_for_rejection(_SCHEMA, raw, 200_000)
    assert words in reason
    assert len(reason) < 200


def test_every_rejected_record_has_a_reason() -> None:
    """Whatever it is: without a reason for one record, no record of any feed would come any further. Some nest just so
    deeply that they can be read, and not be shown."""
    for depth in range(100, 1_100):
        raw = b'{"id": "a", "int": ' + depth * b"[" + depth * b"]" + b"}"
        assert reason_for_rejection(_SCHEMA, raw, 200_000)


def test_what_fits_has_no_reason() -> None:
    """A record with every type, with some left out, or with more than asked for, fits."""
    full = {
        "id": "a",
        "string": "s",
        "boolean": False,
        "int": -5,
        "bigint": 1 << 40,
        "double": 3,
        "timestamp": "2026-01-02T03:04:05+02:00",
        "date": "2026-01-02",
    }
    assert misfit(_SCHEMA, full) is None
    assert misfit(_SCHEMA, {"id": "a", "unknown": [1]}) is None
