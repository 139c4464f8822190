"""Subscribers who arrive, and the sessions that were kept for them."""

from __future__ import annotations

import pytest

from tocsin.broker.core.events import (
    Acknowledged,
    BackendsAcquired,
    ConnectionLost,
    Event,
    ReportDue,
    SessionFetched,
    SubscribeAsked,
    SubscriberArrived,
    UnsubscribeAsked,
)
from tocsin.broker.core.instructions import Close, Deliver, FetchHistory, FetchSession, ForgetSession, Report
from tocsin.model.position import Position
from tocsin.protocol.messages import Error, Subscribe, Subscribed, Welcome
from tocsin.protocol.ports import BackendHold, Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from unit.broker.core.driving import FLOOD, Broker


def test_who_comes_last_stays() -> None:
    """A connection that still waits to be let in does not replace the one that was opened after it."""
    broker = Broker()
    broker.live("ann")
    broker.tell(SubscriberArrived(2, "ann", "d", "", 1000, 3600.0, [], 0.0))
    broker.tell(
        SubscriberArrived(3, "ann", "d", "", 1000, 3600.0, [Subscribe("OfType", {"etype": "flood"}, "7-90")], 0.0)
    )
    assert {one.connection for one in broker.all_of(Close)} == {1, 2}
    broker.tell(SessionFetched("ann/d", None, is_certain=True, now_s=0.0))
    assert broker.all_of(Close) == []
    assert broker.state.connection_of("ann/d") == 3


def test_away_and_back() -> None:
    """One who comes back gets what followed its acknowledgement, from memory."""
    broker = Broker()
    broker.live("ann")
    broker.pull((7, 101), (7, 102))
    broker.tell(Acknowledged(1, [Position(7, 101), Position(99, 5)]))
    broker.tell(ConnectionLost(1, 1.0))
    broker.pull((7, 103))
    broker.arrive(2)
    (welcome,) = broker.messages(Welcome)
    assert [one.position for one in welcome.subscriptions] == ["7-101"]
    assert broker.wires() == {2: [b"7-102", b"7-103"]}
    assert not broker.all_of(FetchHistory)


def test_other_permission_class() -> None:
    """What was kept under another permission class is not handed out any more."""
    broker = Broker()
    broker.live("ann")
    broker.tell(ConnectionLost(1, 0.0))
    broker.pull((7, 101))
    broker.arrive(2, "ann", permission="staff")
    (welcome,) = broker.messages(Welcome)
    assert welcome.subscriptions == []
    assert not broker.all_of(Deliver)


@pytest.mark.parametrize(
    "early",
    [
        SubscribeAsked(1, Subscribe("OfType", {"etype": "flood"}, request=7), 0.0),
        UnsubscribeAsked(1, 81, 7, 0.0),
    ],
    ids=["subscribe", "unsubscribe"],
)
def test_whoever_asks_before_welcome_is_told_to_wait(early: Event) -> None:
    """Nothing is dropped in silence: while the coordinator is asked for a session, asking for more is an error."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 1000, 3600.0, [], 0.0))
    assert broker.all_of(FetchSession)
    broker.tell(early)
    assert [(one.request, "welcome" in one.message) for one in broker.messages(Error)] == [(7, True)]


def test_nothing_comes_unannounced() -> None:
    """What is found to have been kept after the welcome is told before it is delivered; not what one may not see."""
    broker = Broker()
    message = Subscribe("OfType", {"etype": "fire"}, "8-50", 1)
    broker.tell(SubscriberArrived(1, "ann", "d", "", 0, 1e9, [message], 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    broker.acquired(fire=8)
    secret = SubscriptionKey.of("OfType", {"etype": "secret"}, "staff")
    kept = KeptSession("ann/d", 4, [Kept(FLOOD, Position(7, 90)), Kept(secret, Position(9, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=0.0))
    pairs = [
        (FLOOD, BackendHold(7, "OfType", {"etype": "flood"}, "", 100)),
        (secret, BackendHold(9, "OfType", {"etype": "secret"}, "staff", 100)),
    ]
    broker.tell(BackendsAcquired(pairs, [], 1, 0.0))
    assert [(one.subscription, one.position, one.request) for one in broker.messages(Subscribed)] == [(7, "7-90", 0)]


def test_who_only_passed_by_is_not_claimed_later() -> None:
    """They may have subscribed elsewhere by then, and that must not be replaced by nothing."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 1000, 3600.0, [], 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=True, now_s=0.0))
    broker.tell(ConnectionLost(1, 1.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []
    broker.tell(SubscriberArrived(2, "ann", "d", "", 1000, 3600.0, [], 2.0))
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")], "as a stranger"
