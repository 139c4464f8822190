"""Damage that comes while the cluster runs: Spark, too, verifies each page that it reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.spark_errors import SPARK_ERRORS


def test_spark_refuses_a_page_with_a_flipped_bit(spark: SparkSession, tmp_path: Path) -> None:
    """The value would otherwise be another one, and nobody would know."""
    table = Table(tmp_path / "t", pa.schema([("word", pa.string())]))
    table.append(pa.table({"word": ["fire", "flood"]}))
    path = Path(table.files()[0])
    assert {row.word for row in spark.read.parquet(str(path)).collect()} == {"fire", "flood"}
    content = bytearray(path.read_bytes())
    content[content.index(b"flood")] ^= 1
    path.write_bytes(content)
    spark.catalog.clearCache()
    with pytest.raises(SPARK_ERRORS, match=r"(?i)crc|checksum"):
        spark.read.schema("word STRING").parquet(str(path)).collect()
