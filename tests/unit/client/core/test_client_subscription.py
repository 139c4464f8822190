"""How far a client got with one subscription, and what it makes of what brokers say about that."""

from __future__ import annotations

from tocsin.client.core.client_subscription import ClientSubscription
from tocsin.errors import Forbidden, error_of
from tocsin.model.position import Position
from tocsin.protocol.subscription_keys import SubscriptionKey


def test_a_history_that_was_rewound_counts_even_if_it_goes_back() -> None:
    """What comes after the position that the broker names is new, whatever was got before; the application is told."""
    held = ClientSubscription(1, "C", {})
    held.carry_on(Position(7, 100), recovered=True)
    assert held.take(Position(7, 300))
    assert not held.carry_on(Position(7, 200), recovered=False)  # It was got long ago.
    assert not held.take(Position(7, 250))
    assert held.carry_on(Position(7, 200), recovered=False, rewound=True)
    assert not held.carry_on(Position(7, 200), recovered=False, rewound=True)
    assert held.take(Position(7, 250))
    assert held.after == "7-200"


def test_a_history_is_rewound_once_whoever_says_it() -> None:
    """During a move the other broker, which was asked with the position from before, tells it too: what has come since
    is not new again."""
    held = ClientSubscription(1, "C", {})
    held.carry_on(Position(7, 300), recovered=True)
    assert held.carry_on(Position(7, 5000), recovered=False, rewound=True)
    assert held.take(Position(7, 5001))
    assert not held.carry_on(Position(7, 5000), recovered=False, rewound=True)
    assert not held.take(Position(7, 5001))
    assert held.carry_on(Position(7, 9000), recovered=False, rewound=True)


def test_what_was_filled_in_is_known_again() -> None:
    """A broker speaks of a subscription with the parameters that it has filled in; it is the one that was asked for."""
    held = ClientSubscription(1, "NearMe", {"radius_m": 5})
    assert held.keys == {SubscriptionKey.folded("NearMe", {"radius_m": 5})}
    held.answered = SubscriptionKey.folded("nearme", {"radius_m": 5.0, "user_id": "eve"})
    assert {
        SubscriptionKey.folded("NearMe", {"radius_m": 5}),
        SubscriptionKey.folded("NearMe", {"user_id": "eve", "radius_m": 5}),
    } == held.keys


def test_a_channel_that_is_not_granted_is_forbidden() -> None:
    """Programs that know Forbidden need not know more."""
    assert isinstance(error_of({"code": "not_granted", "message": "channel Staff is not granted"}), Forbidden)


def test_a_snapshot_comes_once_and_before_what_is_new() -> None:
    """Whatever order two links bring it in. Until it is over, a notification that is new is in it, or before it."""
    held = ClientSubscription(1, "C", {})
    held.carry_on(Position.parse("7*100"), recovered=True)
    assert not held.take(Position.parse("7-90"), is_new=True)
    assert [held.take(Position.parse(text)) for text in ("7~101", "7~102", "7~101")] == [True, True, False]
    assert not held.take(Position.parse("7-103"), is_new=True)
    assert not held.pass_over(Position.parse("7-200"))
    assert held.take(Position.parse("7-104"))  # its end
    assert not held.take(Position.parse("7~102"))
    assert held.take(Position.parse("7-105"), is_new=True)


def test_a_snapshot_makes_up_for_history_that_is_gone() -> None:
    """Once: the other link says the same during a move. What is new by then, on whatever link, is in the snapshot."""
    held = ClientSubscription(1, "C", {})
    held.carry_on(Position.parse("7-100"), recovered=True)
    assert held.carry_on(Position.parse("7*300"), recovered=False)
    assert held.after == "7*300"
    assert not held.carry_on(Position.parse("7*300"), recovered=False)
    assert not held.take(Position.parse("7-310"), is_new=True)
    assert held.take(Position.parse("7~321"))
    assert held.take(Position.parse("7-322"))
    assert held.take(Position.parse("7-330"), is_new=True)
