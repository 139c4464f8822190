"""The Spark session: how it is started, and its settings. Nothing here knows about channels."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tocsin.runtime.java import archive_options, find_java
from tocsin.settings import ClusterSettings

_JAVA_OPTIONS = ("-Xss4m", "-XX:+UseParallelGC", "-XX:MetaspaceSize=128m")
#: docs/explanation/spark.md gives the reason and the measurements for each.
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Small batches: adaptive replanning and many shuffle partitions cost more than they save.
    "spark.sql.adaptive.enabled": "false",
    # A value that can't be cast or divided is NULL for that row; an error would stop the channel for everybody.
    "spark.sql.ansi.enabled": "false",
    "spark.scheduler.mode": "FAIR",
    # Short tasks: a run that starts while large tiers of subscriptions are merged gets a core soon.
    "spark.sql.files.maxPartitionBytes": str(16 << 20),
    # Each join, aggregate and sort takes whole pages, however few rows it has, and a join's stay until Java collects.
    "spark.buffer.pageSize": "4m",
    # How large a side of a join may be for Spark to copy it to every executor by its own decision: about 200,000
    # subscriptions. A run copies its window by a hint, whatever this says, unless the window has more rows than the
    # channel has subscriptions (`runs.py`); then this decides whether the subscriptions are copied.
    "spark.sql.autoBroadcastJoinThreshold": str(32 << 20),
    # Nothing in a query's text may reach variables or files, even if a check had a hole.
    "spark.sql.variable.substitute": "false",
    "spark.sql.runSQLOnFiles": "false",
    # The default manager forks processes for every micro-batch; this one halves the floor.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    # A flipped bit in a data file is an error, not another value.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # A driver that runs for months must not keep the history of every job it ran.
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "5",
    "spark.streaming.ui.retainedBatches": "5",
    "spark.cleaner.periodicGC.interval": "5min",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def start_spark(settings: ClusterSettings, scratch: Path) -> SparkSession:
    """The session that everything runs on. `scratch` takes Spark's own temporary files."""
    java = find_java()
    os.environ.update(java.environment)
    # Without it, Python workers may start under another interpreter and never connect back.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    archived = archive_options(java)
    cores = os.cpu_count() or 2
    builder = (
        SparkSession.builder.appName("tocsin")
        .master(settings.spark_master)
        .config("spark.driver.memory", settings.spark_driver_memory)
        # A run with more results than this fails instead of killing the driver, and is run in parts.
        .config("spark.driver.maxResultSize", str(run_max_bytes(settings)))
        .config("spark.driver.extraJavaOptions", " ".join([*_JAVA_OPTIONS, *archived, settings.spark_java_options]))
        .config("spark.local.dir", str(scratch / "spark"))
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.sql.shuffle.partitions", str(max(2, cores)))
        .config("spark.default.parallelism", str(max(2, cores)))
        .config("spark.sql.streaming.pollingDelay", f"{settings.polling_delay_ms}ms")
    )
    for name, value in _SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def run_max_bytes(settings: ClusterSettings) -> int:
    """The bytes of results that a run may hand over at once."""
    return settings.run_max_bytes or _bytes(settings.spark_driver_memory) // 6


def _bytes(size: str) -> int:
    """A size as Spark writes it: 4g, 512m."""
    units = {"k": 10, "m": 20, "g": 30, "t": 40}
    unit = size[-1].lower()
    return int(size[:-1]) << units[unit] if unit in units else int(size)
