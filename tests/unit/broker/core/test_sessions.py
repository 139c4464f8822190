"""What a session holds, and what it lacks."""

from __future__ import annotations

from tocsin.broker.core.session_table import first_state
from tocsin.broker.core.sessions import Session
from tocsin.model.position import Position
from tocsin.model.story import Story
from tocsin.protocol.ports import Kept
from tocsin.protocol.subscription_keys import SubscriptionKey

FLOOD = SubscriptionKey.of("OfType", {"etype": "flood"}, "")
FIRE = SubscriptionKey.of("OfType", {"etype": "fire"}, "")


def session(subscriber: str = "ann/phone") -> Session:
    return Session(subscriber, Story(), first_state(is_owned=False, is_confirmed=True))


def test_a_session_is_whole_once_everything_in_it_was_found() -> None:
    """The position that its subscriber brought counts before the one that was kept: it is the newer one."""
    one = session()
    one.restoring = {FLOOD: Kept(FLOOD, Position(7, 90)), FIRE: Kept(FIRE, Position(8, 50))}
    one.brought = {FLOOD: Kept(FLOOD, Position(7, 95))}
    assert not one.is_whole
    assert one.found(FLOOD) == Kept(FLOOD, Position(7, 95))
    assert not one.lacks(FLOOD)
    assert one.lacks(FIRE)
    assert one.found(FIRE) == Kept(FIRE, Position(8, 50))
    assert one.is_whole
    assert one.found(FIRE) is None


def test_another_broker_is_told_of_what_is_not_held_here_yet() -> None:
    """A subscription on its way is no less kept than one that has arrived."""
    one = session()
    one.restoring = {FLOOD: Kept(FLOOD, Position(7, 90))}
    one.brought = {FIRE: Kept(FIRE, Position(8, 50))}
    kept = {entry.key: entry.position for entry in one.kept().subscriptions}
    assert kept == {FLOOD: Position(7, 90), FIRE: Position(8, 50)}


def test_a_subscriber_is_away_from_when_it_left() -> None:
    """While it is connected it is not away at all."""
    one = session("ann/~1")
    one.left_at_s = 10.0
    assert one.away_s(25.0) == 15.0
    one.connection = 3
    assert one.away_s(25.0) is None
    assert one.is_nameless
    assert (one.user, one.device) == ("ann", "~1")
