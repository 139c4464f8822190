"""The SDK and `tocsin subscribe` against real brokers, a real coordinator and the shared cluster."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from integration.live import PATIENCE_S, Live, get, wait_until
from integration.network import Network, running_network
from tocsin.client import AsyncPublisher, CoordinatorClient, Subscriber, Subscription, SyncSubscriber
from tocsin.errors import InvalidValue, NotFound, Unauthorised
from tocsin.runtime.processes import ServerProcess


@pytest.fixture(scope="module")
def network(live: Live, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    live.sql(
        """CREATE ACTIVE DATASET Sightings (id STRING, topic STRING, PRIMARY KEY (id));
        CREATE FEED sightings INTO Sightings FROM HTTP;
        CREATE CONTINUOUS CHANNEL SightingsOf (topic STRING) AS
          SELECT s.* FROM Sightings s WHERE is_new(s) AND s.topic = :topic"""
    )
    with running_network(live, tmp_path_factory.mktemp("sdk")) as running:
        yield running


@pytest.fixture(scope="module")
def broker(network: Network) -> Iterator[ServerProcess]:
    with network.broker("sdk-1") as process:
        yield process


def options(network: Network, user: str) -> dict[str, Any]:
    return {"coordinator": network.coordinator.url, "user": user, "password": "correct horse", "register": True}


async def sight(network: Network, topic: str, *ids: str) -> None:
    """Publish one after the other: results of one commit come in any order."""
    async with AsyncPublisher(network.live.url, "sightings") as sightings:
        for one in ids:
            await sightings.publish({"id": f"{topic}-{one}", "topic": topic}, wait_commit=True)


async def ids(subscription: Subscription, count: int) -> list[str]:
    async with asyncio.timeout(PATIENCE_S):
        return [(await anext(subscription)).payload["id"].partition("-")[2] for _ in range(count)]


async def test_subscribe_and_follow(network: Network, broker: ServerProcess) -> None:
    """From a publisher's call to a subscriber's loop, through every part of the system."""
    async with Subscriber(**options(network, "follower")) as me:
        assert me.broker == "sdk-1"
        assert re.fullmatch(r"follower/~[0-9a-f]+", me.name)
        subscription = await me.subscribe("SightingsOf", topic="plain")
        await sight(network, "plain", "1", "2")
        assert await ids(subscription, 2) == ["1", "2"]
        await subscription.unsubscribe()
        with pytest.raises(NotFound, match="Nowhere"):
            await me.subscribe("Nowhere")
        with pytest.raises(InvalidValue, match="topic"):
            await me.subscribe("SightingsOf", topic=5)


async def test_a_dropped_channel_is_told_to_those_who_follow_it(network: Network, broker: ServerProcess) -> None:
    """DROP says how many subscriptions it ends, iterating raises NotFound, and a channel of the same name can be
    subscribed to at once."""
    body = "SELECT s.* FROM Sightings s WHERE is_new(s) AND s.topic = :topic"
    create = f"CREATE CONTINUOUS CHANNEL Passing (topic STRING) AS {body}"
    network.live.sql(create)
    async with Subscriber(**options(network, "bereft")) as me:
        first, other = await me.subscribe("Passing", topic="drop"), await me.subscribe("Passing", topic="else")
        await sight(network, "drop", "1")
        assert await ids(first, 1) == ["1"]
        (dropped,) = await asyncio.to_thread(network.live.sql, "DROP CHANNEL Passing")
        assert dropped["message"] == "channel Passing dropped; 2 subscriptions ended with it"
        for subscription in (first, other):
            with pytest.raises(NotFound, match="channel Passing was dropped"):
                await ids(subscription, 1)
        await asyncio.to_thread(network.live.sql, create)
        again = await me.subscribe("Passing", topic="drop")
        await sight(network, "drop", "2")
        assert await ids(again, 1) == ["2"]


async def test_channels_know_where_people_are(network: Network) -> None:
    """What somebody tells of their place reaches the dataset through their broker, under their own name."""
    network.live.sql(
        """CREATE KEYED DATASET Walkers (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
        CREATE FEED walkers INTO Walkers FROM HTTP;
        CREATE CONTINUOUS CHANNEL ComingNear (x DOUBLE, y DOUBLE) AS
          SELECT w.* FROM Walkers w WHERE is_new(w) AND within(w.x, w.y, :x, :y, 10.0)"""
    )
    with network.broker("sdk-locations", locations_feed="walkers") as near:
        async with Subscriber(broker=near.url, token=network.token("walker"), device="phone") as me:
            coming = await me.subscribe("ComingNear", x=1000, y=1000)
            me.tell_location(0, 0)
            me.tell_location(1003, 1004)
            async with asyncio.timeout(PATIENCE_S):
                payload = (await anext(coming)).payload
            assert payload == {"user_id": "walker", "x": 1003.0, "y": 1004.0}
            with CoordinatorClient(network.coordinator.url) as operator:

                def is_known() -> bool:
                    locations = {one["subscriber"]: one["location"] for one in operator.subscribers()}
                    return locations.get("walker/phone") == [1003.0, 1004.0]

                await asyncio.to_thread(wait_until, is_known, "the coordinator knows where the walker is")


async def test_wrong_password(network: Network, broker: ServerProcess) -> None:
    """Told at once."""
    network.token("careful")
    with pytest.raises(Unauthorised):
        await Subscriber(coordinator=network.coordinator.url, user="careful", password="a wrong one").__aenter__()


async def test_a_device_that_comes_back(network: Network, broker: ServerProcess) -> None:
    """What was acknowledged does not come again; what was missed comes, when it is asked for; the rest waits."""
    phone = options(network, "returning") | {"device": "phone"}
    async with Subscriber(**phone) as me:
        one, other = await me.subscribe("SightingsOf", topic="one"), await me.subscribe("SightingsOf", topic="other")
        await sight(network, "one", "1", "2")
        await sight(network, "other", "1")
        assert await ids(one, 2) == ["1", "2"]
        assert await ids(other, 1) == ["1"]
    await sight(network, "one", "3")
    await sight(network, "other", "2")
    async with Subscriber(**phone) as me:
        assert len(me.kept) == 2
        one = await me.subscribe("SightingsOf", {"Topic": "one"})
        assert await ids(one, 1) == ["3"]
        (other,) = await me.subscribe_kept()
        assert await ids(other, 1) == ["2"]
        position = other.position
    # A position is good for anybody, anywhere: it names a place in what the cluster keeps.
    async with Subscriber(**options(network, "stranger")) as me:
        await sight(network, "other", "3")
        again = await me.subscribe("SightingsOf", topic="other", position=position)
        assert await ids(again, 1) == ["3"]


async def test_sigterm_is_not_noticed(network: Network, broker: ServerProcess) -> None:
    """A broker is taken down while results come: its subscriber moves, and sees each of them once and in order."""
    token = network.token("mover")
    with network.broker("sdk-leaving", drain_timeout_s=4) as leaving:
        async with Subscriber(broker=leaving.url, token=token, device="phone") as me:
            subscription = await me.subscribe("SightingsOf", topic="moving")
            publishing = asyncio.create_task(sight(network, "moving", *map(str, range(12))))
            seen = await ids(subscription, 3)
            leaving.process.send_signal(signal.SIGTERM)
            seen += await ids(subscription, 9)
            await publishing
            assert seen == list(map(str, range(12)))
            assert me.broker == "sdk-1"


async def test_a_killed_broker_is_left(network: Network, broker: ServerProcess) -> None:
    """A broker is killed: the coordinator names another, which carries on."""
    with network.broker("sdk-mortal") as mortal:
        async with Subscriber(**options(network, "orphan"), device="phone") as me:
            # Wherever it was placed: what counts is that the broker it is at falls.
            me_at_mortal = me.broker == "sdk-mortal"
            subscription = await me.subscribe("SightingsOf", topic="killed")
            await sight(network, "killed", "1")
            assert await ids(subscription, 1) == ["1"]
            mortal.process.kill()
            await sight(network, "killed", "2", "3")
            assert await ids(subscription, 2) == ["2", "3"]
            assert not me_at_mortal or me.broker == "sdk-1"


def test_without_asyncio(network: Network, broker: ServerProcess) -> None:
    """Plain loops, and the same results."""
    with SyncSubscriber(**options(network, "plain"), device="desk") as me:
        subscription = me.subscribe("SightingsOf", topic="sync")
        asyncio.run(sight(network, "sync", "1", "2"))
        seen = []
        for notification in subscription:
            seen.append(notification.payload["id"])
            if len(seen) == 2:
                break
        assert seen == ["sync-1", "sync-2"]


def subscribe_command(network: Network, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tocsin", "subscribe", "--coordinator", network.coordinator.url, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_command_prints_notifications(network: Network, broker: ServerProcess) -> None:
    """It ends after as many as were asked for; without a name it is a guest."""
    process = subscribe_command(network, 'SightingsOf(topic => "command")', "--count", "2")
    assert process.stderr is not None
    assert process.stderr.readline().endswith("; waiting\n")
    asyncio.run(sight(network, "command", "1", "2"))
    out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "SightingsOf(topic => 'command')" in out
    assert "command-2" in out


def test_the_command_ends_on_ctrl_c(network: Network, broker: ServerProcess) -> None:
    """With code 0, and with what was printed acknowledged."""
    arguments = ['SightingsOf(topic => "ctrl-c")', "--user", "typist", "--password", "correct horse", "--register"]
    for first in ("1", "2"):
        process = subscribe_command(network, *arguments, "--device", "desk", "--json")
        if first == "1":
            wait_for_device(network, "typist/desk")
        asyncio.run(sight(network, "ctrl-c", first))
        assert process.stdout is not None
        printed = json.loads(process.stdout.readline())
        assert printed["payload"]["id"] == f"ctrl-c-{first}"
        assert (printed["type"], printed["channel"]) == ("notification", "SightingsOf")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err) == (0, "")


def wait_for_device(network: Network, subscriber: str) -> None:
    """Until the coordinator knows that it is subscribed to something."""

    def is_subscribed() -> bool:
        answer = get(f"{network.coordinator.url}/v1/subscribers/{subscriber}")
        return answer.is_success and bool(answer.json()["subscriptions"])

    wait_until(is_subscribed, f"{subscriber} is subscribed")


def test_the_stock_client_of_the_documentation(network: Network, broker: ServerProcess) -> None:
    """`python -m websockets`, typed as docs/reference/protocol.md shows it."""
    address = broker.url.replace("http", "ws") + "/v1/connect"
    process = subprocess.Popen(
        [sys.executable, "-m", "websockets", address], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def say(**message: Any) -> None:
        assert process.stdin is not None
        print(json.dumps(message), file=process.stdin, flush=True)

    def hear(kind: str) -> dict[str, Any]:
        assert process.stdout is not None
        for line in process.stdout:
            found = re.search(r"\{.*\}", line)
            if found and f'"type":"{kind}"' in found[0]:
                message: dict[str, Any] = json.loads(found[0])
                return message
        raise AssertionError(f"no {kind}")

    try:
        say(type="hello", token=network.token("stock"), device="phone")
        assert hear("welcome")["subscriber"] == "stock/phone"
        say(type="subscribe", channel="SightingsOf", parameters={"topic": "stock"}, request=1)
        assert hear("subscribed")["request"] == 1
        asyncio.run(sight(network, "stock", "1"))
        assert hear("notification")["payload"] == {"id": "stock-1", "topic": "stock"}
    finally:
        process.kill()
        process.communicate()
