"""What is said of a record without Spark; `tests/property/test_verdict.py` compares it with what ingestion says."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from tocsin.cluster.datasets.core.verdict import RecordReader, Verdict
from tocsin.model.schema import Column, ColumnType, Schema

_COLUMNS = (
    Column("id", ColumnType.STRING, nullable=False),
    Column("x", ColumnType.DOUBLE),
    Column("at", ColumnType.TIMESTAMP),
    Column("day", ColumnType.DATE),
)
_MAX_RECORD_BYTES = 10_000
_read = RecordReader(Schema(_COLUMNS, ("id",)), _MAX_RECORD_BYTES)


def test_a_row_has_the_values_of_its_columns_in_order() -> None:
    """Names that the schema lacks are left out, and columns that the record lacks are NULL."""
    line = b'{"other": [1], "day": "2026-01-02", "at": "2026-01-02T03:04:05+02:00", "x": 5, "id": "a"}'
    assert _read(line) == ("a", 5.0, datetime(2026, 1, 2, 1, 4, 5, tzinfo=UTC), date(2026, 1, 2))
    assert _read(b'{"id": "a"}') == ("a", None, None, None)


@pytest.mark.parametrize("text", ["5", "true", "-9", "0", '"\\ud83d\\ude00"', '"\\\\ud800"'])
def test_what_publishers_send_every_day_is_decided(text: str) -> None:
    """Whole numbers and words in a string's column, and emoji as Python and JavaScript write them."""
    assert isinstance(_read(f'{{"id": {text}}}'.encode()), tuple)


@pytest.mark.parametrize(
    "line",
    [
        '{"id": null}',
        '{"x": 1}',
        '{"id": "a", "x": "1"}',
        '{"id": "a", "x": 1e400}',
        '{"id": "a", "x": "1", "x": 1}',
        '{"id": "a", "at": 1794816000000}',
        '{"id": "a", "at": "2026-01-02T03:04:05"}',
        '{"id": "a", "day": "2026-02-30"}',
        '{"id": "a"}{"id": "b"}',
        '[{"id": "a"}]',
        '{"id": "\\ud800"}',
        '{"id": "a", "other": "\\ud83d\\\\ude00"}',
        '{"id": "a"',
        '{"id": "' + "a" * _MAX_RECORD_BYTES + '"}',
    ],
)
def test_a_record_that_does_not_fit_is_rejected(line: str) -> None:
    """So that it does not wait for ingestion, and is not shown to anybody."""
    assert _read(line.encode()) is Verdict.REJECTED


@pytest.mark.parametrize(
    "line",
    [
        '{"id": 1.10}',
        '{"id": [1, 2]}',
        '{"id": "a", "x": 1' + "0" * 1_000 + "}",
        '{"id": "a", "x": 0.' + "0" * 1_000 + "1}",
        '{"id": "a", "other": ' + "[" * 600 + "]" * 600 + "}",
    ],
)
def test_what_sparks_parser_does_with_rare_texts_is_left_to_it(line: str) -> None:
    """Nothing is guessed: a record that is shown to somebody is in the table, with the same values."""
    assert _read(line.encode()) is Verdict.UNDECIDED


def test_no_line_raises_however_deep_the_call() -> None:
    """Publishers choose how deeply their records are nested, and what is read may be called from deep inside."""

    def at_depth(depth: int) -> object:
        return at_depth(depth - 1) if depth else _read(b'{"id": "a", "x": ' + b"[" * 200 + b"]" * 200 + b"}")

    assert at_depth(850) in (Verdict.UNDECIDED, Verdict.REJECTED)
