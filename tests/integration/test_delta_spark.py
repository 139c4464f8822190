"""The tables are Delta tables: the real delta-spark reads them, whatever has been done to them.

Its newest release is built for Spark 4.2, so it runs in a process of its own, on a PySpark of its own. Both are fetched
once, with mvn and pip, into a cache folder; where that can't be done the test is skipped.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from quick_java import QUICK_JAVA
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.store import StoredDataset
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.store import ResultStore
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema
from tocsin.runtime.java import find_java

_JARS = ("io.delta:delta-spark_4.2_2.13:4.4.0", "io.delta:delta-storage:4.4.0")
_PYSPARK = "4.2.0"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tocsin" / "delta-spark-4.4.0"

_READ = """
import json, sys
from pyspark.sql import SparkSession
jars, *tables = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]").config("spark.jars", jars).config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC").config("spark.driver.memory", "1g")
    .config("spark.sql.shuffle.partitions", "1").config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate()
)
for table in tables:
    frame = spark.read.format("delta").load(table)
    times = {name for name, kind in frame.dtypes if kind == "timestamp"}
    frame = frame.selectExpr(*(f"unix_micros({name}) AS {name}" if name in times else name for name in frame.columns))
    print("ROWS " + json.dumps([json.loads(row) for row in frame.toJSON().collect()]))
spark.stop()
"""


def _fetch(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as exc:
        pytest.skip(f"delta-spark can't be had here: {' '.join(command)[:200]}: {getattr(exc, 'stderr', exc)!s:.500}")


@pytest.fixture(scope="module")
def delta_spark() -> tuple[Path, str]:
    """A folder with PySpark in it, and the jars as Spark wants them listed."""
    if shutil.which("mvn") is None and not _CACHE.exists():
        pytest.skip("delta-spark can't be had here: there is no mvn to fetch its jar with")
    if not (_CACHE / "complete").exists():
        for artifact in _JARS:
            _fetch("mvn", "-q", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={_CACHE}")
        pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile")
        _fetch(*pip, "--target", str(_CACHE / "pyspark"), f"pyspark=={_PYSPARK}")
        (_CACHE / "complete").touch()
    jars = [_CACHE / f"{artifact.split(':')[1]}-{artifact.split(':')[2]}.jar" for artifact in _JARS]
    return _CACHE / "pyspark", ",".join(map(str, jars))


def _dataset(kind: DatasetKind) -> Dataset:
    columns = (
        Column("id", ColumnType.INT, nullable=False),
        Column("name", ColumnType.STRING),
        Column("at", ColumnType.TIMESTAMP),
    )
    return Dataset("D", kind, Schema(columns, ("id",)))


def _rows(numbers: range, word: str, **more: Any) -> pa.Table:
    at = pa.array([1_700_000_000_000_000 + number for number in numbers], pa.timestamp("us", tz="UTC"))
    return pa.table(
        {"id": pa.array(list(numbers), pa.int32()), "name": [f"{word} é {n}" for n in numbers], "at": at, **more}
    )


def _written(folder: Path) -> list[StoredDataset | ResultStore]:
    """One table of each sort, each after all that can happen to it."""
    active = StoredDataset(_dataset(DatasetKind.ACTIVE), folder / "active", recent_max_bytes=0)
    for start in range(0, 80, 2):  # Past a checkpoint.
        active.commit(_rows(range(start, start + 2), "first"), {"landing": start})
    active.compact()
    active.retain(10, 0)
    active.add_column(Column("level", ColumnType.INT))
    active.commit(_rows(range(80, 82), "second", level=pa.array([1, None], pa.int32())))
    active.rows.tidy()
    keyed = StoredDataset(_dataset(DatasetKind.KEYED), folder / "keyed", recent_max_bytes=0)
    for turn in range(40):
        keyed.commit(_rows(range(10), f"turn {turn}"))
    keyed.compact()
    keyed.commit(_rows(range(5, 6), "last"))
    reference = StoredDataset(_dataset(DatasetKind.REFERENCE), folder / "reference", recent_max_bytes=0)
    reference.replace(_rows(range(5), "old"))
    reference.replace(_rows(range(3), "new"))
    database = open_catalogue(folder / "catalogue.sqlite")
    results = ResultStore(folder / "results", Removals(database), Numbering(database, 0), recent_max_bytes=0)
    for number in range(40):
        output = pa.table({"subscription": [number, number + 1], "payload": ["{}", '{"a": "é"}']})
        results.commit([("C", output)], {("C", "D"): number + 1}, 1_700_000_000_000_000 + number)
    results.retain(1_700_000_000_000_010, 1 << 40)
    return [active, keyed, reference, results]


def test_delta_spark_reads_our_tables(delta_spark: tuple[Path, str], tmp_path: Path) -> None:
    """After compaction, deletion, a new column, overwriting and clean-up, delta-spark finds the very rows we find."""
    python, jars = delta_spark
    tables = [one.table if isinstance(one, ResultStore) else one.rows for one in _written(tmp_path)]
    environment = {**os.environ, **find_java().environment, "PYTHONPATH": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    environment.pop("SPARK_HOME", None)
    # For half a minute and 1 GB: no collector with threads of its own, and none that begins for each 20 MB of classes.
    environment["SPARK_SUBMIT_OPTS"] = f"{QUICK_JAVA['SPARK_SUBMIT_OPTS']} -XX:+UseSerialGC -XX:MetaspaceSize=256m"
    command = (sys.executable, "-c", _READ, jars, *(str(table.path) for table in tables))
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line.removeprefix("ROWS ")) for line in done.stdout.splitlines() if line.startswith("ROWS ")]
    assert len(found) == len(tables)
    for table, rows in zip(tables, found, strict=True):
        assert rows
        assert _comparable(rows) == _comparable(map(_plain, table.read().to_pylist())), table.path.name


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as Spark's JSON has it: no NULLs, and times in microseconds."""
    moments = {name: round(value.timestamp() * 1e6) for name, value in row.items() if isinstance(value, datetime)}
    return {name: value for name, value in (row | moments).items() if value is not None}


def _comparable(rows: Iterable[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    return sorted((sorted(row.items()) for row in rows), key=repr)
