"""Who may have which filter, and how filters change."""

from __future__ import annotations

import pytest

from tocsin.broker.core.events import (
    ConnectionFlushed,
    ConnectionLost,
    ReportDue,
    SessionFetched,
    SessionRecalled,
    Started,
    StoreChecked,
)
from tocsin.broker.core.instructions import Report, StoreSubscription
from tocsin.broker.core.limits import Limits
from tocsin.model.position import Position
from tocsin.protocol.messages import Error, Failed, Subscribe, Subscribed, Welcome
from tocsin.protocol.ports import BackendHold, Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from unit.broker.core.driving import COLUMNS, FLOOD, Broker


def one_with(where: str, limits: Limits | None = None) -> Broker:
    broker = Broker(limits)
    broker.arrive(1)
    broker.subscribe(1, "flood", where=where)
    broker.acquired(flood=7)
    broker.pull()
    return broker


def error(broker: Broker) -> Error:
    (found,) = broker.messages(Error)
    return found


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize(
    ("where", "code", "message"),
    [
        ("severity", "statement", "line 1, column 9: expected one of"),
        ("severity > 3 AND severity < 2", "statement", "line 1, column 18: no record can match"),
        ("  ", "statement", "expected a condition"),
        ("severity = 1 --", "statement", "comments are not allowed"),
        ("severity = \0", "statement", "control characters"),
        ("x" * 5000, "too_large", "where: a filter may have 4,096 characters at most, not 5,000"),
    ],
)
def test_a_wrong_filter_changes_nothing(is_held: bool, where: str, code: str, message: str) -> None:
    """Whether the subscription is held with another filter, or is to be acquired first."""
    broker = Broker()
    broker.arrive(1)
    if is_held:
        broker = one_with("severity >= 3")
    broker.subscribe(1, "flood", where=where, request=1)
    if not is_held and code != "too_large":
        broker.acquired(flood=7)
    assert error(broker).code == code
    assert message in error(broker).message
    assert not any(one.where == where for one in broker.all_of(StoreSubscription))
    assert broker.state.frontends == is_held
    broker.pull()
    broker.pull_severities(1, 4)
    assert broker.sequences() == ({1: [102]} if is_held else {})


def test_a_filter_changes_where_the_subscriber_acknowledged() -> None:
    """Everything after that follows the new filter, whatever was sent; the change is stored before the answer, and
    reported."""
    broker = one_with("severity >= 3")
    broker.pull_severities(4, 1, 5)
    broker.subscribe(1, "flood", where="severity < 3", position="7-101")
    (stored,) = broker.all_of(StoreSubscription)
    assert (stored.where, stored.position) == ("severity < 3", Position(7, 101))
    (answer,) = broker.messages(Subscribed)
    assert (answer.where, answer.position) == ("severity < 3", "7-101")
    assert broker.sequences() == {1: [102]}
    broker.tell(ConnectionFlushed(1))
    broker.pull_severities(1, 4)
    assert broker.sequences() == {1: [104]}
    broker.subscribe(1, "flood")
    assert broker.messages(Subscribed)[0].where == ""
    broker.tell(ConnectionFlushed(1))
    broker.pull_severities(4)
    assert broker.sequences()[1][-1] == 106


def test_a_store_that_takes_nothing_keeps_the_filter() -> None:
    """The change would be gone with this process."""
    broker = one_with("severity >= 3")
    broker.tell(StoreChecked("full"))
    broker.subscribe(1, "flood", where="severity = 1")
    assert error(broker).temporary
    broker.subscribe(1, "flood", where="severity >= 3")
    assert broker.messages(Subscribed)


def test_a_session_has_so_many_filters_only() -> None:
    """Those that wait for the cluster count, and another filter for the same subscription does not."""
    broker = one_with("severity >= 3", Limits(max_filters_per_session=2))
    broker.subscribe(1, "flood", where="severity >= 4")
    assert broker.messages(Subscribed)
    broker.subscribe(1, "fire", where="severity >= 4", request=2)
    broker.subscribe(1, "storm", where="severity >= 4", request=3)
    assert error(broker).code == "overloaded"
    broker.subscribe(1, "storm", request=3)
    assert not broker.messages(Error)
    broker.subscribe(1, "flood", where="severity >= 4")
    assert broker.messages(Subscribed)


def test_reading_filters_takes_no_more_than_its_time() -> None:
    """Who changes a large filter again and again is told to wait; some time later it goes on."""
    broker = one_with("")
    wheres = [f"severity > {number} OR severity IN ({', '.join(map(str, range(500)))})" for number in range(200)]
    for where in wheres:
        broker.subscribe(1, "flood", where=where)
        if broker.messages(Error):
            break
    assert error(broker).code == "overloaded"
    in_force = broker.state.kept()[0].subscriptions[0].where
    broker.subscribe(1, "flood", where=in_force)
    assert not broker.messages(Error)
    broker.state.handle(StoreChecked(""))
    broker.now_s = 10.0
    broker.subscribe(1, "flood", where="severity > 1")
    assert broker.messages(Subscribed)


