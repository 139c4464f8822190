"""The archive of Spark's classes, as `make setup` has made it."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from tocsin.runtime.java import archive_of, find_java


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what a process has mapped")
def test_spark_maps_the_archive(spark: SparkSession) -> None:
    """Java says nothing when it takes an archive and little when it does not: what it has mapped tells."""
    archive = archive_of(find_java())
    if not archive.is_file():
        pytest.skip("there is none: `tocsin prepare` makes it")
    assert spark.sparkContext.defaultParallelism
    children = psutil.Process().children(recursive=True)
    mapped = [Path(f"/proc/{child.pid}/maps").read_text() for child in children if "java" in child.name()]
    assert any(str(archive) in maps for maps in mapped)
