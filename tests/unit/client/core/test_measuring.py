"""What a subscriber measures, and when, and what it tells."""

from __future__ import annotations

import math
import random

import pytest

from tocsin.client.core.measuring import EVERY_S, MAX_BROKERS, SELDOM_S, Measuring, Ping
from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate
from tocsin.coordinates.located import Located
from tocsin.errors import InvalidValue
from tocsin.protocol.pings import PingAnswer


class Net:
    """Brokers in a row, and a subscriber among them that measures whatever it wants to."""

    def __init__(self, count: int, at_ms: float = 5.0, *, scheme: str = "http") -> None:
        self.at_ms = at_ms
        self.brokers = {f"b{number}": 20.0 * number for number in range(count)}
        self.urls = {name: f"{scheme}://{name}" for name in self.brokers}
        self.now_s = 100.0
        self.pinged: list[tuple[float, str]] = []
        self.told: list[tuple[float, Located]] = []
        #: What every round trip takes in addition.
        self.more_ms = 0.0
        self.slow: dict[str, list[float]] = {}
        self.away: set[str] = set()
        self.measuring = Measuring(random.Random(1))
        self.measuring.connected("b0", self.urls["b0"])

    def answer(self, ping: Ping) -> Located | None:
        if ping.broker in self.away:
            return self.measuring.failed(ping, self.now_s)
        coordinate = Coordinate((self.brokers[ping.broker], *[0.0] * (DIMENSIONS - 1)), 1.0, 0.0, 0.1)
        round_trip_ms = abs(self.brokers[ping.broker] - self.at_ms) + 2.0 + self.more_ms
        if slow := self.slow.get(ping.broker):
            round_trip_ms += slow.pop(0)
        peers = {name: url for name, url in self.urls.items() if name != ping.broker} if ping.wants_peers else {}
        return self.measuring.answered(ping, PingAnswer(ping.broker, coordinate, peers), round_trip_ms, self.now_s)

    def run(self, seconds: float) -> None:
        until_s = self.now_s + seconds
        while True:
            while (ping := self.measuring.next(self.now_s)) is not None:
                self.pinged.append((self.now_s, ping.broker))
                if (located := self.answer(ping)) is not None:
                    self.told.append((self.now_s, located))
            if self.measuring.due_s > until_s:
                self.now_s = until_s
                return
            self.now_s = self.measuring.due_s

    def since(self, time_s: float) -> list[str]:
        return [name for at_s, name in self.pinged if at_s >= time_s]


def test_after_connecting_it_measures_its_broker_and_a_few_others_and_tells_where_it_is() -> None:
    net = Net(20)
    net.run(0)
    assert len(set(net.since(0))) == len(net.pinged) == MAX_BROKERS
    assert net.pinged[0][1] == "b0"
    ((_, located),) = net.told
    assert located.round_trips_ms["b0"] == 7.0
    assert located.round_trips_ms.keys() == set(net.since(0))
    far = Coordinate((200.0, *[0.0] * (DIMENSIONS - 1)), 1.0)
    assert located.round_trip_ms("elsewhere", far) == pytest.approx(197, rel=0.15)


def test_while_nothing_changes_it_measures_more_and_more_seldom_and_tells_nothing() -> None:
    net = Net(6)
    net.run(20)
    first = net.since(100.1)
    assert len(first) == 20 / EVERY_S
    net.run(3600)
    before = net.now_s
    net.run(600)
    assert 600 / SELDOM_S - 1 <= len(net.since(before)) <= 600 / SELDOM_S + 1
    assert set(net.since(before)) == set(net.urls), "each in its turn"
    assert len(net.told) == 1


def test_a_single_slow_ping_changes_nothing() -> None:
    """It is repeated at once, and nothing is told."""
    net = Net(6)
    net.run(60)
    net.slow["b0"] = [500.0]
    net.run(600)
    assert len(net.told) == 1


def test_a_changed_network_is_noticed_with_the_next_ping_and_everything_is_measured_anew() -> None:
    """Within a minute even after hours; at once if the connection was lost, as it mostly is."""
    net = Net(6)
    net.run(7200)
    net.more_ms, changed_s = 60.0, net.now_s
    net.run(SELDOM_S + 1)
    at_s, located = net.told[1]
    assert at_s - changed_s <= SELDOM_S
    assert located.round_trips_ms["b0"] == 67.0
    assert set(located.round_trips_ms) == set(net.urls)
    net.at_ms, changed_s = 40.0, net.now_s
    net.measuring.connected("b0", net.urls["b0"])
    net.run(0)
    at_s, located = net.told[-1]
    assert (at_s, located.round_trips_ms["b0"]) == (changed_s, 102.0)


def test_a_broker_that_does_not_answer_is_left_out_until_it_does() -> None:
    net = Net(3)
    net.away = {"b1"}
    net.run(0)
    assert net.told[-1][1].round_trips_ms.keys() == {"b0", "b2"}
    net.away = set()
    net.run(4 * EVERY_S)
    assert net.told[-1][1].round_trips_ms.keys() == {"b0", "b1", "b2"}


def test_with_one_broker_alone_there_is_nothing_to_tell() -> None:
    """It looks once a minute whether others have come."""
    net = Net(1)
    net.run(600)
    assert (len(net.told), len(net.pinged)) == (0, 11)
    net.brokers["b1"], net.urls["b1"] = 20.0, "http://b1"
    net.run(SELDOM_S)
    assert net.told[-1][1].round_trips_ms.keys() == {"b0", "b1"}


def test_the_token_goes_to_no_address_that_is_less_secret() -> None:
    """Nor to one that is no web address at all."""
    net = Net(4, scheme="https")
    net.urls |= {"b2": "http://b2", "b3": "file:///etc/passwd"}
    net.run(600)
    assert set(net.since(0)) == {"b0", "b1"}


def test_answers_of_an_earlier_connection_count_no_longer() -> None:
    net = Net(3)
    ping = net.measuring.next(net.now_s)
    assert ping is not None
    net.measuring.connected("b2", net.urls["b2"])
    assert net.answer(ping) is None
    assert net.measuring.failed(ping, net.now_s) is None
    net.run(0)
    assert net.pinged[0][1] == "b2"


@pytest.mark.parametrize("round_trip_ms", [math.nan, 0.0, -1.0, math.inf])
def test_what_is_no_round_trip_changes_nothing(round_trip_ms: float) -> None:
    net = Net(3)
    ping = net.measuring.next(net.now_s)
    assert ping is not None
    with pytest.raises(InvalidValue):
        net.measuring.answered(ping, PingAnswer("b0", Coordinate(), {}), round_trip_ms, net.now_s)


def test_before_it_has_connected_it_measures_nothing() -> None:
    measuring = Measuring(random.Random(1))
    assert (measuring.next(1e9), measuring.due_s) == (None, math.inf)
