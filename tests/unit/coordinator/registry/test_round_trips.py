"""What the coordinator knows of round trips between brokers, and whom brokers should measure."""

from __future__ import annotations

import pytest

from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate
from tocsin.coordinates.located import Located
from tocsin.coordinator.registry.events import BrokerRemoved, HeartbeatReceived, Measured
from tocsin.coordinator.registry.instructions import AnswerHeartbeat
from tocsin.coordinator.registry.round_trips import RoundTrips
from tocsin.protocol.pings import MAX_PEERS
from unit.coordinator.network import Network


def _at(x_ms: float) -> Coordinate:
    return Coordinate((x_ms, *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, 0.1)


def _known(*names: str) -> RoundTrips:
    round_trips = RoundTrips()
    round_trips.know({name: f"http://{name}" for name in names})
    return round_trips


def test_in_a_small_network_everybody_measures_everybody_else() -> None:
    for count in (1, 2, 3, MAX_PEERS, MAX_PEERS + 1):
        names = [f"b{number}" for number in range(count)]
        round_trips = _known(*names)
        for name in names:
            peers = round_trips.peers_of(name)
            assert peers is not None
            assert peers[0] == {one: f"http://{one}" for one in names if one != name}


@pytest.mark.parametrize("count", [MAX_PEERS + 2, 64, 100, 1000])
def test_in_a_large_one_each_measures_some_and_nobody_is_left_out(count: int) -> None:
    """All are within four steps of each other, so that coordinates of all of them fit together."""
    names = [f"b{number}" for number in range(count)]
    round_trips = _known(*names)
    peers = {name: set((round_trips.peers_of(name) or ({}, ""))[0]) for name in names}
    assert all(len(some) == MAX_PEERS and name not in some for name, some in peers.items())
    reached = {names[0]}
    for _ in range(4):
        reached |= {peer for name in reached for peer in peers[name]}
    assert len(reached) == count


def test_peers_are_told_again_only_when_they_have_changed() -> None:
    round_trips = _known("a", "b")
    _, version = round_trips.peers_of("a") or ({}, "")
    assert round_trips.peers_of("a", version) is None
    round_trips.know({"a": "http://a", "b": "http://elsewhere"})
    peers, other = round_trips.peers_of("a", version) or ({}, "")
    assert (peers, other != version) == ({"b": "http://elsewhere"}, True)


def test_a_pair_has_what_was_measured_and_what_is_estimated() -> None:
    round_trips = _known("a", "b")
    assert round_trips.between("a", "b").error is None
    round_trips.reported(5.0, "a", _at(0), {"b": 40.0})
    round_trips.reported(6.0, "b", _at(30), {})
    pair, back = round_trips.all(["b", "a"])
    assert (pair.source, pair.destination, pair.measured_ms, pair.measured_at_s) == ("a", "b", 40.0, 5.0)
    assert (pair.estimated_ms, pair.error, pair.answered) == (32.0, 0.2, True)
    assert (back.source, back.measured_ms, back.estimated_ms) == ("b", None, 32.0)
    assert round_trips.median_error == 0.2
    assert round_trips.all(["b", "a"], "b") == [back]


def test_who_does_not_answer_is_told_apart_from_who_was_not_measured() -> None:
    """Their coordinates go on estimating a round trip."""
    round_trips = _known("a", "b", "c")
    round_trips.reported(5.0, "a", _at(0), {"b": None})
    round_trips.reported(5.0, "b", _at(30), {})
    assert not round_trips.between("a", "b").answered
    assert round_trips.between("a", "c").answered


def test_names_that_are_no_brokers_and_the_broker_itself_are_left_out() -> None:
    round_trips = _known("a", "b")
    round_trips.reported(5.0, "a", None, {"stranger": 1.0, "a": 1.0})
    assert round_trips.median_error is None
    assert round_trips.between("a", "a").measured_ms is None


def test_nothing_is_left_of_a_broker_that_was_removed() -> None:
    round_trips = _known("a", "b")
    round_trips.reported(5.0, "a", _at(0), {"b": 40.0})
    round_trips.reported(6.0, "b", _at(30), {"a": 41.0})
    round_trips.forget("b")
    assert round_trips.between("a", "b").measured_at_s is None
    assert round_trips.coordinate_of("b") is None


def test_a_newcomer_goes_where_its_round_trips_are_short_and_so_does_who_leaves_a_draining_broker() -> None:
    """A coordinate is known as long as the session is."""
    network = Network("nearest-network")
    for name, x_ms in (("a", 0.0), ("b", 50.0), ("c", 400.0)):
        network.register(name)
        network.handle(HeartbeatReceived(network.now_s, name, measured=Measured(_at(x_ms))))
    assert network.place("bob", located=Located(_at(390))).broker == "c"
    network.claim("c", "ann/phone")
    measured = Measured(located={"ann/phone": Located(_at(45)), "stranger/x": Located(_at(1))})
    network.handle(HeartbeatReceived(network.now_s, "c", measured=measured))
    assert network.move_away("c", "ann/phone")["ann/phone"].broker == "b"
    network.heartbeat("c", ended=("ann/phone",))
    network.claim("c", "ann/phone", "stranger/x")
    assert network.move_away("c", "ann/phone")["ann/phone"].reason == "nearest-network"
    assert network.state.located_of("ann/phone") is network.state.located_of("stranger/x") is None


def _peers_told(network: Network, broker: str, measured: Measured) -> tuple[dict[str, str], str] | None:
    done = network.handle(HeartbeatReceived(network.now_s, broker, measured=measured))
    (answer,) = [one for one in done if isinstance(one, AnswerHeartbeat)]
    return None if answer.peers is None else (dict(answer.peers[0]), answer.peers[1])


def test_brokers_hear_of_peers_with_their_heartbeats_until_those_are_dead_or_removed() -> None:
    network = Network()
    for name in ("a", "b", "c"):
        network.register(name)
    peers, version = _peers_told(network, "a", Measured()) or ({}, "")
    assert peers.keys() == {"b", "c"}
    assert _peers_told(network, "a", Measured(_at(1), {"b": 5.0}, version)) is None
    assert network.state.round_trips.between("a", "b").measured_ms == 5.0
    assert network.state.broker("a", network.now_s).coordinate == _at(1)
    network.pass_time(10, heard=("a", "b"))
    peers, _ = _peers_told(network, "a", Measured(peers_seen=version)) or ({}, "")
    assert peers.keys() == {"b"}
    network.heartbeat("c")
    peers, _ = _peers_told(network, "a", Measured()) or ({}, "")
    assert peers.keys() == {"b", "c"}
    network.pass_time(10, heard=("a", "c"))
    network.handle(BrokerRemoved(network.now_s, "b"))
    peers, _ = _peers_told(network, "a", Measured()) or ({}, "")
    assert peers.keys() == {"c"}
