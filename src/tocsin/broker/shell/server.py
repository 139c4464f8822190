"""The broker as a process: one port for WebSockets, Server-Sent Events and the HTTP API."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import structlog
import uvicorn
from fastapi import FastAPI

from tocsin.broker import api
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.broker.core.strangers import Strangers
from tocsin.broker.shell.cluster_link import ClusterLink
from tocsin.broker.shell.coordination import Coordination
from tocsin.broker.shell.coordinator_link import CoordinatorLink
from tocsin.broker.shell.cross_origin import CrossOriginEvents
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.broker.shell.node import BrokerNode
from tocsin.broker.shell.requests import RequestProtocol
from tocsin.broker.shell.server_links import ENDING
from tocsin.broker.shell.store import SessionStore
from tocsin.broker.shell.websocket import SubscriberSocket
from tocsin.errors import InvalidValue
from tocsin.protocol.coordination import BrokerRegistration
from tocsin.protocol.subscribers import is_name
from tocsin.runtime import exits
from tocsin.runtime.clock import SystemClock
from tocsin.runtime.files import raise_open_files
from tocsin.runtime.folders import blaming_full_disk, locked_folder
from tocsin.runtime.http import LimitBodies, new_api
from tocsin.runtime.ports import check_port
from tocsin.runtime.tls import check_tls
from tocsin.settings import BrokerSettings

log = structlog.get_logger(__name__)

_MAX_BODY_BYTES = 64 << 10
_FOLDER_TITLE = "the broker's data folder"


def make_node(settings: BrokerSettings) -> tuple[BrokerNode, BrokerMetrics]:
    """Put the parts of a broker together."""
    if not is_name(settings.name):
        raise InvalidValue(f"name: {settings.name!r}; allowed are 1 to 64 letters, digits and any of _ . @ ~ -")
    clock = SystemClock()
    store = SessionStore(settings.data_dir)
    metrics = BrokerMetrics()
    names = Limits.__dataclass_fields__
    state = BrokerState(
        settings.name,
        Limits(**{name: getattr(settings, name) for name in names}),
        random.Random(secrets.randbits(64)),
        cache_policy=settings.cache_policy,
        cache_max_bytes=settings.cache_max_bytes,
        cache_ttl_s=settings.cache_ttl_s,
        drain_timeout_s=settings.drain_timeout_s,
        publishes_locations=bool(settings.locations_feed),
    )
    metrics.watch(state)
    start = secrets.token_hex(16)
    registration = BrokerRegistration(
        url=address_of(settings),
        location=_location(settings.location),
        capacity=settings.capacity,
        identity=store.identity(),
        start=start,
    )
    link = CoordinatorLink(settings.name, settings.coordinator_url, settings.broker_token, store.identity())
    coordination = Coordination(link, store, registration, clock, metrics)
    coordination.connections = lambda: state.connections
    cluster = ClusterLink(settings.name, settings.cluster_url, settings.broker_token, store.identity(), start)
    return BrokerNode(settings, state, store, cluster, coordination, clock, metrics), metrics


def make_app(
    settings: BrokerSettings, node: BrokerNode, metrics: BrokerMetrics, on_failure: Callable[[int], None]
) -> FastAPI:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        running = asyncio.create_task(node.run())
        running.add_done_callback(lambda task: _ended(task, on_failure))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await node.stop()

    app = new_api(
        "Tocsin broker", "Subscribers connect here: by WebSocket at /v1/connect, or by Server-Sent Events.", lifespan
    )
    app.state.node = node
    app.state.settings = settings
    app.state.metrics = metrics
    app.state.origins = allowed_origins(settings)
    app.include_router(api.router)
    app.add_middleware(LimitBodies, max_bytes=_MAX_BODY_BYTES)
    # It is the outermost layer: a page of another origin may read refusals, too.
    app.add_middleware(CrossOriginEvents, origins=(address_of(settings), *settings.allowed_origins))
    return app


def allowed_origins(settings: BrokerSettings) -> Callable[[str, str], bool]:
    """Whether a page from `origin` may connect to us at `host`: exact matches only. Programs send no origin at all."""
    allowed = frozenset(settings.allowed_origins)
    own = address_of(settings)
    scheme = own.partition("://")[0]

    def may(origin: str, host: str) -> bool:
        return not origin or origin in allowed or origin in (own, f"{scheme}://{host}")

    return may


def address_of(settings: BrokerSettings) -> str:
    """Where subscribers reach this broker."""
    if settings.url:
        return settings.url.rstrip("/")
    scheme = "https" if settings.tls_certificate else "http"
    return f"{scheme}://{settings.host}:{settings.port}"


class _Server(uvicorn.Server):
    """uvicorn, except that a signal starts draining first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def serve(settings: BrokerSettings) -> None:
    """Run a broker until it is told to stop; then move everybody away, and end."""
    raise_open_files()
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    with locked_folder(settings.data_dir, _FOLDER_TITLE):
        check_port(settings.host, settings.port, "the broker")
        asyncio.run(_serve(settings))


async def _serve(settings: BrokerSettings) -> None:
    check_tls(settings.tls_certificate, settings.tls_key)
    with blaming_full_disk(settings.data_dir, _FOLDER_TITLE):
        node, metrics = make_node(settings)
    exit_code = 0

    def fail(code: int = exits.FAILED) -> None:
        nonlocal exit_code
        exit_code = code
        server.should_exit = True

    app = make_app(settings, node, metrics, fail)
    strangers = Strangers(most=settings.max_strangers, most_per_address=settings.max_strangers_per_address)

    def socket(**_: Any) -> SubscriberSocket:
        return SubscriberSocket(
            node.next_connection(),
            node,
            strangers=strangers,
            origins=app.state.origins,
            max_message_bytes=settings.max_message_bytes,
            max_queued_bytes=settings.max_queued_bytes,
            rate_per_s=settings.max_messages_per_s,
            burst=settings.max_message_burst,
        )

    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        http=cast(Any, partial(RequestProtocol, strangers, settings.hello_timeout_s)),
        ws=cast(Any, socket),
        ssl_certfile=settings.tls_certificate or None,
        ssl_keyfile=settings.tls_key or None,
        ssl_version=ssl.PROTOCOL_TLS_SERVER,
        timeout_graceful_shutdown=2,
        backlog=4096,
    )
    server = _Server(config)

    async def end() -> None:
        log.info("draining", connections=node.state.connections)
        await node.drain()
        server.should_exit = True

    loop = asyncio.get_running_loop()
    ending: list[asyncio.Task[None]] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        # After the second signal, the operator does not want to wait.
        loop.add_signal_handler(number, lambda: fail() if ending else ending.append(asyncio.ensure_future(end())))
    await server.serve()
    if exit_code and not ending:
        raise SystemExit(exit_code)


def _ended(task: asyncio.Task[None], on_failure: Callable[[int], None]) -> None:
    if task.cancelled() or (exc := task.exception()) is None:
        return
    if isinstance(exc, ENDING):
        log.error("this broker ends, and keeps its subscriptions at the cluster", reason=str(exc))
        on_failure(exits.NAME_LOST)
    else:
        log.error("the broker can't go on; start it again", exc_info=exc)
        on_failure(exits.FAILED)


def _location(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError as exc:
        raise InvalidValue(f"location: {text!r}; expected metres as x,y such as 1200,-340.5") from exc
    return (x, y)
