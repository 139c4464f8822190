"""Whatever happens in whatever order, every subscriber sees every result of its subscriptions once and in order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tocsin.broker.core import connecting, delivery, subscribing
from worlds.broker_world import OWN_CHANNEL, BrokerWorld

_CHANNELS = ("A", "B", "C", OWN_CHANNEL)


#: What happens, and how often.
_HAPPENINGS: dict[str, int] = {
    "connect": 6,
    "disconnect": 2,
    "vanish": 1,
    "notice": 1,
    "subscribe": 5,
    "unsubscribe": 1,
    "acknowledge": 3,
    "congest": 1,
    "flush": 3,
    "pull": 8,
    "answer": 12,
    "report": 3,
    "tick": 3,
    "run": 6,
}


#: How often disks run full, and have room again.
_FULL_DISKS: dict[str, int] = {"fill": 2, "make_room": 2, "look_for_room": 4, "ask_again": 3}


def _live_through(world: BrokerWorld, steps: int, **also: int) -> None:
    rng = world.rng
    weights = _HAPPENINGS | also
    for what in rng.choices(list(weights), list(weights.values()), k=steps):
        client, broker = rng.choice(world.clients), rng.choice(world.brokers)
        match what:
            case "connect":
                world.connect(client, broker)
            case "subscribe":
                world.subscribe(client, rng.choice(_CHANNELS))
            case "pull" | "answer" | "report" | "crash" | "fill" | "make_room" | "look_for_room":
                getattr(world, what)(broker)
            case "tick":
                world.tick(rng.choice((0.1, 1.0, 10.0)))
            case "run":
                world.cluster.run()
            case "notice":
                world.notice()
            case _:
                getattr(world, what)(client)


def _check(world: BrokerWorld) -> None:
    for client in world.clients:
        assert not client.gone, f"{client.user} was told that history is gone, though somebody always held it"
        assert client.broker is not None
        for wish in client.wishes.values():
            assert wish.begin is not None, f"{client.user} was never answered for {wish.channel}"
            expected = [
                sequence
                for one, sequence in world.cluster.results
                if one == wish.subscription and sequence > wish.begin
            ]
            assert wish.seen == expected, f"{client.user} {wish.channel}"
            if wish.channel == OWN_CHANNEL:
                assert world.cluster.keys[wish.subscription].parameter_values() == {"user_id": client.user}


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from((300, 2_000, 100_000)))
def test_every_result_once_and_in_order(seed: int, cache_max_bytes: int) -> None:
    """With one broker or several, whatever fits into the cache, through disconnections, moves and congestion."""
    rng = random.Random(seed)
    world = BrokerWorld(rng, brokers=rng.choice((1, 2, 3)), clients=3, cache_max_bytes=cache_max_bytes)
    _live_through(world, 150)
    world.settle()
    _check(world)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_every_result_once_through_crashes(seed: int) -> None:
    """The same, while brokers are killed and begin again from their stores."""
    world = BrokerWorld(random.Random(seed), brokers=2, clients=3)
    _live_through(world, 150, crash=1)
    world.settle()
    _check(world)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_every_result_once_through_full_disks(seed: int) -> None:
    """What is told to a subscriber was stored before, so that not even a broker that is killed while its disk is full
    loses anything; and when there is room again, everything goes on."""
    world = BrokerWorld(random.Random(seed), brokers=2, clients=3)
    _live_through(world, 200, crash=1, **_FULL_DISKS)
    world.settle()
    _check(world)


@settings(deadline=None)
@given(st.integers(0, 2**32))
def test_nobody_gets_what_is_filled_in_for_another(seed: int) -> None:
    """Who names somebody else is refused, at whatever broker, through moves and crashes, and whatever that broker
    remembers of the channel; who names themselves, or nobody, gets their own."""
    rng = random.Random(seed)
    world = BrokerWorld(rng, brokers=2, clients=3)
    own, named, eve = world.clients
    for _ in range(40):
        for client, name in ((own, ""), (named, named.user), (eve, rng.choice((own.user, named.user)))):
            world.connect(client, rng.choice(world.brokers))
            world.subscribe(client, OWN_CHANNEL, {"user_id": name} if name else {})
        _live_through(world, 8, crash=1, ask_again=2, subscribe=0, unsubscribe=0)
        if rng.random() < 0.5:  # As if so many channels were in use that this one was forgotten.
            rng.choice(world.brokers).state._filling._channels.clear()
    world.settle()
    for client in (own, named):
        (wish,) = client.wishes.values()
        assert world.cluster.keys[wish.subscription].parameter_values() == {"user_id": client.user}
    assert not any(wish.subscription for wish in eve.wishes.values())
    assert not eve.last


class Mistake(Exception):
    """What no handler expects."""


@settings(deadline=None)
@given(st.integers(0, 2**32))
@example(632851).via("a mistake while a connection was being given up")
def test_every_result_once_through_mistakes_of_the_machine(seed: int) -> None:
    """A mistake with what one connection sent, wherever it is made, ends that connection and harms nobody."""
    world = BrokerWorld(random.Random(seed), brokers=2, clients=3)
    world.expected_mistakes = (Mistake,)
    chance = random.Random(seed + 1)

    def now_and_then(make: Callable[..., Any]) -> Callable[..., Any]:
        def fail_or_make(*values: Any, **named: Any) -> Any:
            if world.is_from_connection and not world.is_calm and chance.random() < 0.1:
                raise Mistake
            return make(*values, **named)

        return fail_or_make

    with (
        patch("tocsin.broker.core.subscribing.StoreSubscription", now_and_then(subscribing.StoreSubscription)),
        patch("tocsin.broker.core.subscribing.describe", now_and_then(subscribing.describe)),
        patch("tocsin.broker.core.subscribing.Waiter", now_and_then(subscribing.Waiter)),
        patch("tocsin.broker.core.subscribing.Unsubscribed", now_and_then(subscribing.Unsubscribed)),
        patch("tocsin.broker.core.connecting.Welcome", now_and_then(connecting.Welcome)),
        patch("tocsin.broker.core.delivery.Deliver", now_and_then(delivery.Deliver)),
    ):
        _live_through(world, 200, crash=1)
        world.settle()
    _check(world)
