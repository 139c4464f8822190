"""The subscriber over real sockets: everything once and in order, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tocsin.client import ConnectionEnded, NotConnected, Replaced, Subscriber, Subscription, TokenRefused
from tocsin.errors import AlreadyExists, HistoryGone, InvalidValue, NotFound, StatementError
from tocsin.protocol import messages
from unit.client.scripted import WRONG_FILTER, Results, ScriptedBroker, scripted

pytestmark = pytest.mark.shell


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


async def test_a_broken_connection_is_resumed(results: Results, broker: ScriptedBroker) -> None:
    """The same without a goodbye."""
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1))
        assert await take(subscription, 1) == [1]
        broker.live.transport.abort()
        results.publish(1, *numbered(2))
        assert await take(subscription, 1) == [2]


async def test_follows_a_move(results: Results, broker: ScriptedBroker) -> None:
    """A move overlaps: what comes before, during and after it arrives once and in order."""
    async with scripted(results, "b2") as other, Subscriber(broker=broker.url, token="t", device="phone") as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1, 2))
        assert await take(subscription, 1) == [1]
        await broker.send(messages.Move(other.url, "b2", token="t2"))
        results.publish(1, *numbered(3))
        await other.until(lambda: bool(other.hellos))
        results.publish(1, *numbered(4))
        assert await take(subscription, 3) == [2, 3, 4]
        async with asyncio.timeout(10):
            await broker.live.wait_closed()
        assert other.hellos[0].token == "t2"
        assert other.hellos[0].subscriptions[0].position
        assert me.broker == "b2"
        results.publish(1, *numbered(5))
        assert await take(subscription, 1) == [5]


async def test_stays_when_a_move_fails(results: Results, broker: ScriptedBroker) -> None:
    """A broker that can't be reached, or refuses, is no reason to leave the one that serves."""
    async with scripted(results, "b2") as other, Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        other.objection = lambda message: messages.Error("not_found", "no channel C", request=message.request)
        await broker.send(messages.Move(other.url, "b2"))
        await other.until(lambda: bool(other.hellos))
        await broker.send(messages.Move("http://127.0.0.1:1", "b3"))
        results.publish(1, *numbered(1))
        assert await take(subscription, 1) == [1]
        assert len(broker.hellos) == 1


async def test_acknowledges_what_was_taken_care_of(results: Results, broker: ScriptedBroker) -> None:
    """A notification is acknowledged when the next one is asked for, all together at the end."""
    async with Subscriber(broker=broker.url, token="t", device="phone") as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1, 2, 3))
        assert await take(subscription, 3) == [1, 2, 3]
        await broker.until(lambda: bool(broker.acks))
        assert broker.acks == ["1-102"]
    async with asyncio.timeout(10):
        await broker.live.wait_closed()
    assert broker.acks == ["1-102", "1-103"]


async def test_what_failed_is_not_acknowledged(results: Results, broker: ScriptedBroker) -> None:
    """The notification that an application died of comes again."""

    async def fail_at_two() -> None:
        async with Subscriber(broker=broker.url, token="t", device="phone") as me:
            subscription = await me.subscribe("C")
            results.publish(1, *numbered(1, 2))
            async for notification in subscription:
                _ = 1 / (2 - notification.payload["n"])

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(fail_at_two(), 10)
    async with asyncio.timeout(10):
        await broker.live.wait_closed()
    assert broker.acks == ["1-101"]


async def test_acknowledging_by_hand(results: Results, broker: ScriptedBroker) -> None:
    """Without automatic acknowledgement, only what the application says counts."""
    async with Subscriber(broker=broker.url, token="t", auto_ack=False) as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1, 2, 3))
        async with asyncio.timeout(10):
            first = await anext(subscription)
            await anext(subscription)
        await first.ack()
    async with asyncio.timeout(10):
        await broker.live.wait_closed()
    assert broker.acks == ["1-101"]


