"""Telling brokers that there are results.

A notification is small: it says up to which cursor there is something to pull. One is under way per broker at any
time; what is committed meanwhile is told with the next one. A broker that does not answer is tried again, less and
less often, until it does: nothing is lost, since results wait in the table. Brokers that asked for it get small
results inside the notification.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.compute as pc
import structlog

from tocsin.cluster.metrics import Metrics
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.errors import NotFound
from tocsin.model.catalogue import Broker
from tocsin.settings import ClusterSettings

log = structlog.get_logger(__name__)

#: Finding out who holds a million results costs more than telling everyone to look.
_MAX_LOOKED_UP = 50_000
_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _Pending:
    """What a broker has not been told yet."""

    cursor: int = 0
    results: int = 0
    channels: set[str] = field(default_factory=set)
    #: Rows to send along; None once they are too many or belong to more than was looked at.
    rows: list[dict[str, Any]] | None = field(default_factory=list)
    push_bytes: int = 0


class Notifier:
    """Runs on the server's event loop; `committed` may be called from any thread."""

    def __init__(
        self,
        registry: SubscriptionRegistry,
        settings: ClusterSettings,
        metrics: Metrics,
        loop: asyncio.AbstractEventLoop,
        describe: Callable[[pa.Table], list[dict[str, Any]]],
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._metrics = metrics
        self._loop = loop
        self._describe = describe
        self._pending: dict[str, _Pending] = {}
        self._senders: dict[str, asyncio.Task[None]] = {}
        self._wake: dict[str, asyncio.Event] = {}
        self._waiting: set[asyncio.Future[None]] = set()
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S)

    def committed(self, rows: pa.Table, cursor: int) -> None:
        """Results were committed; tells those concerned. Called by whoever commits, in its thread."""
        concerned = self._concerned(rows)
        self._loop.call_soon_threadsafe(self._note, concerned, cursor)

    def announce(self, cursor: int) -> None:
        """Tell every broker to look: after a start, nobody knows what was committed but not told."""
        everyone = {broker.name: (broker, None) for broker in self._registry.brokers() if broker.callback_url}
        self._loop.call_soon_threadsafe(self._note, everyone, cursor)

    @contextmanager
    def next_commit(self) -> Iterator[asyncio.Future[None]]:
        """A future that is done when something is committed from now on. Nothing of it is left behind at the end."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiting.add(future)
        try:
            yield future
        finally:
            self._waiting.discard(future)
            future.cancel()

    async def close(self) -> None:
        for task in self._senders.values():
            task.cancel()
        await asyncio.gather(*self._senders.values(), return_exceptions=True)
        await self._client.aclose()

    def forget(self, broker: str) -> None:
        if (task := self._senders.pop(broker, None)) is not None:
            task.cancel()
        self._pending.pop(broker, None)
        self._wake.pop(broker, None)
        self._metrics.forget_broker(broker)

    def _concerned(self, rows: pa.Table) -> dict[str, tuple[Broker, pa.Table | None]]:
        brokers = {broker.name: broker for broker in self._registry.brokers() if broker.callback_url}
        if not brokers:
            return {}
        ids = pc.unique(rows.column("subscription"))
        if len(ids) > _MAX_LOOKED_UP:
            return {name: (broker, None) for name, broker in brokers.items()}
        concerned: dict[str, tuple[Broker, pa.Table | None]] = {}
        for name, held in self._registry.holders(ids.to_pylist()).items():
            if name in brokers:
                mine = pc.is_in(rows.column("subscription"), value_set=pa.array(held, pa.int64()))
                concerned[name] = (brokers[name], rows.filter(mine))
        return concerned

    def _note(self, concerned: dict[str, tuple[Broker, pa.Table | None]], cursor: int) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)
        for name, (broker, rows) in concerned.items():
            pending = self._pending.setdefault(name, _Pending())
            pending.cursor = max(pending.cursor, cursor)
            if rows is None:
                pending.rows = None
            else:
                pending.results += rows.num_rows
                pending.channels.update(pc.unique(rows.column("channel")).to_pylist())
                self._keep_for_push(pending, broker, rows)
            self._wake.setdefault(name, asyncio.Event()).set()
            if name not in self._senders or self._senders[name].done():
                self._senders[name] = self._loop.create_task(self._send_to(name))

    def _keep_for_push(self, pending: _Pending, broker: Broker, rows: pa.Table) -> None:
        if pending.rows is None:
            return
        pending.push_bytes += rows.nbytes
        if pending.push_bytes > broker.push_limit_bytes:
            pending.rows = None
        else:
            pending.rows.extend(self._describe(rows))

    async def _send_to(self, name: str) -> None:
        pause_s = self._settings.notify_retry_first_s
        while True:
            await self._wake[name].wait()
            self._wake[name].clear()
            pending = self._pending.pop(name, None)
            if pending is None:
                continue
            while (broker := await asyncio.to_thread(self._find, name)) and not await self._deliver(broker, pending):
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._settings.notify_retry_last_s)
                if (newer := self._pending.pop(name, None)) is not None:
                    pending = _merged(pending, newer)
            pause_s = self._settings.notify_retry_first_s

    def _find(self, name: str) -> Broker | None:
        """The broker as it is registered now: it may have moved, or want no notifications any more."""
        try:
            broker = self._registry.broker(name)
        except NotFound:
            return None
        return broker if broker.callback_url else None

    async def _deliver(self, broker: Broker, pending: _Pending) -> bool:
        body: dict[str, Any] = {
            "broker": broker.name,
            "cursor": pending.cursor,
            "results": pending.results,
            "channels": sorted(pending.channels),
        }
        if pending.rows and pending.push_bytes <= broker.push_limit_bytes:
            body["pushed"] = pending.rows
        try:
            response = await self._client.post(broker.callback_url, json=body)
            answered = response.is_success
            reason = f"status {response.status_code}"
        except (httpx.HTTPError, httpx.InvalidURL) as exc:
            answered, reason = False, str(exc) or type(exc).__name__
        self._metrics.notification(broker.name, "delivered" if answered else "failed")
        if not answered:
            log.warning("broker not reached; trying again", broker=broker.name, reason=reason)
        return answered


def _merged(older: _Pending, newer: _Pending) -> _Pending:
    rows = None if older.rows is None or newer.rows is None else older.rows + newer.rows
    return _Pending(
        max(older.cursor, newer.cursor),
        older.results + newer.results,
        older.channels | newer.channels,
        rows,
        older.push_bytes + newer.push_bytes,
    )
