"""A request whose round trip is measured."""

from __future__ import annotations

import time
from collections.abc import Mapping

import httpx


async def timed_get(
    http: httpx.AsyncClient, url: str, headers: Mapping[str, str], max_bytes: int
) -> tuple[httpx.Response, bytes, float]:
    """The answer's head, the first `max_bytes` of its body and a little more, and the milliseconds that it took.

    Raises httpx.HTTPError if there is no answer, and for any answer that is no success; a redirect is none. Addresses
    come from others: whatever one makes the libraries raise is that error too.
    """
    try:
        # The time is taken before anything is written, and after everything is read.
        begun_s = time.perf_counter()
        async with http.stream("GET", url, headers=headers) as response:
            body = b""
            async for part in response.aiter_raw():
                body += part
                if len(body) > max_bytes:
                    break
        round_trip_ms = (time.perf_counter() - begun_s) * 1000
    except httpx.HTTPError:
        raise
    except Exception as exc:
        raise httpx.ConnectError(f"{url!r} can't be asked: {exc!r}") from exc
    response.raise_for_status()
    return response, body, round_trip_ms
