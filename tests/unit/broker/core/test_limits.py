"""What one user may use at a broker."""

from __future__ import annotations

import pytest

from tocsin.broker.core.events import ConnectionLost, SessionFetched, SubscriberArrived
from tocsin.broker.core.instructions import Acquire, FetchSession, ForgetSession
from tocsin.broker.core.limits import Limits
from tocsin.protocol.messages import Error, Welcome
from unit.broker.core.driving import Broker


@pytest.mark.parametrize("count", [1, 3])
def test_limits(count: int) -> None:
    """A user has so many connections and subscriptions, those being asked for included, and no more."""
    broker = Broker(Limits(max_connections_per_user=1, max_subscriptions_per_user=count))
    broker.arrive(1)
    for at in range(count + 1):
        broker.subscribe(1, f"type-{at}", request=at + 1)
    (error,) = broker.messages(Error)
    assert (error.code, error.request) == ("overloaded", count + 1)
    broker.tell(SubscriberArrived(2, "ann", "other", "", 0, 1e9, [], 0.0))
    assert "1 connections" in broker.messages(Error)[0].message


def test_devices_of_one_user_are_bounded() -> None:
    """What was kept for nobody in particular gives way first, oldest first; then more are refused, with the reason."""
    broker = Broker(Limits(max_sessions_per_user=2))

    def arrive(connection: int, device: str, user: str = "ann") -> None:
        broker.tell(SubscriberArrived(connection, user, device, "", 1000, 3600.0, [], broker.now_s))
        if broker.all_of(FetchSession):
            broker.tell(SessionFetched(f"{user}/{device}", None, is_certain=True, now_s=broker.now_s))

    for connection, device in enumerate(("~1", "~2"), 1):
        arrive(connection, device)
        broker.subscribe(connection, "flood")
        if broker.all_of(Acquire):
            broker.acquired(flood=7)
    for connection in (2, 1):
        broker.now_s += 1
        broker.tell(ConnectionLost(connection, broker.now_s))
    broker.tell(SubscriberArrived(3, "ann", "phone", "", 1000, 3600.0, [], broker.now_s))
    assert broker.all_of(ForgetSession) == [ForgetSession("ann/~2")]
    broker.tell(SessionFetched("ann/phone", None, is_certain=True, now_s=broker.now_s))
    arrive(4, "tablet")  # in place of ~1
    arrive(5, "watch")
    (error,) = broker.messages(Error)
    assert (error.code, error.temporary) == ("overloaded", True)
    assert "ann has 2 devices here" in error.message
    arrive(6, "phone", "bob")
    assert broker.messages(Welcome)
    arrive(7, "phone")  # is one of the two
    assert broker.messages(Welcome)
