"""Spark jobs that can be cancelled, and limits of time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession


@contextmanager
def job_group(spark: SparkSession, group: str, description: str) -> Iterator[None]:
    """What this thread asks of Spark inside the block can be cancelled by the group's name."""
    context = spark.sparkContext
    context.setJobGroup(group, description, interruptOnCancel=True)
    try:
        yield
    finally:
        # Otherwise the next request of this thread to Spark would be cancelled together with these.
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def cancel_jobs(spark: SparkSession, group: str) -> None:
    # Also the jobs that the query has yet to start; Python's own method ends only the running ones.
    spark.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(group)  # noqa: SLF001


@contextmanager
def time_limit(seconds: float, on_late: Callable[[], None]) -> Iterator[threading.Event]:
    """Call `on_late`, in a thread of its own, if the block takes longer than that. The event says whether it did."""
    is_late = threading.Event()

    def end_it() -> None:
        is_late.set()
        on_late()

    timer = threading.Timer(seconds, end_it)
    timer.daemon = True
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()
