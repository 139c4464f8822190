"""What connected subscribers say, and what ends their connections."""

from __future__ import annotations

from tocsin.broker.core.events import Acknowledged, ConnectionCongested, ConnectionFlushed, Reported, Ticked
from tocsin.broker.core.instructions import Close, StorePositions
from tocsin.broker.core.limits import Limits
from tocsin.model.position import Position
from tocsin.protocol.messages import CLOSE_EXPIRED, CLOSE_REFUSED, CLOSE_SLOW
from unit.broker.core.driving import FLOOD, Broker


def test_acknowledging_the_future_skips_nothing() -> None:
    """Nobody can have seen what was not sent, whatever they say."""
    broker = Broker()
    broker.live("ann")
    broker.pull((7, 101))
    broker.tell(Acknowledged(1, [Position(7, 10**15)]))
    broker.tell(Ticked(1.0))
    assert broker.all_of(StorePositions) == [StorePositions([("ann/d", FLOOD, Position(7, 101))])]


def test_revoked_and_expired_tokens_end_connections() -> None:
    """Those whose token was issued before the revocation are closed; so are those whose token has run out."""
    broker = Broker()
    broker.live("ann", "bob")
    broker.tell(Reported({}, [], [], {"ann": 999}, 1.0))
    assert not broker.all_of(Close)
    broker.tell(Reported({}, [], [], {"ann": 1001}, 1.0))
    assert [(one.connection, one.code) for one in broker.all_of(Close)] == [(1, CLOSE_REFUSED)]
    broker.tell(Ticked(3600.0))
    assert [(one.connection, one.code) for one in broker.all_of(Close)] == [(2, CLOSE_EXPIRED)]


def test_slow_reader_is_parked_then_closed() -> None:
    """Nothing more is sent to who does not read; after a while the connection is closed, and others never notice."""
    broker = Broker(Limits(slow_after_s=5))
    broker.live("ann", "bob")
    broker.tell(ConnectionCongested(1, 10.0))
    broker.pull((7, 101))
    assert set(broker.wires()) == {2}
    broker.tell(Ticked(14.0))
    assert not broker.all_of(Close)
    broker.tell(Ticked(15.0))
    (closed,) = broker.all_of(Close)
    assert (closed.connection, closed.code) == (1, CLOSE_SLOW)


def test_parked_reader_that_reads_on_misses_nothing() -> None:
    """Once it has read, it gets what came meanwhile, and is live again."""
    broker = Broker()
    broker.live("ann")
    broker.tell(ConnectionCongested(1, 10.0))
    broker.pull((7, 101))
    broker.tell(ConnectionFlushed(1))
    assert broker.wires() == {1: [b"7-101"]}
    broker.pull((7, 102))
    assert broker.wires() == {1: [b"7-102"]}
