"""A measured request: how long it took, and one kind of error for whatever goes wrong."""

from __future__ import annotations

import httpx
import pytest

from tocsin.runtime.timed_requests import timed_get
from worlds.ping_server import ping_server

pytestmark = pytest.mark.shell

_SHOWN = {"Authorization": "Bearer t"}


async def test_the_time_is_that_of_the_whole_answer() -> None:
    async with ping_server("north", takes_s=0.05) as north, httpx.AsyncClient() as http:
        response, body, round_trip_ms = await timed_get(http, north.url, _SHOWN, 1000)
        assert (response.status_code, round_trip_ms >= 50) == (200, True)
        assert body.startswith(b'{"broker":"north"')


async def test_a_long_body_is_not_read_to_its_end() -> None:
    async with ping_server("north", body=b"x" * 10_000_000) as north, httpx.AsyncClient() as http:
        _, body, _ = await timed_get(http, north.url, _SHOWN, 1000)
        assert 1000 < len(body) < 1_000_000


@pytest.mark.parametrize("status", ["302 Found", "401 Unauthorized", "503 Service Unavailable", "nonsense"])
async def test_what_is_no_success_is_an_error(status: str) -> None:
    async with ping_server("north", status=status) as north, httpx.AsyncClient() as http:
        with pytest.raises(httpx.HTTPError):
            await timed_get(http, north.url, _SHOWN, 1000)


@pytest.mark.parametrize(
    "url",
    ["", "north", "http://[", "http://127.0.0.1:1", "http://127.0.0.1:99999", "http://\x00", "http://" + "a" * 300],
)
async def test_an_address_that_is_none_is_the_same_error(url: str) -> None:
    async with httpx.AsyncClient() as http:
        with pytest.raises(httpx.HTTPError):
            await timed_get(http, url, _SHOWN, 1000)
