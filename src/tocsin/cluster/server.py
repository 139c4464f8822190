"""The cluster as a process: its HTTP API on uvicorn, with Spark behind it."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import structlog
import uvicorn
from fastapi import FastAPI
from pyspark.sql import SparkSession

from tocsin.cluster.api import brokers, catalogue, dead_letters, feeds, statements
from tocsin.cluster.api.access import Access, CheckAccess
from tocsin.cluster.api.dependencies import MAX_BODY_BYTES, Receiving
from tocsin.cluster.cluster import Cluster, ClusterState
from tocsin.cluster.spark_jobs import time_limit
from tocsin.cluster.warmup import warm_up
from tocsin.errors import InvalidValue
from tocsin.runtime import exits
from tocsin.runtime.connections import bounded_http
from tocsin.runtime.exposure import check_exposure
from tocsin.runtime.folders import blaming_full_disk
from tocsin.runtime.http import LimitBodies, NameRun, new_api
from tocsin.runtime.ports import check_port
from tocsin.settings import ClusterSettings

log = structlog.get_logger(__name__)

_WATCH_EVERY_S = 1.0
_KEEP_ALIVE_S = 75
_FOLDER_TITLE = "the cluster's data folder"
#: An orderly stop takes a second or two. A longer one waits for a stuck run, and a kill loses nothing.
_STOP_WITHIN_S = 15.0


def end_process(reason: str) -> None:
    """End the process: half a cluster that still answers helps nobody, and the next start is the recovery."""
    log.error("the cluster can't go on", reason=reason)
    os._exit(exits.FAILED)


def end_late() -> None:
    """A stop was requested, and everything acknowledged is durable: the next start finds unfinished work."""
    log.warning("work under way did not end in time; ending without it")
    os._exit(0)


def make_app(
    cluster: Cluster,
    *,
    spark: SparkSession | None = None,
    on_failure: Callable[[str], None] = end_process,
    on_late: Callable[[], None] = lambda: None,
    stop_within_s: float = _STOP_WITHIN_S,
) -> FastAPI:
    """The HTTP API of a cluster. When the app starts, a thread of its own brings Spark up (or uses the given session,
    and leaves it running); records are accepted from the first moment. Calls `on_failure` with the reason if the
    cluster can't go on, and `on_late` if it has not stopped within its time."""

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        starting = threading.Thread(target=_start, args=(cluster, spark), name="start")
        starting.start()
        watching = asyncio.create_task(_watch(cluster, on_failure))
        try:
            yield
        finally:
            watching.cancel()
            with time_limit(stop_within_s, on_late):
                await asyncio.to_thread(starting.join)
                await asyncio.to_thread(cluster.stop)

    app = new_api(
        "Tocsin data cluster",
        "Datasets, feeds, channels and results. People subscribe to queries, not topics.",
        lifespan,
    )
    app.state.cluster = cluster
    app.state.receiving = Receiving()
    for module in (statements, catalogue, feeds, dead_letters, brokers):
        app.include_router(module.router)
    app.add_middleware(LimitBodies, max_bytes=MAX_BODY_BYTES, except_path=feeds.RECORDS_PATH)
    app.add_middleware(NameRun, header=brokers.RUN_HEADER, version=lambda: cluster.catalogue.columns_version)
    app.add_middleware(CheckAccess, access=Access.of(cluster.settings, cluster.grants))
    return app


def _start(cluster: Cluster, spark: SparkSession | None) -> None:
    begin_s = cluster.clock.monotonic_s()
    try:
        with blaming_full_disk(cluster.settings.data_dir, _FOLDER_TITLE):
            cluster.start(spark)
    except Exception as exc:
        cluster.state = ClusterState.FAILED
        cluster.failure = f"{type(exc).__name__}: {exc}"
        log.error("the cluster could not start", exc_info=exc)
        return
    log.info("ready", seconds=round(cluster.clock.monotonic_s() - begin_s, 1), port=cluster.settings.port)
    if spark is None and cluster.settings.warm_up_max_s > 0:
        threading.Thread(target=warm_up, args=(cluster,), name="warm-up", daemon=True).start()


async def _watch(cluster: Cluster, on_failure: Callable[[str], None]) -> None:
    while True:
        await asyncio.sleep(_WATCH_EVERY_S)
        found = await asyncio.to_thread(cluster.check_alive)
        if failure := cluster.failure or found:
            on_failure(failure)
            return


def serve(settings: ClusterSettings) -> None:
    """Run a cluster until it is stopped."""
    check_exposure(settings.host, settings.api_token, is_meant=settings.open_to_network)
    Access.of(settings)
    if settings.api_token and not settings.broker_token:
        log.warning("no broker can register here: set broker_token, here, at the coordinator and at brokers")
    check_port(settings.host, settings.port, "the cluster")
    try:
        with blaming_full_disk(settings.data_dir, _FOLDER_TITLE):
            cluster = Cluster(settings)
    except OSError as exc:
        raise InvalidValue(f"{_FOLDER_TITLE} {settings.data_dir} can't be used: {exc}") from exc
    uvicorn.run(
        make_app(cluster, on_late=end_late),
        host=settings.host,
        port=settings.port,
        http=bounded_http(),
        log_config=None,
        access_log=False,
        # Longer than clients keep idle connections: otherwise one may be closed just as it is used again.
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=10,
    )