async def test_all_subscriptions_together(results: Results, broker: ScriptedBroker) -> None:
    """One loop can serve several subscriptions, in the order of arrival."""
    async with Subscriber(broker=broker.url, token="t") as me:
        first, second = await me.subscribe("C", n=1), await me.subscribe("C", n=2)
        results.publish(1, {"n": 1})
        results.publish(2, {"n": 2})
        results.publish(1, {"n": 3})
        seen = []
        async with asyncio.timeout(10):
            async for notification in me.notifications():
                seen.append((notification.payload["n"], notification.subscription))
                if len(seen) == 3:
                    break
        assert seen == [(1, first), (2, second), (3, first)]


async def test_a_gap_is_raised(results: Results, broker: ScriptedBroker) -> None:
    """Missing results are never passed over in silence; iterating again carries on after them."""
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1))
        assert await take(subscription, 1) == [1]
        await broker.send(messages.HistoryGone(1, "1-200", "past retention"))
        results.sequence = 200
        results.publish(1, *numbered(2))
        with pytest.raises(HistoryGone, match="past retention") as gone:
            await take(subscription, 1)
        assert gone.value.earliest == "1-200"
        assert await take(subscription, 1) == [2]


async def test_a_gap_is_told(results: Results, broker: ScriptedBroker) -> None:
    """With a callback, iteration goes on. A subscription that began anew at the cluster is such a gap."""
    gaps: list[tuple[Subscription, str]] = []
    async with Subscriber(
        broker=broker.url, token="t", on_history_gone=lambda who, gone: gaps.append((who, gone.earliest))
    ) as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1))
        assert await take(subscription, 1) == [1]
        results.begin_anew(1)
        await broker.live.close(1001)
        await broker.until(lambda: len(broker.hellos) == 2)
        results.publish(2, *numbered(2))
        assert await take(subscription, 1) == [2]
        assert gaps == [(subscription, "2-101")]


async def test_begins_after_a_given_position(results: Results, broker: ScriptedBroker) -> None:
    """An application may keep positions itself."""
    results.id_of("C", {})
    results.publish(1, *numbered(1, 2, 3))
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C", position="1-101")
        assert subscription.position == "1-101"
        assert await take(subscription, 2) == [2, 3]


async def test_what_was_kept_is_carried_on(results: Results, broker: ScriptedBroker) -> None:
    """A device that comes back gets what it missed once it asks for it; what it does not ask for is in nobody's way."""
    for name in ("C", "D"):
        results.publish(results.id_of(name, {"n": 5}), *numbered(1, 2))
    broker.kept = {1: ("C", {"n": 5}, 100), 2: ("D", {"n": 5}, 102)}
    async with Subscriber(broker=broker.url, token="t", device="phone") as me:
        await asyncio.sleep(0.05)
        assert [kept.channel for kept in me.kept] == ["C", "D"]
        subscription = await me.subscribe("C", n=5)
        assert await take(subscription, 2) == [1, 2]
        assert [kept.channel for kept in me.kept] == ["D"]
        (other,) = await me.subscribe_kept()
        assert await take(other, 2) == [1, 2]
        assert me.kept == []


async def test_filters_are_kept_and_changed(results: Results, broker: ScriptedBroker) -> None:
    """What was kept is asked for with its filter. A change returns when it is in force; a wrong one raises, and the one
    before stays, also at the next connection."""
    results.publish(results.id_of("C", {}), *numbered(1))
    broker.kept, broker.filters = {1: ("C", {}, 100)}, {1: "n > 0"}
    async with Subscriber(broker=broker.url, token="t", device="phone") as me:
        (subscription,) = await me.subscribe_kept()
        assert (subscription.where, str(subscription)) == ("n > 0", "C() WHERE n > 0")
        assert await take(subscription, 1) == [1]
        await subscription.change_filter("n > 1")
        assert subscription.where == "n > 1"
        with pytest.raises(StatementError, match="no column wrong"):
            await subscription.change_filter(WRONG_FILTER)
        assert subscription.where == "n > 1"
        results.publish(1, *numbered(2))
        assert await take(subscription, 1) == [2]
        await broker.live.close(messages.CLOSE_SLOW, "too slow")
        await broker.until(lambda: len(broker.hellos) == 2)
        assert [one.where for one in broker.hellos[-1].subscriptions] == ["n > 1"]
        with pytest.raises(StatementError):
            await me.subscribe("D", where=WRONG_FILTER)
        await subscription.unsubscribe()
        with pytest.raises(NotFound):
            await subscription.change_filter("n > 2")


