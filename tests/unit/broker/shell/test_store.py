"""The broker's store: what was applied is there after the process is gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.broker.core.instructions import (
    ForgetSession,
    ForgetSubscription,
    StorePositions,
    StorePresence,
    StoreSession,
    StoreSubscription,
)
from tocsin.broker.shell.store import SessionStore
from tocsin.errors import Unavailable
from tocsin.model.position import Position
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey

_FLOOD = SubscriptionKey.of("OfType", {"etype": "flood"}, "")
_FIRE = SubscriptionKey.of("OfType", {"etype": "fire"}, "staff")


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    store = SessionStore(tmp_path)
    store.apply(
        [
            StoreSession("ann/phone", 3),
            StoreSubscription("ann/phone", _FLOOD, Position(7, 10)),
            StoreSubscription("ann/phone", _FIRE, Position(8, 20)),
            StoreSession("bob/~1", 0),
        ]
    )
    return store


def test_everything_is_there_again(store: SessionStore, tmp_path: Path) -> None:
    """Another process sees all that was applied, without the first one having closed anything."""
    again = SessionStore(tmp_path)
    ann, bob = sorted(again.sessions(), key=lambda one: one.subscriber)
    assert ann.generation == 3
    assert set(ann.subscriptions) == {Kept(_FLOOD, Position(7, 10)), Kept(_FIRE, Position(8, 20))}
    assert bob == KeptSession("bob/~1", 0, [])


def test_positions_move_on(store: SessionStore) -> None:
    """Positions of subscriptions that are kept change; others are not brought back by a late acknowledgement."""
    store.apply([ForgetSubscription("ann/phone", _FIRE)])
    late = [("ann/phone", _FLOOD, Position(7, 15)), ("ann/phone", _FIRE, Position(8, 25))]
    store.apply([StorePositions(late)])
    ann = next(one for one in store.sessions() if one.subscriber == "ann/phone")
    assert list(ann.subscriptions) == [Kept(_FLOOD, Position(7, 15))]


def test_forgotten_sessions_take_their_subscriptions_along(store: SessionStore) -> None:
    """Nothing of a session that was forgotten turns up when the subscriber begins anew."""
    store.apply([ForgetSession("ann/phone"), StoreSession("ann/phone", 0)])
    ann = next(one for one in store.sessions() if one.subscriber == "ann/phone")
    assert ann == KeptSession("ann/phone", 0, [])


def test_all_or_none(store: SessionStore) -> None:
    """Changes that fail half-way leave everything as it was."""
    before = store.sessions()
    with pytest.raises(AttributeError):
        store.apply([ForgetSession("ann/phone"), StoreSubscription("x", None, Position(1, 1))])  # type: ignore[arg-type] # a mistake, on purpose
    assert store.sessions() == before


def test_facts(store: SessionStore, tmp_path: Path) -> None:
    """Facts are kept by name."""
    assert store.fact("key") == ""
    store.store_fact("key", "one")
    store.store_fact("key", "two")
    assert SessionStore(tmp_path).fact("key") == "two"


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """SQLite's own words for it, as an error that is temporary; with room, the same works."""
    store = SessionStore(tmp_path)
    (pages,) = store._db.execute("PRAGMA page_count").fetchone()
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    many = [StoreSession(f"user{number}/{'x' * 100}", 0) for number in range(500)]
    with pytest.raises(Unavailable, match="full"):
        store.apply(many)
    assert store.sessions() == []
    store._db.execute("PRAGMA max_page_count = 1000000")
    store.apply(many)
    assert len(store.sessions()) == 500
    store.close()


def test_how_long_somebody_has_been_away_outlives_the_process(tmp_path: Path) -> None:
    """Who had left is away since then; who was here when the broker ended, since it was last seen at work."""
    now_us = 1_000_000_000
    store = SessionStore(tmp_path, lambda: now_us)
    store.apply([StoreSession("ann/d", 0), StoreSession("bob/d", 0), StorePresence({"ann/d": 7.0, "bob/d": None})])
    store.apply([StoreSession("ann/d", 3)])
    now_us += 5_000_000
    store.check()
    store.close()
    now_us += 20_000_000
    store = SessionStore(tmp_path, lambda: now_us)
    assert {one.subscriber: one.away_s for one in store.sessions()} == {"ann/d": 32.0, "bob/d": 20.0}
    store.close()


def test_a_folder_has_one_identity_for_good(tmp_path: Path) -> None:
    """It is made at the first start, is there at every later one, and no two folders have the same."""
    first = SessionStore(tmp_path / "one").identity()
    assert len(first) == 32
    assert SessionStore(tmp_path / "one").identity() == first
    assert SessionStore(tmp_path / "two").identity() != first


def test_filters_are_kept_as_they_were_written(store: SessionStore, tmp_path: Path) -> None:
    """A changed one takes the place of the one before; positions move on without touching it."""
    store.apply([StoreSubscription("ann/phone", _FLOOD, Position(7, 10), "who = 'O''Neil' AND n > 5")])
    store.apply([StorePositions([("ann/phone", _FLOOD, Position(7, 15))])])
    ann = SessionStore(tmp_path).session("ann/phone")
    assert ann is not None
    assert Kept(_FLOOD, Position(7, 15), "who = 'O''Neil' AND n > 5") in ann.subscriptions
    assert Kept(_FIRE, Position(8, 20)) in ann.subscriptions
