"""The subscriber and the coordinator: tokens, placements, and going on without it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tocsin.client import NotConnected, Subscriber
from tocsin.errors import Unauthorised
from tocsin.protocol import messages
from unit.client.answering import Answer, Asked, answering, refusal
from unit.client.scripted import Results, ScriptedBroker, scripted

pytestmark = pytest.mark.shell


@pytest.fixture
def results() -> Results:
    return Results()


@pytest.fixture
async def brokers(results: Results) -> AsyncIterator[list[ScriptedBroker]]:
    async with scripted(results, "b1") as first, scripted(results, "b2") as second:
        yield [first, second]


class Coordinator:
    """Knows ann, and places her at the first broker that is not to be avoided."""

    def __init__(self, brokers: list[ScriptedBroker]) -> None:
        self.brokers = {broker.name: broker.url for broker in brokers}
        self.users = {"ann": "correct horse"}
        self.tokens = 0
        self.is_away = False

    def __call__(self, asked: Asked) -> Answer:
        if self.is_away:
            return 0, None
        match asked.path:
            case "/v1/users" if asked.json["name"] in self.users:
                return refusal(409, "already_exists", "there is a user of this name")
            case "/v1/users":
                self.users[asked.json["name"]] = asked.json["password"]
            case "/v1/tokens" if self.users.get(asked.json["name"]) != asked.json["password"]:
                return refusal(401, "unauthorised", "wrong name or password")
            case "/v1/placements":
                left = [name for name in self.brokers if name not in asked.json["avoid"]]
                if not left:
                    return refusal(503, "unavailable", "no broker is left", temporary=True, retry_after_s=0.1)
                return 200, {"broker": left[0], "url": self.brokers[left[0]]}
        self.tokens += 1
        return 200, {"user": asked.json["name"], "token": f"t{self.tokens}", "expires_at_us": 0}


async def test_goes_where_it_is_placed(brokers: list[ScriptedBroker]) -> None:
    """User and password are all it takes; the device and the place are told."""
    with answering(Coordinator(brokers)) as server:
        options = {"user": "ann", "password": "correct horse", "device": "phone"}
        async with Subscriber(coordinator=server.url, **options, location=(1.0, 2.0)) as me:
            assert me.broker == "b1"
        assert [one.path for one in server.asked] == ["/v1/tokens", "/v1/placements"]
        assert server.asked[1].json == {"avoid": [], "device": "phone", "location": [1.0, 2.0]}
        assert server.asked[1].headers["authorization"] == "Bearer t1"
        assert brokers[0].hellos[0].token == "t1"


async def test_registers(brokers: list[ScriptedBroker]) -> None:
    """A user who is not known is registered; one who is known gets a token."""
    with answering(Coordinator(brokers)) as server:
        for _ in range(2):
            async with Subscriber(coordinator=server.url, user="bob", password="battery staple", register=True):
                pass
        paths = [one.path for one in server.asked]
        assert paths == ["/v1/users", "/v1/placements", "/v1/users", "/v1/tokens", "/v1/placements"]


async def test_a_wrong_password(brokers: list[ScriptedBroker]) -> None:
    """The coordinator's own words, at once."""
    with answering(Coordinator(brokers)) as server, pytest.raises(Unauthorised, match="wrong name or password"):
        await Subscriber(coordinator=server.url, user="ann", password="wrong").__aenter__()


async def test_an_expired_token_is_renewed_unseen(results: Results, brokers: list[ScriptedBroker]) -> None:
    """The application does not notice."""
    with answering(Coordinator(brokers)) as server:
        async with Subscriber(coordinator=server.url, user="ann", password="correct horse") as me:
            # A token that has just been made is not asked for again: this one shall be old.
            me._driver.session._seeker._renewed_s = -1e9
            subscription = await me.subscribe("C")
            brokers[0].refuse_tokens = {"t1"}
            await brokers[0].live.close(messages.CLOSE_EXPIRED)
            results.publish(1, {"n": 1})
            async with asyncio.timeout(10):
                assert (await anext(subscription)).payload == {"n": 1}
            assert [one.token for one in brokers[0].hellos] == ["t1", "t1", "t2"]


async def test_a_broker_that_falls(results: Results, brokers: list[ScriptedBroker]) -> None:
    """The next one carries on; what was published in between is not lost."""
    with answering(Coordinator(brokers)) as server:
        async with Subscriber(coordinator=server.url, user="ann", password="correct horse") as me:
            subscription = await me.subscribe("C")
            server.answer.brokers["b1"] = "http://127.0.0.1:1"  # type: ignore[attr-defined]
            brokers[0].live.transport.abort()
            results.publish(1, {"n": 1})
            async with asyncio.timeout(10):
                assert (await anext(subscription)).payload == {"n": 1}
            assert me.broker == "b2"


async def test_goes_on_without_the_coordinator(results: Results, brokers: list[ScriptedBroker]) -> None:
    """A broker that is known is found again while the coordinator is away."""
    coordinator = Coordinator(brokers)
    with answering(coordinator) as server:
        async with Subscriber(coordinator=server.url, user="ann", password="correct horse") as me:
            subscription = await me.subscribe("C")
            coordinator.is_away = True
            brokers[0].live.transport.abort()
            results.publish(1, {"n": 1})
            async with asyncio.timeout(10):
                assert (await anext(subscription)).payload == {"n": 1}


async def test_no_coordinator() -> None:
    """An address where nothing listens is told in time, with what to check."""
    me = Subscriber(coordinator="http://127.0.0.1:1", user="ann", password="x", connect_timeout_s=0.3)
    with pytest.raises(NotConnected, match="check the address"):
        await me.__aenter__()
