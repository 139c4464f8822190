"""What is said of a record without Spark is what ingestion says of it."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from tocsin.cluster.datasets.core.verdict import RecordReader, Values, Verdict
from tocsin.cluster.feeds.parsing import parse_frames
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema
from unit.model.test_times import REFUSED, TAKEN

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_MAX_RECORD_BYTES = 60_000
_COLUMNS = (
    Column("id", ColumnType.STRING, nullable=False),
    Column("note", ColumnType.STRING),
    Column("ok", ColumnType.BOOLEAN),
    Column("level", ColumnType.INT),
    Column("count", ColumnType.BIGINT),
    Column("x", ColumnType.DOUBLE),
    Column("at", ColumnType.TIMESTAMP),
    Column("day", ColumnType.DATE),
)
_DATASET = Dataset("Readings", DatasetKind.ACTIVE, Schema(_COLUMNS, ("id",)))

#: Each is the text of a JSON value, or of something that nearly is one.
_VALUES = [
    *("null", "true", "false", "tru", "True", "nan", "NaN", "Infinity", "-Infinity", "undefined", "", " "),
    *("0", "-0", "1", "-1", "01", "+1", "1.", ".5", "-", "1.0", "1e2", "1E+2", "1e", "0.1", "-0.0", "1.10", "1e5"),
    *("2147483647", "2147483648", "-2147483648", "-2147483649", "9223372036854775807", "9223372036854775808"),
    *("-9223372036854775808", "-9223372036854775809", "9007199254740993", "123456789012345678", "1234567890123456789"),
    *("123456789012345678901234567890", "1e308", "1.7976931348623157e308", "1.8e308", "1e400", "-1e400", "1e-400"),
    *("4.9e-324", "2.2250738585072011e-308", "0x10", "1_000", "1" + "0" * 308, "1" + "0" * 400, "1" + "0" * 999),
    *("1" + "0" * 1001, "0." + "0" * 998 + "1", "0." + "0" * 1200 + "1"),
    *('""', '"a"', '"NaN"', '"Infinity"', '"1"', '"true"', '"null"', "'a'", '"é"', '"\N{GRINNING FACE}"', '"a b"'),
    *('"\\u0041"', '"\\ud83d\\ude00"', '"\\ud800"', '"\\udc00"', '"\\ud800x"', '"\\uDBFF\\uDFFF"', '"\\u0000"'),
    *('"\\x"', '"\\/"', '"\\n"', '"\\"', '"a\tb"', '"a\x01b"', '"\x7f"', '"\\u12"', '"\u2028"', '"\ufffe"', '"\ufeff"'),
    *("[]", "{}", "[1, 2]", '{"a" : 1}', '[{"id": "b"}]', "[", "{", "[1,]", '{"a":1,}', "[" * 20 + "]" * 20),
    *("[" * 500 + "]" * 500, "[" * 998 + "]" * 998, "[" * 1100 + "]" * 1100, '{"a":' * 300 + "1" + "}" * 300),
    *(f'"{"k" * length}"' for length in (3_000, 39_999, 50_001)),
    *(json.dumps(value) for value in (*TAKEN, *REFUSED)),
    *('"2026-01-02"', '"2026-02-29"', '"2024-02-29"', '"2026-1-2"', '"2200-12-31"', '"2201-01-01"', '"1899-12-31"'),
    *('"2026-01-02\\n"', '"2026-01-02T03:04:05Z\\r\\n"', '"\\n2026-01-02"', '"2026-01-02T03:04:05\\u0085"'),
    *('"２０２６-01-02"', '"2026-01-02T03:04:05+19:00"', '"2026-01-02T24:00:00Z"', '"2026-01-02t03:04:05z"'),
]
_NAMES = [*_DATASET.schema.names, "other", "ID", "Note", "", "_corrupt", "_raw", "i\\u0064", "a.b", "c0", "k" * 300]
_WHOLE = [
    *("{}", "[]", "null", "5", '"a"', '[{"id": "a"}]', '[{"id": "a"}, {"id": "b"}]', '{"id": "a"}{"id": "b"}', "{"),
    *('{"id": "a"} ', '\t{"id": "a"}\r', '\ufeff{"id": "a"}', '{"id": "a"}\x00', '\x0b{"id": "a"}', "}", "{]", '{"id"'),
    *("{'id': 'a'}", '{id: "a"}', '{"id": "a"} // more', '{"id": "a",}', '{,"id": "a"}', '{"id" "a"}', '{"id": "a"]'),
    '{"id": "a", "note": "' + "x" * _MAX_RECORD_BYTES + '"}',
    '{"' + "k" * 50_001 + '": 1, "id": "a"}',
    '{"' + "k" * 49_000 + '": 1, "id": "a"}',
]
#: Most records are good, and what is rare in the others occurs beside each kind of value.
_GOOD = {
    ColumnType.STRING: ['"a"', '"é\\n"', "5", "true", '"\\ud83d\\ude00"'],
    ColumnType.BOOLEAN: ["true", "false"],
    ColumnType.INT: ["0", "-7", "2147483647"],
    ColumnType.BIGINT: ["0", "-9223372036854775808"],
    ColumnType.DOUBLE: ["0.25", "-1e300", "3", "1e-7"],
    ColumnType.TIMESTAMP: [json.dumps(text) for text in TAKEN],
    ColumnType.DATE: ['"2026-01-02"'],
}


def _lines(count: int) -> Iterator[str]:
    chance = random.Random(11)
    yield from _WHOLE
    for column in _COLUMNS:
        for value in _VALUES:
            yield f'{{"id": "a", "{column.name}": {value}}}'
    for name in _NAMES:
        yield f'{{"{name}": "a", "id": "b"}}'
        yield f'{{"id": "b", "{name}": {chance.choice(_VALUES)}}}'
    for _ in range(count):
        yield _drawn(chance)


def _drawn(chance: random.Random) -> str:
    columns = [column for column in _COLUMNS if column.name == "id" or chance.random() < 0.5]
    pairs = [(column.name, chance.choice(["null", *_GOOD[column.type]])) for column in columns]
    while chance.random() < 0.4:  # Unknown names, names twice, values that don't fit.
        pairs.append((chance.choice(_NAMES), chance.choice(_VALUES)))
    chance.shuffle(pairs)
    line = "{" + ",".join(f'{_space(chance)}"{name}"{_space(chance)}:{value}' for name, value in pairs) + "}"
    if chance.random() < 0.2:  # A typing error.
        at = chance.randrange(len(line))
        line = line[:at] + chance.choice(["", '"', "\\", "}", ",", "0", "\x02", line[at] * 2]) + line[at + 1 :]
    return line


def _space(chance: random.Random) -> str:
    return chance.choice(["", "", "", " ", "\t"])


def test_a_record_is_accepted_here_if_ingestion_accepts_it_and_with_the_same_values(spark: SparkSession) -> None:
    """For every value in every column, and for records at random: the verdict is Spark's, or there is none."""
    lines = [line for line in _lines(3_000) if line.strip(" \t\r") and "\n" not in line]
    spark_says = _verdicts_of_spark(spark, lines)
    read = RecordReader(_DATASET.schema, _MAX_RECORD_BYTES)
    said: Counter[Verdict | str] = Counter()
    for line, expected in zip(lines, spark_says, strict=True):
        verdict = read(line.encode())
        said[verdict if isinstance(verdict, Verdict) else "accepted"] += 1
        if verdict is not Verdict.UNDECIDED:
            assert _shown(verdict) == _shown(expected), line[:300]
    assert said["accepted"] > 1_000, said
    assert said[Verdict.REJECTED] > 500, said
    # Most of them are numbers with a fraction in a string's column, and what is beyond limits.
    assert said[Verdict.UNDECIDED] < 350, said


def _verdicts_of_spark(spark: SparkSession, lines: list[str]) -> list[Values | Verdict]:
    frames = spark.createDataFrame(
        [(0, "Readings", "\n".join(lines).encode())], "position BIGINT, dataset STRING, body BINARY"
    )
    table = parse_frames(frames, _DATASET, _MAX_RECORD_BYTES, ordered=True)
    assert table.column("_line").to_pylist() == list(range(len(lines)))
    unfit = table.column("_raw").is_valid()
    # What stands in a row that does not fit may be no time at all.
    rows = iter(table.filter(pc.invert(unfit)).select(list(_DATASET.schema.names)).to_pylist())
    return [Verdict.REJECTED if is_unfit else tuple(next(rows).values()) for is_unfit in unfit.to_pylist()]


def _shown(verdict: Values | Verdict) -> Any:
    """Tells -0.0 and 0.0, 1 and 1.0, and True and 1 apart."""
    return verdict if isinstance(verdict, Verdict) else [(type(one).__name__, repr(_in_utc(one))) for one in verdict]


def _in_utc(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value
