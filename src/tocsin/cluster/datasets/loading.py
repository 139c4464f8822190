"""LOAD DATASET: a file becomes rows of a dataset, all of it or nothing."""

from __future__ import annotations

import csv
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it
from pyspark.sql import types as T  # noqa: N812 - everyone's name for it

from tocsin.cluster.channels.compiler.statements import FileFormat
from tocsin.cluster.datasets.arrow import arrow_schema, ddl
from tocsin.cluster.datasets.core.records import reason_for_rejection
from tocsin.cluster.datasets.core.time_columns import from_text, is_outside, is_time, text_ddl
from tocsin.cluster.spark_errors import SPARK_ERRORS, reason_of
from tocsin.errors import InvalidValue, TooLarge
from tocsin.model.catalogue import Dataset
from tocsin.model.schema import Column as TableColumn
from tocsin.model.schema import ColumnType
from tocsin.model.times import DATE_WORDS, FIRST_YEAR, LAST_YEAR, TIME_WORDS

_CORRUPT, _MISFIT = "_corrupt", "_misfit"
_YEARS = f"in the years {FIRST_YEAR} to {LAST_YEAR}"
_EXPECTED = {ColumnType.TIMESTAMP: f"{TIME_WORDS}, {_YEARS}", ColumnType.DATE: f"{DATE_WORDS}, {_YEARS}"}
#: A loaded file is read into the driver's memory.
MAX_FILE_BYTES = 1 << 30


def resolve_import(path: str, folders: tuple[Path, ...]) -> Path:
    """The file or folder that `path` names, if it lies below one of `folders`; relative paths start at the first."""
    allowed = [folder.resolve() for folder in folders]
    for folder in allowed:
        try:
            target = (folder / path).resolve()
            if target.exists() and any(target.is_relative_to(root) for root in allowed):
                return target
        except (OSError, ValueError):  # A name that no file can have.
            continue
    listed = ", ".join(map(str, allowed))
    raise InvalidValue(f"no file {path!r} below the folders that may be read from: {listed}")


def read_file(spark: SparkSession, dataset: Dataset, path: Path, file_format: FileFormat) -> pa.Table:
    """The file's rows, checked against the dataset's schema. One bad row refuses the whole file; the first is named."""
    if not path.is_file():
        raise InvalidValue(f"{path.name} is no file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise TooLarge(f"{path.name} has {path.stat().st_size} bytes; LOAD takes at most {MAX_FILE_BYTES}")
    try:
        match file_format:
            case FileFormat.CSV:
                frame = _csv(spark, dataset, path)
            case FileFormat.NDJSON:
                frame = _ndjson(spark, dataset, path)
            case FileFormat.PARQUET:
                frame = _parquet(spark, dataset, path)
            case _ as never:
                assert_never(never)
        table = frame.toArrow()
    except SPARK_ERRORS as exc:
        raise InvalidValue(f"{path.name}: {reason_of(exc)}") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"{path.name} can't be read: {exc}") from exc
    _refuse_bad(dataset, path, file_format, table)
    target = arrow_schema(dataset.schema)
    return table.select(target.names).cast(target)


def _csv(spark: SparkSession, dataset: Dataset, path: Path) -> DataFrame:
    """Read as text and cast here, which tells a value that can't be cast from an empty field."""
    with path.open(encoding="utf-8-sig", newline="") as lines:
        header = [name.strip() for name in next(csv.reader(lines), [])]
    known = {name.lower() for name in header}
    if missing := [name for name in dataset.schema.required if name.lower() not in known]:
        raise InvalidValue(f"{path.name}: no column {missing[0]}; its first line names {', '.join(header)}")
    if len(known) != len(header):
        raise InvalidValue(f"{path.name}: its first line names a column twice: {', '.join(header)}")
    schema = T.StructType([T.StructField(name, T.StringType()) for name in [*header, _CORRUPT]])
    options = {"header": "true", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "enforceSchema": "true"}
    frame = spark.read.options(**options).schema(schema).csv(str(path))
    return _cast(frame, dataset, trim=True)


def _ndjson(spark: SparkSession, dataset: Dataset, path: Path) -> DataFrame:
    schema = f"{text_ddl(dataset.schema)}, `{_CORRUPT}` STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    lines = spark.read.text(str(path)).where(F.trim(F.col("value"), F.lit(" \t\r")) != "")
    parsed = lines.select("value", F.from_json("value", schema, options).alias("r"))
    bad = F.when(F.col("r").isNull(), F.col("value")).otherwise(F.col("r").getField(_CORRUPT))
    values = (F.col("r").getField(name).alias(name) for name in dataset.schema.names)
    return _cast(parsed.select(*values, bad.alias(_CORRUPT)), dataset, trim=False)


