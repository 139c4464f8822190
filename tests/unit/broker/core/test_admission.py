"""Who is let in, and who is turned away."""

from __future__ import annotations

from tocsin.broker.core.events import (
    ConnectionLost,
    DrainEnded,
    DrainStarted,
    MovesPlaced,
    ReportDue,
    SessionFetched,
    SubscriberArrived,
)
from tocsin.broker.core.instructions import Close, FetchSession, Report, RequestMoves
from tocsin.broker.core.limits import Limits
from tocsin.protocol.messages import CLOSE_DRAINING, Error, Move, Welcome
from unit.broker.core.driving import Broker


def test_those_who_wait_to_be_let_in_count() -> None:
    """A user who opens connections faster than the coordinator answers gets no more of them than others."""
    broker = Broker(Limits(max_connections_per_user=2, max_connections=3))
    for connection in (1, 2, 3):
        broker.tell(SubscriberArrived(connection, "ann", f"d{connection}", "", 1000, 3600.0, [], 0.0))
    assert broker.messages(Error)
    broker.tell(SubscriberArrived(4, "bob", "d", "", 1000, 3600.0, [], 0.0))
    broker.tell(SubscriberArrived(5, "cid", "d", "", 1000, 3600.0, [], 0.0))
    assert broker.messages(Error)
    broker.tell(ConnectionLost(1, 0.0))
    broker.tell(SubscriberArrived(6, "ann", "d6", "", 1000, 3600.0, [], 0.0))
    assert not broker.messages(Error)


def test_nobody_is_let_in_to_less_than_was_kept() -> None:
    """While the coordinator can't be asked, a device that brings no positions has to come again; one that does, or that
    has no name, is let in, and claimed only when the coordinator has answered."""
    broker = Broker()
    broker.tell(SubscriberArrived(1, "ann", "d", "", 0, 1e9, [], 0.0))
    broker.tell(SessionFetched("ann/d", None, is_certain=False, now_s=0.0))
    assert broker.messages(Error)[0].temporary
    assert broker.all_of(Close)
    broker.tell(SubscriberArrived(2, "bob", "~x", "", 0, 1e9, [], 0.0))
    broker.tell(SessionFetched("bob/~x", None, is_certain=False, now_s=0.0))
    assert broker.messages(Welcome)
    broker.tell(ReportDue())
    assert broker.all_of(FetchSession) == [FetchSession("bob/~x")]
    assert broker.all_of(Report)[0].claims == []
    broker.tell(SessionFetched("bob/~x", None, is_certain=True, now_s=0.0))
    broker.tell(ReportDue())
    assert broker.all_of(Report)[0].claims == ["bob/~x"]


def test_draining() -> None:
    """Those with a place to go are sent there, the rest is closed, and nobody new is taken."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(DrainStarted(is_ending=True, now_s=1.0))
    assert broker.all_of(RequestMoves) == [RequestMoves(["ann/d", "bob/d"])]
    broker.tell(MovesPlaced({"ann/d": ("other", "http://other")}))
    (move,) = broker.messages(Move)
    assert (move.to, move.broker) == ("http://other", "other")
    assert 0 <= move.after_ms <= 10_000
    assert [(one.connection, one.code) for one in broker.all_of(Close)] == [(2, CLOSE_DRAINING)]
    broker.arrive(3, "carol")
    (error,) = broker.messages(Error)
    assert error.temporary


def test_draining_for_an_operator() -> None:
    """Those who have nowhere to go stay; when the operator has changed their mind, newcomers are taken again."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(DrainStarted(is_ending=False, now_s=1.0))
    broker.tell(MovesPlaced({"ann/d": ("other", "http://other")}))
    assert broker.messages(Move)
    assert not broker.all_of(Close)
    broker.arrive(3, "carol")
    assert broker.messages(Error)
    broker.tell(DrainEnded())
    broker.arrive(4, "carol")
    assert broker.messages(Welcome)
