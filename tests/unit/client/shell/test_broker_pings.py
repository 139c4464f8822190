"""A subscriber pings brokers over HTTP, before and after it has connected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from tocsin.client import NotConnected, Subscriber
from tocsin.client.shell.broker_pings import BrokerPings
from tocsin.coordinates.located import Located
from unit.client.answering import Asked, answering
from worlds.ping_server import PingServer, ping_server

pytestmark = pytest.mark.shell


@asynccontextmanager
async def _brokers(*names: str) -> AsyncIterator[list[PingServer]]:
    """The first knows the others."""
    async with AsyncExitStack() as stack:
        brokers = [
            await stack.enter_async_context(ping_server(name, 20.0 * number)) for number, name in enumerate(names)
        ]
        brokers[0].peers = {one.name: one.url for one in brokers[1:]}
        yield brokers


async def test_it_tells_where_it_is_and_shows_its_token_to_each_broker() -> None:
    told: asyncio.Queue[Located] = asyncio.Queue()
    async with _brokers("b0", "b1", "b2") as brokers:
        pings = BrokerPings(lambda: "token", told.put_nowait)
        task = asyncio.create_task(pings.run())
        try:
            await pings.look_around("b0", brokers[0].url)
            located = told.get_nowait()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert located.round_trips_ms.keys() == {"b0", "b1", "b2"}
        assert {shown for one in brokers for _, shown in one.asked} == {"Bearer token"}


async def test_a_broker_that_does_not_answer_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.client.shell.broker_pings._LOOK_AROUND_S", 0.2)
    told: asyncio.Queue[Located] = asyncio.Queue()
    async with _brokers("b0", "b1") as brokers:
        brokers[0].takes_s = 30.0
        pings = BrokerPings(lambda: "token", told.put_nowait)
        task = asyncio.create_task(pings.run())
        async with asyncio.timeout(10):
            await pings.look_around("b0", brokers[0].url)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert told.empty()


async def test_who_comes_for_the_first_time_is_placed_again_once_it_knows_where_it_is() -> None:
    """The second time with its coordinate; only then it connects."""
    asked: list[dict[str, Any]] = []
    async with _brokers("b0", "b1") as brokers:

        def place(request: Asked) -> tuple[int, Any]:
            asked.append(request.json)
            return 200, {"broker": "b0", "url": brokers[0].url}

        with answering(place) as coordinator:
            subscriber = Subscriber(coordinator=coordinator.url, token="t", measures=True, connect_timeout_s=4)
            with pytest.raises(NotConnected):  # These brokers answer pings and nothing else.
                async with subscriber:
                    pass
    assert "located" not in asked[0]
    assert asked[1]["located"]["round_trips_ms"].keys() == {"b0", "b1"}


async def test_without_the_option_nothing_is_measured() -> None:
    """By default: most networks have no use for it."""
    async with _brokers("b0") as brokers:
        placed = 200, {"broker": "b0", "url": brokers[0].url}
        with answering(lambda _: placed) as coordinator, pytest.raises(NotConnected):
            async with Subscriber(coordinator=coordinator.url, token="t", connect_timeout_s=1):
                pass
        assert not any("/v1/coordinate" in line for line, _ in brokers[0].asked)
