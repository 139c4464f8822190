"""Frames to checked rows, on Spark: cuts bodies into lines, and parses and checks the lines against the schema."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from tocsin.cluster.datasets.arrow import arrow_schema, wire_values
from tocsin.cluster.datasets.core.records import reason_for_rejection
from tocsin.cluster.datasets.core.time_columns import from_text, is_outside, is_time, text_ddl
from tocsin.cluster.datasets.reference_keys import repeats
from tocsin.cluster.datasets.store import DEAD_LETTERS, dead_letter
from tocsin.model.catalogue import Dataset
from tocsin.model.schema import ColumnType

_POSITION, _LINE, _RAW, _CORRUPT = "_position", "_line", "_raw", "_corrupt"
_JSON_OPTIONS = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _CORRUPT,
    "allowNonNumericNumbers": "false",
    "allowSingleQuotes": "false",
    "encoding": "UTF-8",
}
#: Half of a surrogate pair is no character; Spark would store a question mark. What is left of a text without escaped
#: backslashes and whole pairs has none. Each step takes linear time, and few texts need the second and third.
_HALF_PAIR = (
    r"((locate('\\ud', text) > 0 OR locate('\\uD', text) > 0) AND "
    r"regexp_replace(replace(text, '\\\\', ''), '(?i)\\\\ud[89ab][0-9a-f]{2}\\\\ud[c-f][0-9a-f]{2}', '') "
    r"RLIKE '(?i)\\\\ud[89a-f][0-9a-f]{2}')"
)


@dataclass(frozen=True, slots=True)
class Parsed:
    """Rows that fit, each with the position of its frame and its line there, and the other rows as dead letters."""

    rows: pa.Table
    positions: pa.ChunkedArray
    lines: pa.ChunkedArray
    rejected: pa.Table


def parse_frames(frames: DataFrame, dataset: Dataset, max_record_bytes: int, *, ordered: bool) -> pa.Table:
    """One Spark job that turns the dataset's frames, among all (position, dataset, body), into rows with `_position`,
    `_line` and `_raw`.

    `_raw` is NULL for a row that fits and the record's bytes for one that doesn't. Blank lines come out as rows that
    don't fit; `separate` drops them, since looking for them here would cost a quarter of the time. With `ordered`, rows
    come in log order.
    """
    view = f"tocsin_frames_{dataset.name}"
    spark = frames.sparkSession
    frames.createOrReplaceTempView(view)
    try:
        table = spark.sql(_query(view, dataset, max_record_bytes)).toArrow()
    finally:
        spark.catalog.dropTempView(view)
    return table.sort_by([(_POSITION, "ascending"), (_LINE, "ascending")]) if ordered else table


def _query(view: str, dataset: Dataset, max_record_bytes: int) -> str:
    """As text, which goes to the JVM in one call: if Python builds the same query column by column, that takes hundreds
    of calls and twice as long as running it."""
    options = ", ".join(f"'{name}', '{value}'" for name, value in _JSON_OPTIONS.items())
    # Spark reads the first value of a line and ignores the rest: a second record would be lost. As a value of an object
    # it has to be alone. Only lines with something after their first bracket are read a second time for this.
    alone = f"from_json(concat('{{\"r\":', text, '}}'), 'r STRING, `{_CORRUPT}` STRING', map({options}))"
    unfit = [
        "r IS NULL",
        f"r.{_CORRUPT} IS NOT NULL",
        f"octet_length(text) > {max_record_bytes}",
        f"(locate('}}', text) < length(text) AND {alone}.{_CORRUPT} IS NOT NULL)",
        _HALF_PAIR,
    ]
    times = {column.name: f"_time_{column.name}" for column in dataset.schema if is_time(column.type)}
    for column in dataset.schema:
        if column.name in times:
            outside = is_outside(f"`{times[column.name]}`", column.type)
            unfit.append(f"(r.`{column.name}` IS NOT NULL AND {outside})")
        if not column.nullable:
            unfit.append(f"r.`{column.name}` IS NULL")
        if column.type is ColumnType.DOUBLE:
            # JSON has no infinity, but 1e999 reads as one; a distance to it would spoil every near-query.
            unfit.append(f"coalesce(abs(r.`{column.name}`) = double('Infinity'), FALSE)")
    values = ", ".join(
        f"`{times[column.name]}` AS `{column.name}`" if column.name in times else f"r.`{column.name}`"
        for column in dataset.schema
    )
    read = "".join(
        f", {from_text(f'r.`{column.name}`', column.type)} AS `{times[column.name]}`"
        for column in dataset.schema
        if column.name in times
    )
    return f"""
        SELECT {values}, {_POSITION}, {_LINE},
          CASE WHEN {" OR ".join(unfit)} THEN CAST(text AS BINARY) END AS {_RAW}
        FROM (SELECT *{read} FROM (
          SELECT *, from_json(text, '{text_ddl(dataset.schema)}, `{_CORRUPT}` STRING', map({options})) AS r
          FROM (
            SELECT position AS {_POSITION}, posexplode(split(CAST(body AS STRING), '\\n')) AS ({_LINE}, text)
            FROM `{view}` WHERE lower(dataset) = '{dataset.name.lower()}'
          ) WHERE text <> ''
        ))"""


def refuse_repeats(parsed: Parsed, taken: pa.Table, key: Sequence[str], feed_of: dict[int, str], now_us: int) -> Parsed:
    """Make dead letters of the rows whose keys are taken, or occur a second time."""
    found = repeats(taken, parsed.rows, key)
    if not found:
        return parsed
    is_kept = pa.array([at not in found for at in range(parsed.rows.num_rows)])
    repeated = parsed.rows.take(pa.array(list(found)))
    values = zip(*(wire_values(column) for column in repeated.columns), strict=True)
    letters = []
    for (at, reason), row in zip(found.items(), values, strict=True):
        position = parsed.positions[at].as_py()
        raw = json.dumps(dict(zip(repeated.column_names, row, strict=True)))
        line = parsed.lines[at].as_py() + 1
        letters.append(dead_letter(position, line, feed_of.get(position, ""), reason, raw, now_us))
    rejected = pa.concat_tables([parsed.rejected, pa.Table.from_pylist(letters, schema=DEAD_LETTERS)])
    rejected = rejected.sort_by([("position", "ascending"), ("line", "ascending")])
    return Parsed(parsed.rows.filter(is_kept), parsed.positions.filter(is_kept), parsed.lines.filter(is_kept), rejected)


def separate(table: pa.Table, dataset: Dataset, feed_of: dict[int, str], max_record_bytes: int, now_us: int) -> Parsed:
    """Split what `parse_frames` returned into rows and dead letters with their reasons."""
    unfit = pc.is_valid(table.column(_RAW))
    target = arrow_schema(dataset.schema)
    if not pc.any(unfit).as_py():
        rows = table.select(target.names).cast(target)
        return Parsed(rows, table.column(_POSITION), table.column(_LINE), DEAD_LETTERS.empty_table())
    fit = table.filter(pc.invert(unfit))
    bad = table.filter(unfit).select([_POSITION, _LINE, _RAW]).sort_by([(_POSITION, "ascending"), (_LINE, "ascending")])
    rejected = _dead_letters(
        [one for one in bad.to_pylist() if one[_RAW].strip(b" \t\r")], dataset, feed_of, max_record_bytes, now_us
    )
    return Parsed(fit.select(target.names).cast(target), fit.column(_POSITION), fit.column(_LINE), rejected)


def _dead_letters(
    bad: Sequence[dict[str, Any]], dataset: Dataset, feed_of: dict[int, str], max_record_bytes: int, now_us: int
) -> pa.Table:
    rows = []
    for one in bad:
        position, line, raw = one[_POSITION], one[_LINE], one[_RAW]
        reason = reason_for_rejection(dataset.schema, raw, max_record_bytes)
        # The whole text, however large: it was acknowledged.
        text = raw.decode("utf-8", errors="backslashreplace")
        rows.append(dead_letter(position, line + 1, feed_of.get(position, ""), reason, text, now_us))
    return pa.Table.from_pylist(rows, schema=DEAD_LETTERS)
