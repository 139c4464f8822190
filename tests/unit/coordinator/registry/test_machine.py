"""The machine: brokers' states and names, their subscribers and loads."""

from __future__ import annotations

import pytest

from tocsin.coordinator.registry.events import (
    BrokerModeSet,
    BrokerRemoved,
    ReportedSession,
    UserRemoved,
)
from tocsin.coordinator.registry.instructions import AnswerBroker
from tocsin.errors import InUse, InvalidValue, NotFound, Unavailable
from tocsin.protocol.coordination import BrokerState
from unit.coordinator.network import Network, held


def test_a_dead_brokers_subscribers_keep_their_sessions() -> None:
    """Silence is never emptiness: until they claim elsewhere the record stays, and they are placed elsewhere."""
    network = Network()
    network.register("a", "b")
    network.claim("a", "ann/phone")
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("fire")))
    network.pass_time(5, heard=("b",))
    session = network.state.session("ann/phone")
    assert session is not None
    assert (session.owner, session.subscriptions) == ("a", held("fire"))
    assert network.place("ann", "phone").broker == "b"
    assert network.owner_of("ann/phone") == "a", "a placement alone moves nothing"
    assert network.claim("b", "ann/phone") == {"ann/phone": 2}
    assert network.heartbeat("a").lost == ("ann/phone",)


def test_a_broker_that_shuts_down_drains_until_it_registers_again() -> None:
    """What it says of itself lasts as long as it says so; what operators say lasts longer."""
    network = Network()
    network.register("a")
    assert network.heartbeat("a", draining=True).state is BrokerState.DRAINING
    with pytest.raises(Unavailable):
        network.place()
    network.register("a")
    assert network.place().broker == "a"
    network.handle(BrokerModeSet("a", BrokerState.DRAINING))
    network.register("a")
    assert network.state_of("a") is BrokerState.DRAINING
    network.restart()
    assert network.state_of("a") is BrokerState.DRAINING


def test_a_broker_is_removed_only_when_it_is_not_in_use() -> None:
    """Active and heard of: refused. Its subscribers' sessions stay, but for devices without a name."""
    network = Network()
    network.register("a", "b")
    network.claim("a", "ann/phone", "ann/~1")
    with pytest.raises(InUse):
        network.handle(BrokerRemoved(network.now_s, "a"))
    network.pass_time(5, heard=("b",))
    network.handle(BrokerRemoved(network.now_s, "a"))
    assert network.owner_of("ann/phone") == "a"
    assert network.owner_of("ann/~1") is None
    assert network.place("ann", "phone").broker == "b"
    with pytest.raises(NotFound):
        network.heartbeat("a")
    network.restart()
    assert network.owner_of("ann/phone") == "a"
    assert network.claim("b", "ann/phone") == {"ann/phone": 2}


def test_operators_cannot_set_a_broker_to_dead() -> None:
    network = Network()
    network.register("a")
    with pytest.raises(InvalidValue):
        network.handle(BrokerModeSet("a", BrokerState.DEAD))
    assert network.answer(BrokerModeSet("a", BrokerState.ACTIVE), AnswerBroker).state is BrokerState.ACTIVE


def test_whoever_takes_a_removed_users_name_finds_nothing_of_theirs() -> None:
    """The sessions are gone at once, and brokers that keep them are told to drop them."""
    network = Network()
    network.register("a")
    network.claim("a", "ann/phone", "anna/phone")
    network.handle(UserRemoved("ann"))
    assert network.owner_of("ann/phone") is None
    assert network.owner_of("anna/phone") == "a"
    network.restart()
    assert network.heartbeat("a", ReportedSession("ann/phone", 1)).lost == ("ann/phone",)
    assert "ann/phone" not in network.stored_sessions
    assert network.state.subscriber_count == 1


def test_loads_are_what_brokers_fetch_and_send_in_bytes_per_second() -> None:
    """Both brokers fetch floods, and tell so; it counts once."""
    network = Network()
    network.register("a", "b")
    for broker, names in (("a", ("ann", "bob")), ("b", ("cid",))):
        subscribers = [f"{name}/phone" for name in names]
        generations = network.claim(broker, *subscribers)
        sessions = [ReportedSession(one, generations[one], True, held("flood")) for one in subscribers]
        network.heartbeat(broker, *sessions)
    for _ in range(140):
        network.heartbeat("a", pulled={"flood": 50})
        network.pass_time(0.5)
        network.heartbeat("b", pulled={"flood": 50})
    reports = {one.record.name: one.load for one in network.state.brokers(network.now_s)}
    assert (reports["a"].incoming, reports["a"].outgoing) == (pytest.approx(100, rel=0.1), pytest.approx(200, rel=0.1))
    assert (reports["b"].incoming, reports["b"].outgoing) == (pytest.approx(100, rel=0.1), pytest.approx(100, rel=0.1))
    assert network.state.balance().brokers == ("a", "b")
    view = network.state.assignment(resting={"cid/phone"})
    assert view.subscribers == ("ann/phone", "bob/phone", "cid/phone")
    assert view.movable.tolist() == [True, True, False]
    assert view.rates.tolist() == [pytest.approx(100, rel=0.1)]


def test_a_rate_outlives_a_move_but_not_its_last_holder() -> None:
    network = Network()
    network.register("a", "b")
    network.claim("a", "ann/phone")
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("flood")), pulled={"flood": 10})
    network.pass_time(30, heard=("a", "b"))
    assert len(network.state.rates) == 1
    network.claim("b", "ann/phone")
    network.heartbeat("b", ReportedSession("ann/phone", 2, True, held("flood")))
    assert len(network.state.rates) == 1
    network.heartbeat("b", ended=("ann/phone",))
    assert len(network.state.rates) == 0


def test_where_subscribers_are_is_known_while_a_session_is_kept_for_them() -> None:
    network = Network()
    network.register("a", "b")
    network.claim("a", "ann/phone")
    network.heartbeat(
        "a", ReportedSession("ann/phone", 1, True), locations={"ann/phone": (1.0, 2.0), "bob/phone": (3.0, 4.0)}
    )
    assert network.state.location_of("ann/phone") == (1.0, 2.0)
    assert network.state.location_of("bob/phone") is None, "nothing is kept for bob"
    network.claim("b", "ann/phone")
    assert network.state.location_of("ann/phone") == (1.0, 2.0), "a move changes nothing"
    network.heartbeat("b", ended=("ann/phone",))
    assert network.state.location_of("ann/phone") is None
