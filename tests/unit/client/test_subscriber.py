"""The subscriber over real sockets: everything once and in order, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tocsin.client import Subscriber, Subscription
from tocsin.protocol import messages
from unit.client.scripted import Results, ScriptedBroker, scripted


@pytest.fixture
def results() -> Results:
    return Results()


@pytest.fixture
async def broker(results: Results) -> AsyncIterator[ScriptedBroker]:
    async with scripted(results) as broker:
        yield broker


async def take(subscription: Subscription, count: int) -> list[Any]:
    async with asyncio.timeout(10):
        return [(await anext(subscription)).payload["n"] for _ in range(count)]


def numbered(*numbers: int) -> list[dict[str, int]]:
    return [{"n": number} for number in numbers]


async def test_notifications_arrive(results: Results, broker: ScriptedBroker) -> None:
    """What is published comes out, with all that is known about it."""
    async with Subscriber(broker=broker.url, token="t", device="phone") as me:
        floods = await me.subscribe("C", etype="flood")
        results.publish(1, {"n": 1})
        async with asyncio.timeout(10):
            notification = await anext(floods)
        assert notification.payload == {"n": 1}
        assert (notification.channel, notification.parameters) == ("C", {"etype": "flood"})
        assert notification.position == floods.position == "1-101"
        assert notification.committed_at.isoformat() == "2025-06-15T15:06:40+00:00"
        assert (me.name, me.device, me.broker) == ("ann/phone", "phone", "b1")
        assert me.subscriptions == [floods]


async def test_resumes_after_every_loss(results: Results, broker: ScriptedBroker) -> None:
    """A connection that breaks between any two notifications costs nothing and doubles nothing."""
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        seen = []
        for round_number in range(5):
            results.publish(1, *numbered(2 * round_number, 2 * round_number + 1))
            seen += await take(subscription, 1)
            await broker.live.close(messages.CLOSE_SLOW)
            seen += await take(subscription, 1)
        assert seen == list(range(10))
        assert len(broker.hellos) > 4
        assert broker.hellos[-1].device == "~made-up"