def _parquet(spark: SparkSession, dataset: Dataset, path: Path) -> DataFrame:
    frame = spark.read.parquet(str(path)).withColumn(_CORRUPT, F.lit(None).cast("string"))
    return _cast(frame, dataset, trim=False)


def _cast(frame: DataFrame, dataset: Dataset, *, trim: bool) -> DataFrame:
    """The dataset's columns from the frame's, NULL for missing ones, and a reason where a value does not fit."""
    present = {name.lower(): F.col(f"`{name.replace('`', '``')}`") for name in frame.columns}
    columns, reasons = [], []
    for column in dataset.schema:
        given = present.get(column.name.lower())
        if given is None:
            columns.append(F.lit(None).cast(column.type).alias(column.name))
            continue
        value = given.cast("string")
        if is_time(column.type):
            fitting, is_bad = _time(frame, column, trim=trim)
        else:
            fitting = (F.trim(value) if trim and column.type is not ColumnType.STRING else given).cast(column.type)
            is_bad = fitting.isNull()
        columns.append(fitting.alias(column.name))
        words = F.concat(F.lit(f"{column.name}: expected {_EXPECTED.get(column.type, column.type)}, got "), value)
        reasons.append(F.when(given.isNotNull() & is_bad, words))
    reason = F.coalesce(*reasons) if reasons else F.lit(None).cast("string")
    return frame.select(*columns, F.col(_CORRUPT), reason.alias(_MISFIT))


def _time(frame: DataFrame, column: TableColumn, *, trim: bool) -> tuple[Column, Column]:
    """A time or a date, from a text or as the file has it, and whether it is not allowed."""
    field = next(one for one in frame.schema.fields if one.name.lower() == column.name.lower())
    name = f"`{field.name.replace('`', '``')}`"
    if isinstance(field.dataType, T.StringType):
        value = from_text(f"trim({name})" if trim else name, column.type)
    else:
        value = f"CAST({name} AS {column.type})"
    return F.expr(value), F.expr(is_outside(f"({value})", column.type))


def _refuse_bad(dataset: Dataset, path: Path, file_format: FileFormat, table: pa.Table) -> None:
    corrupt = table.column(_CORRUPT).drop_null()
    if len(corrupt):
        raw = corrupt[0].as_py()
        line = _line_of(path, raw)
        reason = (
            reason_for_rejection(dataset.schema, raw.encode(), MAX_FILE_BYTES)
            if raw.lstrip().startswith("{")
            else f"does not fit the columns {ddl(dataset.schema)}"
        )
        raise InvalidValue(f"{path.name}, line {line}: {reason}: {raw[:200]}; nothing was loaded")
    for at, reason in _misfits(dataset, table):
        where = f"row {at + 1}" if file_format is FileFormat.PARQUET else f"line {_line_of_row(path, file_format, at)}"
        raise InvalidValue(f"{path.name}, {where}: {reason}; nothing was loaded")


def _misfits(dataset: Dataset, table: pa.Table) -> Iterator[tuple[int, str]]:
    """Row, from 0, and reason of the first misfit of each kind."""
    if (at := pc.index(pc.is_valid(table.column(_MISFIT)), True).as_py()) >= 0:
        yield at, table.column(_MISFIT)[at].as_py()
    for column in dataset.schema:
        values = table.column(column.name)
        if not column.nullable and (at := pc.index(pc.is_null(values), True).as_py()) >= 0:
            yield at, f"{column.name}: missing; every record needs it"
        if column.type is ColumnType.DOUBLE and (at := pc.index(pc.is_finite(values), False).as_py()) >= 0:
            yield at, f"{column.name}: expected a finite number, got {values[at].as_py()}"


def _line_of_row(path: Path, file_format: FileFormat, row: int) -> int:
    """Blank lines are no rows, and the first line of a CSV file is its header."""
    skip = 1 if file_format is FileFormat.CSV else 0
    with path.open(encoding="utf-8", errors="replace") as lines:
        filled = (number for number, line in enumerate(lines, 1) if line.strip(" \t\r\n"))
        return next(itertools.islice(filled, row + skip, None), 0)


def _line_of(path: Path, raw: str) -> int:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return next((number for number, line in enumerate(lines, 1) if line.rstrip("\r\n") == raw), 0)
