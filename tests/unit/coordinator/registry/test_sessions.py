"""Who keeps whose session: claims, reports, and who loses what."""

from __future__ import annotations

from tocsin.coordinator.registry.events import ReportedSession
from unit.coordinator.network import Network, held


def network_of(*brokers: str) -> Network:
    network = Network()
    network.register(*brokers)
    return network


def test_a_claim_makes_the_broker_the_owner_with_the_next_generation() -> None:
    """The former owner is told once, with its next heartbeat, even if it reports nothing, and over a restart."""
    network = network_of("a", "b")
    assert network.claim("a", "ann/phone") == {"ann/phone": 1}
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("fire", position="1-5")))
    assert network.claim("b", "ann/phone") == {"ann/phone": 2}
    session = network.state.session("ann/phone")
    assert session is not None
    assert session.subscriptions == held("fire", position="1-5"), "what was subscribed to is not lost by moving"
    network.restart()
    assert network.heartbeat("b").lost == ()
    assert network.heartbeat("a").lost == ("ann/phone",)
    assert network.heartbeat("a").lost == ()


def test_what_is_reported_with_an_older_generation_is_lost() -> None:
    """However often it is reported; the owner's own record stays as it is."""
    network = network_of("a", "b")
    network.claim("a", "ann/phone")
    network.claim("b", "ann/phone")
    network.heartbeat("b", ReportedSession("ann/phone", 2, True, held("fire")))
    for _ in range(2):
        answer = network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("flood")))
        assert answer.lost == ("ann/phone",)
    session = network.state.session("ann/phone")
    assert session is not None
    assert (session.owner, session.subscriptions) == ("b", held("fire"))


def test_one_who_comes_back_is_not_told_to_drop_it() -> None:
    """From a to b and back before a is heard again: a must keep what it has claimed."""
    network = network_of("a", "b")
    network.claim("a", "ann/phone")
    network.claim("b", "ann/phone")
    assert network.claim("a", "ann/phone") == {"ann/phone": 3}
    assert network.heartbeat("a", ReportedSession("ann/phone", 3)).lost == ()
    assert network.heartbeat("b").lost == ("ann/phone",)


def test_a_coordinator_that_forgot_believes_the_brokers() -> None:
    """A session that is not known, or known with an older generation, is the broker's that reports it."""
    network = network_of("a", "b")
    assert network.heartbeat("a", ReportedSession("ann/phone", 7, True, held("fire"))).lost == ()
    assert network.owner_of("ann/phone") == "a"
    assert network.heartbeat("b", ReportedSession("ann/phone", 8)).lost == ()
    assert network.owner_of("ann/phone") == "b"
    assert network.heartbeat("a").lost == ("ann/phone",)


def test_of_two_with_the_same_generation_the_one_where_the_subscriber_is_has_it() -> None:
    """Two brokers that could not ask: the incumbent stays, unless the subscriber is connected to the other only."""
    network = network_of("a", "b")
    network.heartbeat("a", ReportedSession("ann/phone", 0, True))
    assert network.heartbeat("b", ReportedSession("ann/phone", 0, True)).lost == ("ann/phone",)
    network.heartbeat("a", ReportedSession("ann/phone", 0, False))
    assert network.heartbeat("b", ReportedSession("ann/phone", 0, True)).lost == ()
    assert network.heartbeat("a", ReportedSession("ann/phone", 0, False)).lost == ("ann/phone",)
    assert network.owner_of("ann/phone") == "b"


def test_only_the_owner_ends_a_session() -> None:
    """Others may say what they like. An older copy elsewhere can't come back to life after the end."""
    network = network_of("a", "b")
    network.claim("a", "ann/phone")
    network.heartbeat("b", ended=("ann/phone", "nobody/nowhere"))
    assert network.owner_of("ann/phone") == "a"
    network.claim("b", "ann/phone")
    network.heartbeat("b", ended=("ann/phone",))
    assert network.owner_of("ann/phone") is None
    assert network.heartbeat("a", ReportedSession("ann/phone", 1, True)).lost == ("ann/phone",)
    assert network.owner_of("ann/phone") is None
    assert network.stored_sessions == {}
    assert network.state.subscriber_count == 0


def test_one_that_ended_and_began_anew_in_the_same_heartbeat_is_there() -> None:
    """In doubt, a session is kept."""
    network = network_of("a")
    network.claim("a", "ann/phone")
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("fire")), ended=("ann/phone",))
    assert network.owner_of("ann/phone") == "a"


def test_what_has_not_changed_is_not_stored_again() -> None:
    network = network_of("a")
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("fire")))
    network.stored_sessions.clear()
    network.heartbeat("a", ReportedSession("ann/phone", 1, True, held("fire")))
    assert network.stored_sessions == {}
