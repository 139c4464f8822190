"""What strangers send is small, or refused before it is read; and it keeps nobody else out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tocsin.coordinator.server import make_app, serve
from tocsin.errors import InvalidValue
from tocsin.settings import CoordinatorSettings


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(CoordinatorSettings(data_dir=tmp_path, api_token="secret"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c") as client:
        yield client
    await app.state.node.stop()


_OPERATOR = {"Authorization": "Bearer secret"}


@pytest.mark.parametrize("path", ["/v1/tokens", "/v1/users", "/v1/placements", "/v1/brokers/a/heartbeats"])
@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "in pieces"])
async def test_strangers_bodies_are_small(http: httpx.AsyncClient, path: str, is_declared: bool) -> None:
    """By the length that is declared, and by what comes; whatever route, with a token that is wrong or with none."""
    read = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal read
        for _ in range(1000):
            read += 1
            yield b"[" * 1024

    for headers in ({}, {"Authorization": "Bearer wrong"}):
        content = b"[" * (1 << 20) if is_declared else pieces()
        answer = await http.post(path, content=content, headers={"Content-Type": "application/json", **headers})
        assert answer.status_code == 413
    assert read < 100, "what comes after the limit is not taken in"


async def test_operators_bodies_are_as_large_as_their_routes_need(http: httpx.AsyncClient) -> None:
    """Heartbeats may be large; nothing else is."""
    large = b'{"changed": [' + b" " * (2 << 20) + b"]}"
    answer = await http.post("/v1/brokers/a/heartbeats", content=large, headers=_OPERATOR)
    assert answer.status_code != 413
    assert (await http.post("/v1/users", content=large, headers=_OPERATOR)).status_code == 413


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "coordinator.example"])
def test_a_coordinator_that_others_reach_needs_a_token(host: str, tmp_path: Path) -> None:
    """Else everybody who reaches it is an operator. The error says what to set."""
    with pytest.raises(InvalidValue, match=r"set api_token, or listen on 127.0.0.1"):
        serve(CoordinatorSettings(data_dir=tmp_path, host=host))
    assert not list(tmp_path.iterdir())


async def test_failures_count_for_the_address_that_they_come_from(tmp_path: Path) -> None:
    """Whoever guesses somebody's password has to wait; the user, elsewhere, need not."""
    app = make_app(CoordinatorSettings(data_dir=tmp_path, open_registration=True))

    async def answer(address: str, path: str, password: str) -> int:
        transport = httpx.ASGITransport(app, client=(address, 4711))
        async with httpx.AsyncClient(transport=transport, base_url="http://c") as client:
            return (await client.post(path, json={"name": "ann", "password": password})).status_code

    assert await answer("198.51.100.7", "/v1/users", "correct horse") == 201
    assert [await answer("203.0.113.9", "/v1/tokens", "wrong") for _ in range(11)] == [401] * 10 + [429]
    assert await answer("198.51.100.7", "/v1/tokens", "correct horse") == 200
    await app.state.node.stop()