async def test_unsubscribing(results: Results, broker: ScriptedBroker) -> None:
    """Nothing more comes, and the iteration ends."""
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        results.publish(1, *numbered(1, 2))
        assert await take(subscription, 1) == [1]
        await subscription.unsubscribe()
        assert [one async for one in subscription] == []
        assert me.subscriptions == []
        assert messages.Unsubscribe(1, 1) in broker.said
        again = await me.subscribe("C")
        results.publish(1, *numbered(3))
        assert await take(again, 1) == [3]


async def test_unsubscribing_from_something_that_is_over_returns(results: Results, broker: ScriptedBroker) -> None:
    """A program may do so in a `finally`, twice, or at the same time: nobody waits for a broker's second answer."""
    async with Subscriber(broker=broker.url, token="t") as me, asyncio.timeout(10):
        subscription = await me.subscribe("C")
        await asyncio.gather(subscription.unsubscribe(), subscription.unsubscribe())
        await subscription.unsubscribe()
        dropped = await me.subscribe("D")
        await broker.send(messages.Failed(2, "D", "2-200", 0, "channel D was dropped", "not_found"))
        with pytest.raises(NotFound):
            await anext(dropped)
        await dropped.unsubscribe()
    await dropped.unsubscribe()


async def test_who_stops_waiting_for_the_broker_stops_nobody_else(results: Results, broker: ScriptedBroker) -> None:
    """Two tasks leave the same subscription, and one of them is cancelled."""
    async with Subscriber(broker=broker.url, token="t") as me, asyncio.timeout(10):
        subscription = await me.subscribe("C")
        impatient, patient = (asyncio.create_task(subscription.unsubscribe()) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        assert impatient.cancelled()


async def test_unsubscribing_while_away(results: Results, broker: ScriptedBroker) -> None:
    """A broker that kept what was unsubscribed from meanwhile is told."""
    async with Subscriber(broker=broker.url, token="t", device="phone") as me:
        subscription = await me.subscribe("C")
        broker.kept = {1: ("C", {}, 100)}
        broker.live.transport.abort()
        async with asyncio.timeout(10):
            await subscription.unsubscribe()
        assert messages.Unsubscribe(1, 1) in broker.said
        assert me.kept == []


async def test_refusals_are_raised(broker: ScriptedBroker) -> None:
    """What can't be subscribed to is said with its own error, and the connection lives on."""
    broker.objection = lambda message: (
        messages.Error("not_found", f"no channel {message.channel}", request=message.request)
        if message.channel != "C"
        else None
    )
    async with Subscriber(broker=broker.url, token="t") as me:
        with pytest.raises(NotFound, match="no channel Nope"):
            await me.subscribe("Nope")
        await me.subscribe("C")
        with pytest.raises(AlreadyExists, match="another device name"):
            await me.subscribe("C")
        with pytest.raises(InvalidValue, match="position"):
            await me.subscribe("C", position="x", etype="flood")


async def test_temporary_refusals_are_retried(broker: ScriptedBroker) -> None:
    """What may work later is tried later."""
    answers = [messages.Error("unavailable", "starting", temporary=True, request=1, retry_after_s=0.01), None]
    broker.objection = lambda _ask: answers.pop(0)
    async with Subscriber(broker=broker.url, token="t") as me:
        await me.subscribe("C")
    assert answers == []


async def test_a_subscription_that_can_not_be_carried_on(results: Results, broker: ScriptedBroker) -> None:
    """When a channel is dropped, whoever iterates is told."""
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        broker.objection = lambda message: messages.Error("not_found", "no channel C", request=message.request)
        await broker.live.close(1001)
        with pytest.raises(NotFound, match="no channel C"):
            await take(subscription, 1)
        assert me.subscriptions == []


async def test_being_replaced_is_the_end(broker: ScriptedBroker) -> None:
    """Another program with the same name must not be fought over."""
    async with Subscriber(broker=broker.url, token="t", device="phone") as me:
        subscription = await me.subscribe("C")
        await broker.live.close(messages.CLOSE_REPLACED, "connected again")
        with pytest.raises(Replaced, match="give each its own `device`"):
            await take(subscription, 1)
        with pytest.raises(Replaced):
            await me.subscribe("D")
        assert len(broker.hellos) == 1


async def test_too_much_is_the_end(broker: ScriptedBroker) -> None:
    """Close codes from 4100 on: coming back would not help."""
    async with Subscriber(broker=broker.url, token="t") as me:
        await broker.live.close(messages.CLOSE_TOO_MUCH, "too many messages")
        with pytest.raises(ConnectionEnded, match="too many messages"):
            async for _ in me.notifications():
                pass


async def test_a_token_that_is_not_good(broker: ScriptedBroker) -> None:
    """Without a password there is nothing to be done but to say what to do."""
    broker.refuse_tokens = {"old"}
    with pytest.raises(TokenRefused, match="give user and password"):
        async with Subscriber(broker=broker.url, token="old"):
            pass


async def test_nobody_there() -> None:
    """An address where nothing listens is told in time."""
    with pytest.raises(NotConnected, match=r"not connected within 0\.3 s: http://127\.0\.0\.1:1"):
        async with Subscriber(broker="http://127.0.0.1:1", token="t", connect_timeout_s=0.3):
            pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "either"),
        ({"coordinator": "http://c", "broker": "http://b"}, "either"),
        ({"coordinator": "http://c", "user": "ann"}, "password"),
        ({"broker": "http://b", "user": "ann", "password": "x"}, "a broker alone gives no tokens"),
    ],
)
def test_what_is_missing_is_said(options: dict[str, str], message: str) -> None:
    """What can't work is refused before anything is tried."""
    with pytest.raises(InvalidValue, match=message):
        Subscriber(**options)  # type: ignore[arg-type]


