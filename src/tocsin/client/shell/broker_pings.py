"""Pings brokers for a subscriber, and tells what follows. `client.core.measuring` decides."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import ssl
from collections.abc import Callable

import httpx

from tocsin.client.core.measuring import Measuring, Ping
from tocsin.client.shell.http import usual_trust
from tocsin.coordinates.located import Located
from tocsin.errors import TocsinError
from tocsin.protocol import pings
from tocsin.runtime.http_transport import AsyncTransport
from tocsin.runtime.timed_requests import timed_get

log = logging.getLogger(__name__)

_TIMEOUT_S = 5.0
#: A program that wants to subscribe waits for no longer.
_LOOK_AROUND_S = 3.0
#: Brokers close connections that have been idle for longer: one of those might be closing just now.
_KEPT_S = 2.0


class BrokerPings:
    """One ping at a time, over HTTP: behind notifications on the link it would wait."""

    def __init__(
        self, token: Callable[[], str], tell: Callable[[Located], None], tls: ssl.SSLContext | None = None
    ) -> None:
        self._token = token
        self._tell = tell
        self._tls = tls
        self._measuring = Measuring(random.Random())
        self._woken = asyncio.Event()
        #: Nothing is to be measured just now.
        self._idle = asyncio.Event()

    def connected(self, broker: str, url: str) -> None:
        self._measuring.connected(broker, url)
        self._idle.clear()
        self._woken.set()

    async def look_around(self, broker: str, url: str) -> None:
        """Before the first connection: measure a broker that may be any, and others that it names. Returns when that is
        done, or has taken too long."""
        self.connected(broker, url)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), _LOOK_AROUND_S)

    async def run(self) -> None:
        """Until cancelled."""
        now_s = asyncio.get_running_loop().time
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEPT_S)
        transport = AsyncTransport(verify=self._tls or usual_trust(), limits=limits)
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, transport=transport, trust_env=False) as http:
            while True:
                self._woken.clear()
                if (ping := self._measuring.next(now_s())) is not None:
                    if (located := await self._measure(http, ping, now_s)) is not None:
                        self._tell(located)
                    continue
                self._idle.set()
                with contextlib.suppress(TimeoutError):
                    due_s = self._measuring.due_s
                    await asyncio.wait_for(self._woken.wait(), None if due_s > 1e12 else max(0.0, due_s - now_s()))

    async def _measure(self, http: httpx.AsyncClient, ping: Ping, now_s: Callable[[], float]) -> Located | None:
        """The first ping opens the connection, which takes some round trips more; the second one is measured."""
        url = f"{ping.url}{pings.PATH}" + ("?peers=true" if ping.wants_peers else "")
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                for _ in range(2):
                    _, body, round_trip_ms = await timed_get(http, url, headers, pings.MAX_ANSWER_BYTES)
            answer = pings.read_answer(ping.broker, body)
            return self._measuring.answered(ping, answer, round_trip_ms, now_s())
        except (httpx.HTTPError, TimeoutError, TocsinError) as exc:
            log.debug("%s could not be measured: %s", ping.broker, str(exc) or type(exc).__name__)
            return self._measuring.failed(ping, now_s())
