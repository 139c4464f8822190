"""The coordinator as a process: its HTTP API on uvicorn."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager

import structlog
import uvicorn
from fastapi import FastAPI

from tocsin.coordinator.api import (
    balancing,
    brokers,
    executions,
    keys,
    operations,
    plans,
    round_trips,
    subscribers,
    users,
)
from tocsin.coordinator.api.dependencies import max_body_bytes
from tocsin.coordinator.node import CoordinatorNode
from tocsin.runtime import exits
from tocsin.runtime.clock import Clock
from tocsin.runtime.connections import bounded_http
from tocsin.runtime.database_address import is_server, read_address
from tocsin.runtime.exposure import check_exposure
from tocsin.runtime.folders import blaming_full_disk
from tocsin.runtime.http import LimitBodies, new_api
from tocsin.runtime.leadership import Term
from tocsin.runtime.lease import FileLease, leading
from tocsin.runtime.ports import check_port
from tocsin.runtime.schema import open_engine
from tocsin.runtime.tls import check_tls
from tocsin.settings import CoordinatorSettings

log = structlog.get_logger(__name__)

_KEEP_ALIVE_S = 75
_FOLDER_TITLE = "the coordinator's data folder"
_LEASE = "coordinator"


#: An addition to the process: adds its routes to the app; its context is entered while the coordinator runs.
Mount = Callable[[FastAPI, CoordinatorNode], AbstractAsyncContextManager[None]]


def make_app(
    settings: CoordinatorSettings,
    *,
    clock: Clock | None = None,
    mounts: Sequence[Mount] = (),
    term: Term | None = None,
) -> FastAPI:
    """The HTTP API of a coordinator on `settings`. The coordinator runs from the app's start to its end."""
    node = CoordinatorNode(settings, clock, term)
    beside: list[AbstractAsyncContextManager[None]] = []

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        node.start()
        log.info("ready", port=settings.port, brokers=sum(node.broker_states().values()))
        try:
            async with AsyncExitStack() as stack:
                for one in beside:
                    await stack.enter_async_context(one)
                yield
        finally:
            await node.stop()

    app = new_api(
        "Tocsin coordinator",
        "Users and their tokens, brokers and their states, and which subscriber goes where.",
        lifespan,
    )
    app.state.node = node
    for module in (users, keys, subscribers, brokers, plans, executions, balancing, round_trips, operations):
        app.include_router(module.router)
    beside += [mount(app, node) for mount in mounts]
    app.add_middleware(LimitBodies, max_bytes=max_body_bytes(settings))
    return app


@contextmanager
def _leading(settings: CoordinatorSettings) -> Iterator[Term | None]:
    """Stands by while another coordinator leads. For SQLite the folder's lease is enough."""
    if not is_server(settings.database_url):
        yield None
        return
    # Whatever is wrong with the address is said at once, instead of standing by.
    open_engine(settings.database_url).dispose()
    from tocsin.runtime.postgresql_lease import PostgresqlLease

    lease = PostgresqlLease(read_address(settings.database_url), _LEASE)
    with _released_on_sigterm(), leading(lease, "the coordinator", _end_process) as number:
        yield Term(_LEASE, number)


class _Terminated(SystemExit):
    """SIGTERM has come, and uvicorn has done its part."""


@contextmanager
def _released_on_sigterm() -> Iterator[None]:
    """uvicorn ends the process by the signal that it was sent, so nothing after it would run, and the next leader would
    wait for the end of the lease. Here the signal first leaves the block, and then ends the process."""

    def leave(*_: object) -> None:
        raise _Terminated

    former = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    except _Terminated:
        signal.signal(signal.SIGTERM, former)
        signal.raise_signal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, former)


def _end_process() -> None:
    """Its state in memory is not the leader's any more. The next start stands by."""
    os._exit(exits.FAILED)


def serve(settings: CoordinatorSettings, mounts: Sequence[Mount] = ()) -> None:
    """Run a coordinator until it is told to stop."""
    check_tls(settings.tls_certificate, settings.tls_key)
    check_exposure(settings.host, settings.api_token, is_meant=settings.open_to_network)
    if settings.api_token and not settings.broker_token:
        log.warning("no broker can register here: set broker_token, here, at the cluster and at brokers")
    folder = FileLease(settings.data_dir, _FOLDER_TITLE)
    with leading(folder, "the coordinator", _end_process), _leading(settings) as term:
        check_port(settings.host, settings.port, "the coordinator")
        with blaming_full_disk(settings.data_dir, _FOLDER_TITLE):
            app = make_app(settings, mounts=mounts, term=term)
        uvicorn.run(
            app,
            host=settings.host,
            port=settings.port,
            http=bounded_http(),
            ssl_certfile=settings.tls_certificate or None,
            ssl_keyfile=settings.tls_key or None,
            log_config=None,
            access_log=False,
            # Longer than clients keep idle connections: otherwise a connection may be closed just as it is used again.
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=10,
        )
