"""Pages of other origins follow by Server-Sent Events: as a browser does it, and only where they are allowed to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import uvicorn
from playwright.async_api import Page, async_playwright

from e2e.browser import find_browser
from tocsin.broker.shell.server import make_app
from tocsin.runtime.ports import free_port
from tocsin.settings import BrokerSettings
from unit.broker.nodes import Broker

pytestmark = pytest.mark.shell

#: What a page does that follows a channel: token and position are headers that browsers ask about first.
_FOLLOW = """
async ([url, token]) => {
  const headers = { Authorization: `Bearer ${token}`, 'Last-Event-ID': '1-100' }
  let answer
  try {
    answer = await fetch(`${url}/v1/events?subscribe=C`, { headers })
  } catch (error) {
    return String(error)
  }
  if (!answer.ok) return `${answer.status} ${(await answer.json()).error.code}`
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  while (!text.includes('event: subscribed')) text += (await reader.read()).value
  await reader.cancel()
  return text
}
"""


@dataclass(frozen=True)
class Served:
    url: str
    broker: Broker


@asynccontextmanager
async def _served(folder: Path, *origins: str) -> AsyncIterator[Served]:
    """A broker whose cluster is played. Tokens are users' names, but for a bad one."""
    port = free_port()
    settings = BrokerSettings(data_dir=folder, port=port, allowed_origins=origins)
    broker = Broker(folder)
    app = make_app(settings, broker.node, broker.metrics, lambda _code: None)
    config = uvicorn.Config(app, port=port, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    try:
        yield Served(f"http://127.0.0.1:{port}", broker)
    finally:
        await server.shutdown()


@asynccontextmanager
async def _page() -> AsyncIterator[tuple[Page, str]]:
    """An empty page in a browser, and its origin."""
    browser_path = find_browser()
    if browser_path is None:
        pytest.skip("no browser is installed")

    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = b"<title>elsewhere</title>"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\nConnection: close\r\n\r\n"
        writer.write(head % len(text) + text)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with async_playwright() as playwright, server:
        browser = await playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = await browser.new_page()
        await page.goto(origin)
        yield page, origin
        await browser.close()


async def test_a_page_of_an_allowed_origin_follows(tmp_path: Path) -> None:
    """The browser asks first, is answered, and sends token and position; refusals can be read, too."""
    async with _page() as (page, origin), _served(tmp_path, origin) as served:
        text = await page.evaluate(_FOLLOW, [served.url, "ann"])
        assert "event: subscribed" in text
        assert await page.evaluate(_FOLLOW, [served.url, ""]) == "401 unauthorised"


async def test_a_page_of_another_origin_does_not(tmp_path: Path) -> None:
    """The browser is not told that it may, and sends no token at all."""
    async with _page() as (page, _), _served(tmp_path, "https://alerts.example") as served:
        assert "Failed to fetch" in await page.evaluate(_FOLLOW, [served.url, "ann"])
        assert served.broker.state.connections == 0


async def _asked(url: str, path: str, origin: str) -> httpx.Response:
    """As a browser asks before the request itself."""
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "GET",
        "Access-Control-Request-Headers": "authorization,last-event-id",
    }
    async with httpx.AsyncClient(base_url=url) as client:
        return await client.options(path, headers=headers)


async def test_browsers_are_answered_for_events_alone(tmp_path: Path) -> None:
    """Exact origins, no credentials, and no other route."""
    async with _served(tmp_path, "https://alerts.example", "*") as served:
        answer = await _asked(served.url, "/v1/events", "https://alerts.example")
        assert answer.status_code == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "https://alerts.example"
        allowed = answer.headers["Access-Control-Allow-Headers"].lower()
        assert "authorization" in allowed
        assert "last-event-id" in allowed
        assert "Access-Control-Allow-Credentials" not in answer.headers
        for origin in ("https://evil.example", "https://alerts.example.evil.example", "null"):
            refused = await _asked(served.url, "/v1/events", origin)
            assert refused.status_code == 400
            assert "Access-Control-Allow-Origin" not in refused.headers
        for path in ("/v1/status", "/metrics", "/"):
            other = await _asked(served.url, path, "https://alerts.example")
            assert other.status_code == 405
            assert "Access-Control-Allow-Origin" not in other.headers
