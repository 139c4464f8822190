"""What the suite relies on to be quick."""

from __future__ import annotations

import psutil
from pyspark.sql import SparkSession


def test_spark_of_tests_runs_with_the_quick_compiler(spark: SparkSession) -> None:
    """Variables tell Spark's launcher so, and servers that tests start inherit them: a launcher that no longer reads
    them would say nothing, and the suite would take minutes longer."""
    assert spark.sparkContext.defaultParallelism
    commands = [one.cmdline() for one in psutil.Process().children(recursive=True) if "java" in one.name()]
    assert commands
    assert all("-XX:TieredStopAtLevel=1" in command for command in commands)
