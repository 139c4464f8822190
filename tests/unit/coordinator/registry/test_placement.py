"""Which broker a subscriber is sent to."""

from __future__ import annotations

import pytest

from tocsin.balancing.views import NetworkView
from tocsin.coordinator.registry.events import PolicyChosen
from tocsin.errors import InvalidValue
from unit.coordinator.network import Network


def test_a_rush_is_spread_before_any_heartbeat_shows_it() -> None:
    """A hundred newcomers between two heartbeats do not all go to the same broker; after a while they are forgotten."""
    network = Network()
    network.register("a", "b")
    network.register("big", capacity=2.0)
    chosen = [network.place(f"user{n}").broker for n in range(100)]
    assert {name: chosen.count(name) for name in set(chosen)} == {"a": 25, "b": 25, "big": 50}
    network.pass_time(2.5, heard=("a", "b", "big"))
    assert network.place().broker == "a"


def test_only_known_policies_are_chosen_and_the_choice_is_remembered() -> None:
    network = Network()
    with pytest.raises(InvalidValue, match="least-resulting-load, nearest, nearest-network, random, round-robin"):
        network.handle(PolicyChosen("best"))
    network.handle(PolicyChosen("random"))
    network.restart()
    assert network.state.policy == "random"


def test_a_strangers_policy_that_fails_keeps_nobody_from_being_placed() -> None:
    """What raises, or chooses who is not there, is told, and the least loaded is taken."""

    def raises(view: NetworkView, _newcomer: object, _chance: object) -> str:
        raise KeyError(len(view.brokers))

    network = Network("raises", raises=raises, lies=lambda *_: "nobody")
    network.register("a")
    assert network.place().reason == "least-resulting-load"
    network.handle(PolicyChosen("lies"))
    assert network.place().broker == "a"
    assert network.notes == ["placement policy failed"] * 2
