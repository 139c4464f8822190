"""Sessions that are kept here: which are ours, and for how long."""

from __future__ import annotations

import pytest

from tocsin.broker.core.events import (
    BackendsReleased,
    Claimed,
    ConnectionLost,
    ReportDue,
    Reported,
    SessionFetched,
    SubscriberArrived,
    Ticked,
    UnsubscribeAsked,
)
from tocsin.broker.core.instructions import Acquire, Close, FetchSession, ForgetSession, Release, Report, StorePresence
from tocsin.broker.core.limits import Limits
from tocsin.model.position import Position
from tocsin.protocol.messages import CLOSE_MOVED, Subscribe, Welcome
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from unit.broker.core.driving import FLOOD, Broker


def test_stranger_is_claimed_once_all_is_held() -> None:
    """A session from elsewhere is taken over whole: first everything is acquired, then welcome, then the claim."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 1000, 3600.0, [], 0.0))
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    kept = KeptSession("ann/d", 4, [Kept(FLOOD, Position(7, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=0.0))
    assert not broker.messages(Welcome)
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []
    broker.acquired(flood=7)
    (welcome,) = broker.messages(Welcome)
    assert [one.position for one in welcome.subscriptions] == ["7-90"]
    broker.tell(ReportDue())
    (report,) = broker.all_of(Report)
    assert report.claims == ["ann/d"]
    assert report.changed == {}
    broker.tell(Claimed({"ann/d": 5}))
    broker.tell(SessionFetched("ann/d", KeptSession("ann/d", 5, []), is_certain=True, now_s=broker.now_s))
    broker.tell(ReportDue())
    (report,) = broker.all_of(Report)
    (_, connected, session) = report.changed["ann/d"]
    assert connected
    assert session.generation == 5


def test_what_was_never_claimed_is_claimed_with_what_others_added() -> None:
    """A session from our store that we had not claimed may have gone on elsewhere: that is taken in first."""
    fire = SubscriptionKey.of("OfType", {"etype": "fire"}, "")
    broker = Broker(sessions=[KeptSession("ann/d", 0, [Kept(fire, Position(6, 90))])])
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    assert broker.all_of(Acquire) == [Acquire([fire])]
    broker.acquired(fire=6)
    kept = KeptSession("ann/d", 4, [Kept(FLOOD, Position(7, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=0.0))
    assert broker.all_of(Acquire) == [Acquire([FLOOD])]
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []
    broker.acquired(flood=7)
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == ["ann/d"]


def test_what_was_never_claimed_and_holds_nothing_is_forgotten() -> None:
    broker = Broker(sessions=[KeptSession("ann/d", 0, [])])
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == []


def test_lost_session() -> None:
    """Another broker has it: the connection is closed, all is forgotten, and the hold is kept a while longer."""
    broker = Broker(sessions=[KeptSession("ann/d", 2, [])])
    broker.live("ann")
    broker.reported()
    broker.tell(Reported({}, [], ["ann/d"], {}, 50.0))
    (closed,) = broker.all_of(Close)
    assert closed.code == CLOSE_MOVED
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    assert not broker.all_of(Release)
    broker.tell(Ticked(60.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(81.0))
    assert broker.all_of(Release) == [Release([7])]


@pytest.mark.parametrize("is_refused", [False, True], ids=["not reported", "report refused"])
def test_what_nobody_else_knows_of_is_held_longer(is_refused: bool) -> None:
    """Another broker has claimed the session before the coordinator heard of its last subscription: only the subscriber
    can bring that one there, and it may be away for a while. What was reported is let go of as usual."""
    broker = Broker(sessions=[KeptSession("ann/d", 2, [])])
    broker.live("ann")
    broker.reported()
    broker.subscribe(1, "fire")
    broker.acquired(fire=8)
    if is_refused:
        broker.reported(lost=["ann/d"], now_s=50.0)
    else:
        broker.tell(Reported({}, [], ["ann/d"], {}, 50.0))
    broker.tell(Ticked(81.0))
    assert broker.all_of(Release) == [Release([7])]
    broker.tell(BackendsReleased(81.0))
    broker.tell(Ticked(500.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(651.0))
    assert broker.all_of(Release) == [Release([8])]


def test_what_lingers_is_not_cut_short_by_others_who_leave() -> None:
    """Ann is served elsewhere from now on, perhaps not yet; that bob unsubscribes must not end what she held."""
    broker = Broker(sessions=[KeptSession("ann/d", 1, []), KeptSession("bob/d", 1, [])])
    broker.live("ann", "bob")
    broker.reported()
    broker.tell(Reported({}, [], ["ann/d"], {}, 10.0))
    broker.tell(UnsubscribeAsked(2, 7, 1, 11.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(39.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(40.0))
    assert broker.all_of(Release) == [Release([7])]


def test_retention_goes_on_through_restarts() -> None:
    """Who has been away for nearly as long as is kept has little time left, however often the broker begins again."""
    limits = Limits(device_retention_s=100)
    sessions = [KeptSession("ann/d", 2, [], away_s=90), KeptSession("bob/d", 2, [], away_s=0)]
    broker = Broker(limits, sessions)
    broker.tell(Ticked(5.0))
    assert broker.all_of(StorePresence) == [StorePresence({"ann/d": 95.0, "bob/d": 5.0})]
    assert not broker.all_of(ForgetSession)
    broker.tell(Ticked(11.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/d")]
    broker.now_s = 12.0
    broker.arrive(1, "bob")
    broker.tell(Ticked(13.0))
    assert broker.all_of(StorePresence) == [StorePresence({"bob/d": None})]


def test_nameless_devices_are_kept_for_a_short_while() -> None:
    """A device without a name is forgotten after a minute, one with a name after a week."""
    broker = Broker()
    flood = Subscribe("OfType", {"etype": "flood"}, "", 1)
    broker.tell(SubscriberArrived(1, "ann", "~x", "", 0, 1e9, [flood], 0.0))
    broker.tell(SessionFetched("ann/~x", None, is_certain=True, now_s=0.0))
    broker.arrive(2, "bob", flood)
    broker.acquired(flood=7)
    broker.tell(ConnectionLost(1, 0.0))
    broker.tell(ConnectionLost(2, 0.0))
    broker.tell(Ticked(61.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/~x")]
    broker.tell(Ticked(8 * 24 * 3600.0))
    assert broker.all_of(ForgetSession) == [ForgetSession("bob/d")]
