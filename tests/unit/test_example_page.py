"""The example page: one file that needs nothing from elsewhere, and a client of the protocol like any other."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tocsin.errors import StatementError
from tocsin.protocol import messages
from tocsin.protocol.calls import parse_call
from unit.client.scripted import Results, scripted

pytestmark = pytest.mark.shell

PAGE = files("tocsin.broker").joinpath("page.html").read_text()
HARNESS = Path(__file__).with_name("page_in_node.js")
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node.js")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    found = re.search(r"<script>(.*?)</script>", PAGE, re.DOTALL)
    assert found is not None
    file = tmp_path / "page.js"
    file.write_text(found[1])
    return file


def test_a_strict_policy_is_possible() -> None:
    """One script and one style that can be hashed; no handlers or styles in attributes; nothing from elsewhere."""
    assert len(re.findall(r"<script", PAGE)) == len(re.findall(r"<script>", PAGE)) == 1
    assert len(re.findall(r"<style", PAGE)) == len(re.findall(r"<style>", PAGE)) == 1
    assert not re.search(r"<[^>]*\s(on\w+|style)\s*=", PAGE)
    assert not re.search(r"(src|href)=\"(?!data:)", PAGE)
    assert "innerHTML" not in PAGE
    assert "http://" not in PAGE
    assert "https://" not in PAGE


@needs_node
def test_reads_calls_as_everybody_does(script: Path) -> None:
    """What is typed means the same in the page as on the command line."""
    calls = [
        "C",
        "C()",
        "C(a => 'it''s', b => \"x\"\"y\\n\", c => -1.5e2, d => TRUE)",
        " C ( a=>1 ) ",
        "C(a => ",
        "C(a => 'x)",
        "C(a => flood)",
        "C(a => 1, a => 2)",
        "C(a => 1) D",
        "C WHERE n >= 2 AND t = 'it''s WHERE'",
        "C(where => 1) where n<>'x' ",
        "C() WHERE",
        "",
    ]
    ran = subprocess.run([str(NODE), str(HARNESS), str(script), "parse", "", *calls], capture_output=True, check=True)
    assert [_known(read) for read in json.loads(ran.stdout)] == [_expected(call) for call in calls]


def _known(read: dict[str, Any]) -> Any:
    return read["error"].split(":")[0].removeprefix("column ") if "error" in read else tuple(read.values())


def _expected(call: str) -> Any:
    """What `parse_call` reads, or the column it points at."""
    try:
        return parse_call(call)
    except StatementError as error:
        return str(error.column)


@asynccontextmanager
async def opened(script: Path, origin: str, *calls: str) -> AsyncIterator[asyncio.StreamReader]:
    """The page in Node; gives what it shows, line by line."""
    command = [str(NODE), "--experimental-websocket", "--no-warnings", str(HARNESS), str(script), origin, "t", *calls]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        await process.wait()


async def shown(lines: asyncio.StreamReader, **wanted: Any) -> dict[str, Any]:
    """The next thing on the page that looks like this."""
    async with asyncio.timeout(20):
        while line := await lines.readline():
            one: dict[str, Any] = json.loads(line)
            if all(one.get(name) == value for name, value in wanted.items()):
                return one
    raise AssertionError("the page ended")


@needs_node
async def test_follows_through_losses_and_moves(script: Path) -> None:
    """Notifications are shown once each, whatever happens to the connection."""
    results = Results()
    async with (
        scripted(results) as broker,
        scripted(results, "b2") as other,
        opened(script, broker.url, "C(n => 1)") as page,
    ):
        await broker.until(lambda: any(isinstance(one, messages.Subscribe) for one in broker.said))
        results.publish(1, {"n": 1})
        assert '{ "n": 1 }' in (await shown(page, shown="notification"))["text"]
        await broker.live.close(messages.CLOSE_SLOW, "too slow")
        results.publish(1, {"n": 2})
        assert '{ "n": 2 }' in (await shown(page, shown="notification"))["text"]
        await broker.send(messages.Move(other.url, "b2"))
        await other.until(lambda: bool(other.hellos))
        results.publish(1, {"n": 3})
        assert '{ "n": 3 }' in (await shown(page, shown="notification"))["text"]
        async with asyncio.timeout(10):
            await broker.live.wait_closed()
        await other.send(messages.HistoryGone(1, "1-500", "past retention"))
        assert "past retention" in (await shown(page, shown="gap"))["text"]
        await other.until(lambda: bool(other.acks))
        await other.live.close(messages.CLOSE_REPLACED, "connected again elsewhere")
        assert "connected again" in (await shown(page, part="errors", **{"class": ""}))["text"]


@needs_node
async def test_shows_what_is_refused(script: Path) -> None:
    """Errors are shown as such."""
    async with scripted(Results()) as broker:
        broker.objection = lambda message: messages.Error("not_found", "no channel C", request=message.request)
        async with opened(script, broker.url, "C") as page:
            assert (await shown(page, text="not_found: no channel C"))["part"] == "errors"
