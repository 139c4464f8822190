"""Publishing from asyncio: each call is stored once, however many attempts it takes."""

from __future__ import annotations

import asyncio
import random
import secrets
import ssl
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

import httpx
import msgspec

from tocsin.client.shell.http import ServerError, usual_trust
from tocsin.model.backoff import Backoff
from tocsin.protocol.paths import path_part
from tocsin.runtime.http_transport import AsyncTransport

#: As long as the cluster may take to commit, for calls that wait for it.
_TIMEOUT_S = 120.0
#: Tries for at least this long before it gives up: a cluster takes a quarter of a minute to start again.
_PATIENCE_S = 60.0

_encoder = msgspec.json.Encoder()


class AsyncPublisher:
    """Publishes to one feed.

    ::

        async with AsyncPublisher("http://127.0.0.1:8600", "reports") as reports:
            await reports.publish({"id": "r1", "etype": "flood", "x": 0, "y": 0})

    Every call carries an idempotency key, a new or a given one. So a call without an answer is sent again safely, and
    so is a call that the cluster pushed back. The cluster takes all records of a call or none.
    """

    def __init__(
        self,
        cluster: str,
        feed: str,
        *,
        token: str = "",
        patience_s: float = _PATIENCE_S,
        timeout_s: float = _TIMEOUT_S,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        headers = [(b"Authorization", f"Bearer {token}".encode())] if token else []
        transport = AsyncTransport(verify=tls or usual_trust())
        self._http = httpx.AsyncClient(base_url=cluster, headers=headers, timeout=timeout_s, transport=transport)
        self._path = f"/v1/feeds/{path_part(feed)}/records"
        self._patience_s = patience_s
        self._backoff = Backoff()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._http.aclose()

    async def publish(
        self, *records: Mapping[str, Any], key: str | None = None, wait_commit: bool = False
    ) -> dict[str, Any]:
        """Publish records together; returns the receipt once they are on disk, or in the table if `wait_commit`.

        `key` names this call across restarts of the program; without one, a new key is made up. Raises ServerError if
        the cluster refuses them, and httpx.TransportError or ServerError if it can't be reached in time.
        """
        return await self.publish_all(records, key=key, wait_commit=wait_commit)

    async def publish_all(
        self, records: Iterable[Mapping[str, Any]], *, key: str | None = None, wait_commit: bool = False
    ) -> dict[str, Any]:
        body = b"\n".join(map(_encoder.encode, records))
        headers = {"Content-Type": "application/x-ndjson", "Idempotency-Key": key or secrets.token_hex(16)}
        params = {"wait": "commit"} if wait_commit else {}
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + self._patience_s
        attempt = 0
        while True:
            try:
                return await self._send(body, headers, params)
            except ServerError as exc:
                pause_s = exc.retry_after_s
                if not exc.temporary or loop.time() + pause_s > give_up_s:
                    raise
            except httpx.TransportError:
                # It may have arrived or not: with the key, it is stored once either way.
                pause_s = self._backoff.delay_s(attempt, random.random)
                if loop.time() + pause_s > give_up_s:
                    raise
            attempt += 1
            await asyncio.sleep(pause_s)

    async def _send(self, body: bytes, headers: Mapping[str, str], params: Mapping[str, str]) -> dict[str, Any]:
        response = await self._http.post(self._path, content=body, headers=headers, params=params)
        if response.is_success:
            receipt: dict[str, Any] = response.json()
            return receipt
        raise ServerError.of(response)
