"""What becomes of changes that the store does not take."""

from __future__ import annotations

import pytest

from tocsin.broker.core.instructions import (
    Change,
    ForgetSession,
    ForgetSubscription,
    StorePositions,
    StorePresence,
    StoreSession,
    StoreSubscription,
)
from tocsin.broker.core.storing import Keeper
from tocsin.model.position import Position
from tocsin.protocol.subscription_keys import SubscriptionKey
from worlds.broker_world import FakeStore

FLOOD = SubscriptionKey.of("OfType", {"etype": "flood"}, "")
AT = Position(7, 100)


class Picky(FakeStore):
    """A store that can't take anything about one subscriber."""

    def _apply(self, change: Change) -> None:
        if getattr(change, "subscriber", "") == "bad/d":
            raise ValueError("can't be written")
        super()._apply(change)


def test_a_promise_that_is_not_stored_is_taken_back() -> None:
    """The subscriber is named, with a refusal for the time being; later changes do not bring the promise back."""
    store = FakeStore(is_full=True)
    keeper = Keeper(store)
    unkept = keeper.keep([StoreSession("ann/d", 0), StoreSubscription("ann/d", FLOOD, AT)])
    assert unkept is not None
    assert list(unkept.subscribers) == ["ann/d"]
    assert unkept.refusal.temporary
    assert "the disk is full" in unkept.refusal.message
    store.is_full = False
    assert keeper.keep([]) is None
    assert store.sessions() == []


def test_what_promises_nothing_is_owed_and_stored_first() -> None:
    """A session that has ended is gone for the machine at once, and from the disk as soon as there is room."""
    store = FakeStore()
    keeper = Keeper(store)
    keeper.keep([StoreSession("ann/d", 1), StoreSubscription("ann/d", FLOOD, AT)])
    store.is_full = True
    unkept = keeper.keep([ForgetSession("ann/d")])
    assert unkept is not None
    assert not unkept.subscribers
    assert keeper.owes
    assert keeper.recall("ann/d") is None
    assert store.session("ann/d") is not None
    store.is_full = False
    assert keeper.keep([StoreSession("bob/d", 1)]) is None
    assert not keeper.owes
    assert [one.subscriber for one in store.sessions()] == ["bob/d"]


@pytest.mark.parametrize("is_asked", [False, True])
def test_a_subscription_is_given_up_for_certain_only_if_its_subscriber_waits(is_asked: bool) -> None:
    """Whoever asked to unsubscribe is refused; what the broker gives up by itself is owed."""
    store = FakeStore()
    keeper = Keeper(store)
    keeper.keep([StoreSession("ann/d", 1), StoreSubscription("ann/d", FLOOD, AT)])
    store.is_full = True
    unkept = keeper.keep([ForgetSubscription("ann/d", FLOOD)], is_asked=is_asked)
    assert unkept is not None
    assert (list(unkept.subscribers) == ["ann/d"]) == is_asked
    session = keeper.recall("ann/d")
    assert session is not None
    assert [one.key for one in session.subscriptions] == ([FLOOD] if is_asked else [])


def test_positions_and_presence_go_back_to_the_machine() -> None:
    """It has newer ones soon, so nothing is owed for them."""
    keeper = Keeper(FakeStore(is_full=True))
    unkept = keeper.keep([StorePositions([("ann/d", FLOOD, AT)]), StorePresence({"bob/d": 5.0})])
    assert unkept is not None
    assert (unkept.positions, unkept.presence) == ([("ann/d", FLOOD, AT)], ["bob/d"])
    assert not keeper.owes


def test_one_change_that_is_wrong_harms_no_other() -> None:
    """Changes are then stored one by one, and only whose change is wrong is set back."""
    store = Picky()
    unkept = Keeper(store).keep([StoreSession("ann/d", 1), StoreSession("bad/d", 1), StoreSession("bob/d", 1)])
    assert unkept is not None
    assert list(unkept.subscribers) == ["bad/d"]
    assert "nothing was changed" in unkept.refusal.message
    assert [one.subscriber for one in store.sessions()] == ["ann/d", "bob/d"]
