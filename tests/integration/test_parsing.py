"""Frames to rows: the one Spark job of ingestion."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from tocsin.cluster.feeds.parsing import parse_frames, separate
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema
from unit.model.test_times import REFUSED, TAKEN

_MAX_RECORD_BYTES = 40
_COLUMNS = (Column("id", ColumnType.STRING, nullable=False), Column("Level", ColumnType.DOUBLE))
_READINGS = Dataset("Readings", DatasetKind.ACTIVE, Schema(_COLUMNS, ("id",)))


def test_only_frames_of_the_dataset_are_taken_however_its_name_is_spelled(spark: SparkSession) -> None:
    """A dataset that was dropped and created again in another spelling may have frames of both in one batch."""
    frames = [
        (0, "Readings", b'{"id": "a"}\n{"id": "b", "Level": 2}'),
        (90, "Others", b'{"id": "x"}'),
        (180, "readings", b'{"id": "c"}'),
    ]
    parsed = parse_frames(_frames(spark, frames), _READINGS, _MAX_RECORD_BYTES, ordered=True)
    assert parsed.column("id").to_pylist() == ["a", "b", "c"]
    assert parsed.column("Level").to_pylist() == [None, 2.0, None]
    assert parsed.column("_position").to_pylist() == [0, 0, 180]
    assert parsed.column("_line").to_pylist() == [0, 1, 0]
    assert parsed.column("_raw").null_count == 3


def test_what_does_not_fit_keeps_its_bytes_and_its_place(spark: SparkSession) -> None:
    too_long = b'{"id": "' + b"x" * _MAX_RECORD_BYTES + b'"}'
    lines = [b'{"id": "a"}', b"", b" ", b"{", b'{"Level": 1}', b'{"id": "b", "Level": 1e999}', too_long, b'{"id": "c"}']
    frames = _frames(spark, [(7, "Readings", b"\n".join(lines))])
    table = parse_frames(frames, _READINGS, _MAX_RECORD_BYTES, ordered=False)
    parsed = separate(table, _READINGS, {7: "meters"}, _MAX_RECORD_BYTES, now_us=0)
    assert parsed.rows.column("id").to_pylist() == ["a", "c"]
    assert parsed.rejected.column("line").to_pylist() == [4, 5, 6, 7]
    assert parsed.rejected.column("raw").to_pylist() == [line.decode() for line in lines[3:7]]


def test_a_line_holds_one_record_and_nothing_else(spark: SparkSession) -> None:
    """Spark would take the first of two records, and lose the second in silence; it takes single quotes, too."""
    taken = ['{"id": "a"}', '{"id": "b"} \t\r', '{"id": "}{"}', '{"id": "c", "more": {"deep": {}}}', '{"id": "é}"}']
    refused = [
        '{"id": "d"}{"id": "e"}',
        '{"id": "f"} {"id": "g"}',
        '{"id": "h"},',
        '{"id": "i"}]',
        '{"id": "j"} more',
        '{"id": "k"} // a remark',
        '{"id": "l"}\0',
        "{'id': 'm'}",
    ]
    frames = _frames(spark, [(7, "Readings", "\n".join(taken + refused).encode())])
    table = parse_frames(frames, _READINGS, _MAX_RECORD_BYTES, ordered=True)
    parsed = separate(table, _READINGS, {7: "meters"}, _MAX_RECORD_BYTES, now_us=0)
    assert parsed.rows.column("id").to_pylist() == ["a", "b", "}{", "c", "é}"]
    assert parsed.rejected.column("raw").to_pylist() == refused
    follows = "text follows the record, from character 12 on; a line holds one record"
    assert parsed.rejected.column("reason").to_pylist()[0] == follows


def test_half_of_a_character_is_refused_and_not_replaced_by_a_question_mark(spark: SparkSession) -> None:
    """JSON can write half of a surrogate pair, which no text can hold. Many programs write emoji as whole pairs."""
    taken = [r'{"id": "\ud83d\ude00"}', r'{"id": "\\ud83d"}', r'{"id": "\\\uD83D\uDE00"}']
    halves = [r'{"id": "\ud83d"}', r'{"id": "\uDE00"}', r'{"id": "\ud83d\\ude00"}', r'{"id": "\ud83d\ud83d\ude00"}']
    refused = [*halves, r'{"id": "a", "other": "\ud83d"}']
    frames = _frames(spark, [(7, "Readings", "\n".join(taken + refused).encode())])
    table = parse_frames(frames, _READINGS, _MAX_RECORD_BYTES, ordered=True)
    parsed = separate(table, _READINGS, {7: "meters"}, _MAX_RECORD_BYTES, now_us=0)
    assert parsed.rows.column("id").to_pylist() == ["\N{GRINNING FACE}", r"\ud83d", "\\\N{GRINNING FACE}"]
    assert parsed.rejected.column("raw").to_pylist() == refused
    reason = r"\ud83d is half of a character; write both halves, as JSON does, or the character itself"
    assert parsed.rejected.column("reason").to_pylist()[0] == reason


def test_times_are_taken_in_listed_forms_only(spark: SparkSession) -> None:
    """Spark takes and refuses the same as the list says, to the microsecond, and each refusal says what is expected."""
    columns = (Column("at", ColumnType.TIMESTAMP), Column("day", ColumnType.DATE))
    dataset = Dataset("Times", DatasetKind.ACTIVE, Schema(columns))
    days = {"2026-01-02": True, "2200-12-31": True, "2026-1-2": False, "2026-02-30": False, "1899-12-31": False}
    records = [{"at": value} for value in (*TAKEN, *REFUSED)] + [{"day": day} for day in days]
    body = "\n".join(map(json.dumps, records)).encode()
    parsed = separate(
        parse_frames(_frames(spark, [(0, "Times", body)]), dataset, 100, ordered=True), dataset, {}, 100, now_us=0
    )
    taken = [moment.isoformat() for moment in parsed.rows.column("at").drop_null().to_pylist()]
    assert taken == list(TAKEN.values())
    assert [str(day) for day in parsed.rows.column("day").drop_null().to_pylist()] == ["2026-01-02", "2200-12-31"]
    reasons = parsed.rejected.column("reason").to_pylist()
    assert len(reasons) == len(REFUSED) + 3
    assert all(reason.startswith(f"at: {words}") for reason, words in zip(reasons, REFUSED.values(), strict=False))


def test_no_view_is_left_behind(spark: SparkSession) -> None:
    """Parsing leaves nothing in the session that a later run could meet."""
    parse_frames(_frames(spark, [(0, "Readings", b'{"id": "a"}')]), _READINGS, _MAX_RECORD_BYTES, ordered=False)
    assert not [table for table in spark.catalog.listTables() if "frames" in table.name]


def _frames(spark: SparkSession, frames: list[tuple[int, str, bytes]]) -> DataFrame:
    return spark.createDataFrame(frames, "position BIGINT, dataset STRING, body BINARY")
