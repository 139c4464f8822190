"""A broker's peers: who is measured, what the coordinator is told of it, and what is forgotten."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tocsin.broker.core.peers import Measured, Peers
from tocsin.coordinates.coordinate import DIMENSIONS, ORIGIN, Coordinate
from tocsin.errors import InvalidValue
from tocsin.protocol.coordination import Heartbeat
from tocsin.protocol.pings import MAX_PEERS

_THERE = Coordinate((30.0, *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, 0.1)


def _peers(*names: str) -> Peers:
    peers = Peers(random.Random(1))
    peers.learn({name: f"http://{name}" for name in names}, "v1")
    return peers


def test_who_has_no_peers_measures_nobody() -> None:
    """As a broker that is alone."""
    assert _peers().next() is None


def test_all_peers_are_measured_equally_often() -> None:
    """In no order that could be foreseen."""
    peers = _peers("b", "c", "d")
    counts = Counter(peers.next() for _ in range(3000))
    assert counts.keys() == {("b", "http://b"), ("c", "http://c"), ("d", "http://d")}
    assert min(counts.values()) > 850


def test_what_was_measured_is_told_until_the_coordinator_has_it() -> None:
    peers = _peers("b", "c")
    peers.measured("b", _THERE, 31.5)
    peers.failed("c")
    told = peers.unreported()
    assert told == Measured(peers.coordinate, {"b": 31.5, "c": None})
    assert peers.unreported() == told  # It has not been answered.
    peers.reported(told)
    assert peers.unreported() == Measured(None, {})


def test_what_is_measured_while_a_report_is_under_way_goes_with_the_next_one() -> None:
    peers = _peers("b")
    peers.measured("b", _THERE, 31.5)
    told = peers.unreported()
    for _ in range(3):
        peers.measured("b", _THERE, 50.0)
    peers.reported(told)
    assert peers.unreported() == Measured(peers.coordinate, {"b": 50.0})


def test_a_coordinator_that_has_begun_anew_is_told_everything_again() -> None:
    peers = _peers("b")
    peers.measured("b", _THERE, 31.5)
    peers.reported(peers.unreported())
    peers.untold()
    assert peers.seen == ""
    assert peers.unreported().coordinate == peers.coordinate


def test_peers_that_are_gone_are_neither_measured_nor_told_of() -> None:
    """Not even if the answer of one comes after it has gone."""
    peers = _peers("b", "c")
    peers.measured("b", _THERE, 31.5)
    peers.learn({"c": "http://c"}, "v2")
    peers.measured("b", _THERE, 31.5)
    peers.failed("b")
    assert peers.unreported().round_trips_ms == {}
    assert (peers.next(), peers.seen) == (("c", "http://c"), "v2")


def test_what_is_no_round_trip_changes_nothing() -> None:
    peers = _peers("b")
    with pytest.raises(InvalidValue):
        peers.measured("b", _THERE, 0.0)
    assert peers.coordinate == ORIGIN
    assert peers.unreported().round_trips_ms == {}


def test_no_list_of_peers_makes_a_report_that_can_not_be_sent() -> None:
    """Too many, and names that are none, are left out."""
    peers = Peers(random.Random(1))
    peers.learn({**{f"b{number:03}": "http://b" for number in range(500)}, "a b": "http://x", "": "http://y"}, "v1")
    for name in ("a b", "", "b499"):
        peers.failed(name)
    for number in range(500):
        peers.measured(f"b{number:03}", _THERE, 31.5)
    measured = peers.unreported()
    assert len(measured.round_trips_ms) == MAX_PEERS
    Heartbeat(coordinate=measured.coordinate, round_trips_ms=dict(measured.round_trips_ms))
