"""Publishing from asyncio: tried again under one key, so that it is stored once."""

from __future__ import annotations

import httpx
import pytest

from tocsin.client import AsyncPublisher, ServerError
from unit.client.answering import Answer, answering, refusal

pytestmark = pytest.mark.shell

DONE: Answer = (202, {"receipt": "r", "records": 1})
LATER = refusal(429, "overloaded", "come back", temporary=True, retry_after_s=0.01)


async def test_tries_again_under_the_same_key() -> None:
    """Pushed back, cut off, answered for by a proxy: the same request again, until it is taken."""
    answers = [LATER, (0, None), (502, b"<html>bad gateway</html>"), DONE]
    with answering(lambda _asked: answers.pop(0)) as server:
        async with AsyncPublisher(server.url, "reports", token="s") as reports:
            reports._backoff = type(reports._backoff)(first_s=0.001)
            assert await reports.publish({"id": "r1"}, {"id": "r2"}) == DONE[1]
            answers.append(DONE)
            await reports.publish({"id": "r3"}, wait_commit=True)
        *first, last = server.asked
        assert len(first) == 4
        assert {one.body for one in first} == {b'{"id":"r1"}\n{"id":"r2"}'}
        keys = {one.headers["idempotency-key"] for one in first}
        assert len(keys) == 1
        assert last.headers["idempotency-key"] not in keys
        assert last.path == "/v1/feeds/reports/records?wait=commit"
        assert last.headers["authorization"] == "Bearer s"


async def test_a_given_key_is_used() -> None:
    """A program may name its calls, to make them the same across its restarts."""
    with answering(lambda _asked: DONE) as server:
        async with AsyncPublisher(server.url, "reports") as reports:
            await reports.publish({"id": "r1"}, key="station-7/1")
        assert server.asked[0].headers["idempotency-key"] == "station-7/1"


async def test_what_is_refused_for_good_is_raised() -> None:
    """Once, without trying again."""
    with answering(lambda _asked: refusal(404, "not_found", "no feed called reports")) as server:
        async with AsyncPublisher(server.url, "reports") as reports:
            with pytest.raises(ServerError, match="no feed called reports") as refused:
                await reports.publish({"id": "r1"})
        assert (refused.value.code, refused.value.temporary) == ("not_found", False)
        assert len(server.asked) == 1


async def test_patience_ends() -> None:
    """A cluster that stays away is told as such."""
    async with AsyncPublisher("http://127.0.0.1:1", "reports", patience_s=0.1) as reports:
        with pytest.raises(httpx.TransportError):
            await reports.publish({"id": "r1"})
    with answering(lambda _asked: LATER) as server:
        async with AsyncPublisher(server.url, "reports", patience_s=0.05) as reports:
            with pytest.raises(ServerError, match="come back"):
                await reports.publish({"id": "r1"})
