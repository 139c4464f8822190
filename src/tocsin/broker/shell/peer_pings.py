"""Measures one peer a second over HTTP, and hands what was measured to the core. It decides nothing."""

from __future__ import annotations

import asyncio
import secrets

import httpx
import structlog

from tocsin.broker.core.peers import Peers
from tocsin.broker.shell.metrics import BrokerMetrics
from tocsin.errors import TocsinError
from tocsin.protocol import pings
from tocsin.runtime.http_transport import AsyncTransport
from tocsin.runtime.timed_requests import timed_get

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
#: A longer round trip counts as none.
_TIMEOUT_S = 5.0
#: Brokers close connections that have been idle for longer: one of those might be closing just now.
_KEPT_S = 2.0


class PeerPings:
    """One at a time, so that a ping never waits behind another one of ours."""

    def __init__(self, peers: Peers, token: str, metrics: BrokerMetrics, *, every_s: float = _EVERY_S) -> None:
        self._peers = peers
        self._token = token
        self._metrics = metrics
        self._every_s = every_s

    async def run(self) -> None:
        """Until cancelled."""
        limits = httpx.Limits(max_connections=1, keepalive_expiry=_KEPT_S)
        transport = AsyncTransport(trust_env=False, limits=limits)
        async with httpx.AsyncClient(timeout=_TIMEOUT_S, transport=transport, trust_env=False) as http:
            while True:
                await asyncio.sleep(self._every_s)
                if (chosen := self._peers.next()) is not None:
                    await self._measure(http, *chosen)

    async def _measure(self, http: httpx.AsyncClient, peer: str, url: str) -> None:
        """The first ping opens the connection, which takes some round trips more; the second one is measured."""
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                await self._ping(http, peer, url)
                answer, round_trip_ms = await self._ping(http, peer, url)
            self._peers.measured(peer, answer.coordinate, round_trip_ms)
        except (httpx.HTTPError, TimeoutError, TocsinError) as exc:
            self._metrics.pings.labels("failed").inc()
            self._peers.failed(peer)
            log.debug("a peer could not be measured", peer=peer, reason=str(exc) or type(exc).__name__)
        else:
            self._metrics.pings.labels("measured").inc()
            self._metrics.coordinate_error.set(self._peers.coordinate.error)

    async def _ping(self, http: httpx.AsyncClient, peer: str, url: str) -> tuple[pings.PingAnswer, float]:
        nonce = secrets.token_hex(16)
        headers = {"Authorization": pings.credentials(self._token, peer, nonce)}
        url += pings.PATH
        response, body, round_trip_ms = await timed_get(http, url, headers, pings.MAX_ANSWER_BYTES)
        answer = pings.read_answer(peer, body)
        pings.check_proof(self._token, peer, nonce, body, response.headers.get(pings.PROOF_HEADER, ""))
        return answer, round_trip_ms
