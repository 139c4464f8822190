"""LOAD DATASET: a file becomes rows of a dataset, all of it or nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from tocsin.cluster.channels.statements import FileFormat
from tocsin.cluster.datasets.arrow import arrow_schema, ddl
from tocsin.cluster.datasets.records import reason_for_rejection
from tocsin.errors import InvalidValue, TooLarge
from tocsin.model.catalogue import Dataset

_CORRUPT = "_corrupt"
#: A loaded file passes through the driver's memory.
MAX_FILE_BYTES = 1 << 30


def resolve_import(path: str, folders: tuple[Path, ...]) -> Path:
    """The file or folder that `path` names, if it lies below one of `folders`; relative paths start at the first."""
    allowed = [folder.resolve() for folder in folders]
    for folder in allowed:
        target = (folder / path).resolve()
        if target.exists() and any(target.is_relative_to(root) for root in allowed):
            return target
    places = ", ".join(map(str, allowed))
    raise InvalidValue(f"no file {path!r} below the folders that may be read from: {places}")


def read_file(spark: SparkSession, dataset: Dataset, path: Path, file_format: FileFormat) -> pa.Table:
    """The file's rows, checked against the dataset's schema; the first bad one is named and refuses the whole."""
    if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
        raise TooLarge(f"{path.name} has {path.stat().st_size} bytes; LOAD takes at most {MAX_FILE_BYTES}")
    try:
        match file_format:
            case FileFormat.CSV:
                frame = _csv(spark, dataset, path)
            case FileFormat.NDJSON:
                frame = _ndjson(spark, dataset, path)
            case FileFormat.PARQUET:
                frame = _parquet(spark, dataset, path)
        table = frame.toArrow()
    except PySparkException as exc:
        raise InvalidValue(f"{path.name}: {(exc.getMessage() or str(exc)).strip().splitlines()[0]}") from exc
    _refuse_bad(dataset, path, table)
    target = arrow_schema(dataset.schema)
    return table.select(target.names).cast(target)


def _csv(spark: SparkSession, dataset: Dataset, path: Path) -> DataFrame:
    with path.open(encoding="utf-8-sig") as lines:
        header = [name.strip().strip('"') for name in lines.readline().split(",")]
    known = {name.lower(): dataset.schema.find(name) for name in header}
    if missing := [name for name in dataset.schema.required if name.lower() not in known]:
        raise InvalidValue(f"{path.name}: no column {missing[0]}; its first line names {', '.join(header)}")
    columns = ", ".join(
        f"`{name}` {column.type if (column := known[name.lower()]) else 'STRING'}" for name in header
    )
    options = {"header": "true", "mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "enforceSchema": "true"}
    frame = spark.read.options(**options).schema(f"{columns}, `{_CORRUPT}` STRING").csv(str(path))
    return _with_all_columns(frame, dataset)


def _ndjson(spark: SparkSession, dataset: Dataset, path: Path) -> DataFrame:
    schema = f"{ddl(dataset.schema)}, `{_CORRUPT}` STRING"
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    lines = spark.read.text(str(path)).where(F.trim(F.col("value"), F.lit(" \t\r")) != "")
    parsed = lines.select("value", F.from_json("value", schema, options).alias("r"))
    bad = F.when(F.col("r").isNull(), F.col("value")).otherwise(F.col("r").getField(_CORRUPT))
    return parsed.select(*(F.col("r").getField(name).alias(name) for name in dataset.schema.names), bad.alias(_CORRUPT))


def _parquet(spark: SparkSession, dataset: Dataset, path: Path) -> DataFrame:
    return _with_all_columns(spark.read.parquet(str(path)).withColumn(_CORRUPT, F.lit(None).cast("string")), dataset)


def _with_all_columns(frame: DataFrame, dataset: Dataset) -> DataFrame:
    present = {name.lower() for name in frame.columns}
    columns = [
        (F.col(f"`{column.name}`") if column.name.lower() in present else F.lit(None)).cast(column.type).alias(column.name)
        for column in dataset.schema
    ]
    return frame.select(*columns, _CORRUPT)


def _refuse_bad(dataset: Dataset, path: Path, table: pa.Table) -> None:
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
    for name in dataset.schema.required:
        if table.column(name).null_count:
            at = table.column(name).is_null().index(True).as_py()
            raise InvalidValue(f"{path.name}: {name} is missing in row {at + 1}; nothing was loaded")


def _line_of(path: Path, raw: str) -> int:
    with path.open(encoding="utf-8", errors="replace") as lines:
        return next((number for number, line in enumerate(lines, 1) if line.rstrip("\r\n") == raw), 0)
