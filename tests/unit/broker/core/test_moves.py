"""Being prepared for people who are to come, adopting those who are away, and sending people off."""

from __future__ import annotations

import random

from tocsin.broker.core.events import ConnectionLost, Ordered, ReportDue, Reported, SessionFetched, Ticked
from tocsin.broker.core.instructions import Acquire, Close, FetchSession, Release, Report
from tocsin.broker.core.limits import Limits
from tocsin.broker.core.machine import BrokerState
from tocsin.model.position import Position
from tocsin.protocol.messages import CLOSE_MOVED, Move, Subscribe, Welcome
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey
from unit.broker.core.driving import Broker

_FLOOD = SubscriptionKey.of("OfType", {"etype": "flood"}, "")


def _prepared(broker: Broker) -> list[str]:
    broker.tell(ReportDue())
    return list(broker.all_of(Report)[0].prepared)


def test_what_is_to_come_is_held_before_it_comes() -> None:
    broker = Broker()
    broker.tell(Ordered({"ann/d": [_FLOOD]}, [], {}, 0.0))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]
    assert _prepared(broker) == []
    broker.acquired(flood=7)
    assert not broker.all_of(Release)
    assert _prepared(broker) == ["ann/d"]
    broker.tell(Reported({}, [], [], {}, 1.0, ["ann/d"]))
    assert _prepared(broker) == []
    broker.arrive(1, "ann", Subscribe("OfType", {"etype": "flood"}, "7-90", 1))
    assert not broker.all_of(Acquire), "no call to the cluster stands between arriving and being served"
    assert broker.messages(Welcome)


def test_orders_wait_until_the_cluster_knows_the_broker() -> None:
    """A broker that is just starting asks the cluster for nothing; orders come again."""
    state = BrokerState("b", Limits(), random.Random(0))
    assert not state.handle(Ordered({"ann/d": [_FLOOD]}, ["bob/d"], {}, 0.0))
    broker = Broker()
    broker.tell(Ordered({"ann/d": [_FLOOD]}, [], {}, 2.0))
    assert broker.all_of(Acquire) == [Acquire([_FLOOD])]


def test_what_is_held_already_is_prepared_at_once() -> None:
    broker = Broker()
    broker.live("bob")
    broker.tell(Ordered({"ann/d": [_FLOOD]}, [], {}, 0.0))
    assert not broker.all_of(Acquire)
    assert _prepared(broker) == ["ann/d"]


def test_if_nobody_comes_it_is_let_go() -> None:
    broker = Broker()
    broker.tell(Ordered({"ann/d": [_FLOOD]}, [], {}, 0.0))
    broker.acquired(flood=7)
    broker.tell(Ticked(59.0))
    assert not broker.all_of(Release)
    broker.tell(Ticked(60.0))
    assert broker.all_of(Release) == [Release([7])]


def test_one_who_is_away_is_adopted() -> None:
    """The session is asked for once, and claimed when everything in it is held."""
    broker = Broker()
    broker.tell(Ordered({}, ["ann/d"], {}, 0.0))
    assert broker.all_of(FetchSession) == [FetchSession("ann/d")]
    broker.tell(Ordered({}, ["ann/d"], {}, 2.0))
    assert not broker.all_of(FetchSession), "it is being asked for already"
    kept = KeptSession("ann/d", 4, [Kept(_FLOOD, Position(7, 90))])
    broker.tell(SessionFetched("ann/d", kept, is_certain=True, now_s=2.0))
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == [], "not before everything is held"
    broker.acquired(flood=7)
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == ["ann/d"]


def test_nobody_is_adopted_while_the_coordinator_can_not_be_asked() -> None:
    broker = Broker()
    broker.tell(Ordered({}, ["ann/d"], {}, 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    assert broker.state.sessions == 0


def test_who_is_sent_off_and_does_not_go_is_closed_with_the_address() -> None:
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(Ordered({}, [], {"ann/d": ("c", "http://c"), "bob/d": ("c", "http://c")}, 0.0))
    assert broker.messages(Move) == [Move(to="http://c", broker="c")] * 2
    broker.tell(ConnectionLost(2, 1.0))
    broker.tell(Ordered({}, [], {"ann/d": ("c", "http://c")}, 9.0))
    broker.tell(Ticked(10.0))
    assert broker.all_of(Close) == [Close(1, CLOSE_MOVED, "carry on at http://c")]
