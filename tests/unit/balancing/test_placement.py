"""Each placement policy keeps its word."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tocsin.balancing.placement import POLICIES, Newcomer
from tocsin.balancing.views import BrokerView, Load, NetworkView
from tocsin.coordinates.coordinate import DIMENSIONS, ORIGIN, Coordinate
from tocsin.coordinates.located import Located
from tocsin.protocol.subscription_keys import KeyText

FIRE, FLOOD = KeyText("fire"), KeyText("flood")
CHANCE = random.Random(1)


def choose(policy: str, *brokers: BrokerView, last_placed: str = "", newcomer: Newcomer = Newcomer()) -> str:  # noqa: B008 - it is frozen
    return POLICIES[policy](NetworkView(brokers, last_placed), newcomer, CHANCE)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_the_only_broker_is_chosen(policy: str) -> None:
    """Every policy sends everybody there, whatever they bring."""
    assert choose(policy, BrokerView("a")) == "a"
    assert choose(policy, BrokerView("a"), newcomer=Newcomer((1.0, 2.0), (FIRE,))) == "a"


def test_nearest_takes_the_nearest() -> None:
    """Those that stand nowhere are no candidates while others do; of two as near, the less loaded."""
    here = Newcomer((0.0, 0.0))
    east, west = BrokerView("east", (5.0, 0.0), load=Load(1, 1)), BrokerView("west", (-5.0, 0.0))
    assert choose("nearest", BrokerView("far", (6.0, 0.0)), east, BrokerView("nowhere"), newcomer=here) == "east"
    assert choose("nearest", east, west, newcomer=here) == "west"


def test_nearest_without_a_place_takes_the_least_loaded() -> None:
    """Of the newcomer, or of all brokers."""
    crowded, empty = BrokerView("crowded", (0.0, 0.0), connections=9), BrokerView("empty", (9.0, 0.0))
    assert choose("nearest", crowded, empty) == "empty"
    nowhere = (BrokerView("a", connections=9), BrokerView("b"))
    assert choose("nearest", *nowhere, newcomer=Newcomer((0.0, 0.0))) == "b"


def test_round_robin_goes_on_after_the_last() -> None:
    """In the order of names, around the end, and past one that is gone."""
    brokers = [BrokerView(name) for name in "cab"]
    assert [choose("round-robin", *brokers, last_placed=last) for last in ("", "a", "b", "c", "bb")] == list("abcac")


def test_random_takes_all_alike() -> None:
    """And the same ones for the same seed."""
    view = NetworkView(tuple(BrokerView(name) for name in "abc"))

    def draw(seed: int) -> list[str]:
        chance = random.Random(seed)
        return [POLICIES["random"](view, Newcomer(), chance) for _ in range(3000)]

    assert min(Counter(draw(1)).values()) > 900
    assert draw(1) == draw(1)


def test_least_resulting_load_counts_sharing_and_capacity() -> None:
    """Who brings subscriptions goes where they add least to the load for the capacity."""
    newcomer = Newcomer(subscriptions=(FIRE, FLOOD))
    shares = BrokerView("shares", load=Load(2, 4), held={FIRE: 2, FLOOD: 2})
    spare = BrokerView("spare", load=Load(2, 3))
    assert choose("least-resulting-load", shares, spare, newcomer=newcomer) == "shares"
    big = BrokerView("big", capacity=10.0, load=Load(20, 20))
    assert choose("least-resulting-load", shares, spare, big, newcomer=newcomer) == "big"
    on_the_way = BrokerView("spare", reserved=100)
    assert choose("least-resulting-load", shares, on_the_way, newcomer=newcomer) == "shares"


def test_least_resulting_load_without_subscriptions_counts_connections() -> None:
    crowded = BrokerView("crowded", capacity=2.0, connections=10, load=Load(0, 0))
    quiet = BrokerView("quiet", connections=4, load=Load(50, 50))
    assert choose("least-resulting-load", crowded, quiet) == "quiet"


def test_a_newcomer_for_whom_nothing_comes_goes_where_the_fewest_are() -> None:
    """It adds no load anywhere: by the load alone, all such newcomers would go to the least loaded broker."""
    full = BrokerView("full", connections=9, load=Load(1, 1), rate_of=lambda _: 0.0)
    empty = BrokerView("empty", connections=1, load=Load(5, 5), rate_of=lambda _: 0.0)
    assert choose("least-resulting-load", full, empty, newcomer=Newcomer(subscriptions=(FIRE,))) == "empty"


def _apart(name: str, x_ms: float, load: float = 0.0) -> BrokerView:
    return BrokerView(name, coordinate=Coordinate((x_ms, *[0.0] * (DIMENSIONS - 1)), 1.0), load=Load(load, 0))


def test_nearest_network_takes_the_one_with_the_shortest_round_trip() -> None:
    """As estimated, unless it was measured; a broker without a coordinate that was not measured is no candidate."""
    here = Newcomer(located=Located(ORIGIN))
    near, far, unknown = _apart("near", 10, load=99), _apart("far", 80), BrokerView("unknown")
    assert choose("nearest-network", far, near, unknown, newcomer=here) == "near"
    measured = Newcomer(located=Located(ORIGIN, {"near": 70.0, "unknown": 20.0}))
    assert choose("nearest-network", far, near, unknown, newcomer=measured) == "unknown"


def test_nearest_network_takes_the_least_loaded_of_about_equally_near_ones() -> None:
    here = Newcomer(located=Located(ORIGIN))
    busy, idle = _apart("busy", 20.0, load=9), _apart("idle", 21.5, load=1)
    assert choose("nearest-network", busy, idle, newcomer=here) == "idle"


def test_nearest_network_without_a_coordinate_takes_the_least_loaded() -> None:
    """Of the newcomer, or of all brokers."""
    busy, idle = _apart("busy", 0.0, load=9), BrokerView("idle")
    assert choose("nearest-network", busy, idle) == "idle"
    assert choose("nearest-network", BrokerView("a", connections=1), idle, newcomer=Newcomer(located=Located(ORIGIN)))