def test_filters_outlive_the_process_and_go_to_other_brokers() -> None:
    """In what is stored, reported, and told at `welcome`."""
    kept = KeptSession("ann/d", 1, [Kept(FLOOD, Position(7, 90), "severity = 4")])
    broker = Broker()
    broker.tell(Started([kept], [BackendHold(7, "OfType", {"etype": "flood"}, "", 100, columns=COLUMNS)], 100, 0.0))
    assert broker.state.kept() == [kept]
    broker.arrive(1)
    (welcome,) = broker.messages(Welcome)
    assert [one.where for one in welcome.subscriptions] == ["severity = 4"]
    broker.tell(ConnectionLost(1, 0.0))
    broker.arrive(2, "ann", Subscribe("OfType", {"etype": "flood"}, "7-95", 1, "severity = 5"))
    assert broker.state.kept()[0].subscriptions == [Kept(FLOOD, Position(7, 95), "severity = 5")]
    broker.tell(ReportDue())
    (report,) = broker.all_of(Report)
    assert [one.where for one in report.changed["ann/d"][2].subscriptions] == ["severity = 5"]


def test_what_does_not_fit_any_more_is_given_up() -> None:
    """A stored filter on a column that is gone: its subscriber is told if it is here, and asks anew if it comes."""
    kept = KeptSession("ann/d", 1, [Kept(FLOOD, Position(7, 90), "gone = 4")])
    broker = Broker()
    broker.tell(Started([kept], [BackendHold(7, "OfType", {"etype": "flood"}, "", 100, columns=COLUMNS)], 100, 0.0))
    assert broker.state.kept()[0].subscriptions == []
    broker.arrive(1)
    other = SubscriptionKey.of("OfType", {"etype": "fire"}, "")
    broker.tell(SessionRecalled("bob/d", KeptSession("bob/d", 1, [Kept(other, Position(8, 90), "gone = 4")]), 0.0))
    broker.acquired(fire=8)
    assert not broker.messages(Failed)


def test_a_cluster_that_does_not_say_its_columns_gets_no_filters() -> None:
    """An older one, for example."""
    broker = Broker()
    broker.tell(Started([], [BackendHold(7, "OfType", {"etype": "flood"}, "", 100)], 100, 0.0))
    broker.arrive(1)
    broker.subscribe(1, "flood", where="severity = 1")
    assert error(broker).code == "invalid_value"
    assert "does not say which columns" in error(broker).message


@pytest.mark.parametrize("is_held", [True, False])
@pytest.mark.parametrize(
    ("theirs", "expected"),
    [
        # It was carried on elsewhere, and its filter changed there; the earlier position does no harm.
        (Kept(FLOOD, Position(7, 95), "severity = 5"), Kept(FLOOD, Position(7, 90), "severity = 5")),
        # Ours is as far on: it was stored last.
        (Kept(FLOOD, Position(7, 90), "severity = 5"), Kept(FLOOD, Position(7, 90), "severity = 4")),
        (Kept(FLOOD, Position(7, 80), "severity = 5"), Kept(FLOOD, Position(7, 90), "severity = 4")),
    ],
)
def test_an_older_copy_of_a_session_takes_the_later_filter(is_held: bool, theirs: Kept, expected: Kept) -> None:
    """Ours is from our store, and another broker has carried it on; whether the cluster has answered for it or not."""
    held = [BackendHold(7, "OfType", {"etype": "flood"}, "", 100, columns=COLUMNS)] if is_held else []
    broker = Broker()
    ours = KeptSession("ann/d", 0, [Kept(FLOOD, Position(7, 90), "severity = 4")])
    broker.tell(Started([ours], held, 100, 0.0))
    broker.tell(SessionFetched("ann/d", KeptSession("ann/d", 3, [theirs]), is_certain=True, now_s=0.0))
    assert [one.where for one in broker.all_of(StoreSubscription)] == [expected.where] * (
        expected.where != "severity = 4"
    )
    if not is_held:
        broker.acquired(flood=7)
    assert broker.state.kept()[0].subscriptions == [expected]


@pytest.mark.parametrize("is_held", [True, False])
def test_an_older_copy_of_a_session_takes_the_later_history(is_held: bool) -> None:
    """Ours is of a history that has ended; theirs began after it, and its results since then come."""
    held = [BackendHold(9, "OfType", {"etype": "flood"}, "", 100, columns=COLUMNS)] if is_held else []
    broker = Broker()
    broker.tell(Started([KeptSession("ann/d", 0, [Kept(FLOOD, Position(7, 90))])], held, 100, 0.0))
    if is_held:
        broker.acquired(flood=9)
    theirs = Kept(FLOOD, Position(9, 95), "severity = 5")
    broker.tell(SessionFetched("ann/d", KeptSession("ann/d", 3, [theirs]), is_certain=True, now_s=0.0))
    if not is_held:
        broker.acquired(flood=9)
    assert broker.state.kept()[0].subscriptions == [theirs]