async def test_a_slow_application_stops_the_reading(results: Results, broker: ScriptedBroker) -> None:
    """Memory stays bounded: what does not fit waits with the broker, and nothing is lost by it."""
    big = "x" * 100_000
    count = 300
    async with Subscriber(broker=broker.url, token="t", queue_count=10) as me:
        subscription = await me.subscribe("C")
        for number in range(count):
            results.publish(1, {"n": number, "text": big})
        await asyncio.sleep(0.3)
        # Beside it, there are the library's sixteen frames and the system's buffers.
        assert len(me._driver.inbox) == 10
        assert await take(subscription, count) == list(range(count))


async def test_who_does_not_take_is_told_why_it_cannot_subscribe(results: Results, broker: ScriptedBroker) -> None:
    """The answer comes behind what waits to be taken; once that is taken, it comes."""
    async with Subscriber(broker=broker.url, token="t", queue_count=10, subscribe_timeout_s=0.5) as me:
        first = await me.subscribe("C")
        results.publish(1, *numbered(*range(50)))
        with pytest.raises(NotConnected, match=r"10 notifications wait to be taken.*iterate over them in a task"):
            await me.subscribe("D")
        taking = asyncio.create_task(take(first, 50))
        await me.subscribe("D")
        assert await taking == list(range(50))


async def test_a_connection_that_ended_is_forgotten(results: Results, broker: ScriptedBroker) -> None:
    """However often a connection is lost, only the one in use is kept in memory."""
    async with Subscriber(broker=broker.url, token="t") as me:
        subscription = await me.subscribe("C")
        for number in range(5):
            broker.live.transport.abort()
            results.publish(1, *numbered(number))
            assert await take(subscription, 1) == [number]
        assert len(me._driver._connections) == 1
