"""Loads follow from sessions, one by one, and come to what counting them anew would give."""

from __future__ import annotations

import random

from tocsin.coordinator.loads import BrokerView, Load, Loads, rate_of
from tocsin.coordinator.records import SessionRecord
from unit.coordinator.network import held


def test_a_shared_subscription_comes_in_once_and_goes_out_to_each() -> None:
    loads = Loads()
    ann = SessionRecord("ann/phone", "a", 1, subscriptions=held("fire", "flood"))
    bob = SessionRecord("bob/phone", "a", 1, subscriptions=held("fire"))
    loads.replace(None, ann)
    loads.replace(None, bob)
    assert loads.of("a") == Load(incoming=2, outgoing=3)
    assert (loads.subscribers("a"), loads.all_subscribers) == (2, 2)
    moved = SessionRecord("ann/phone", "b", 2, subscriptions=ann.subscriptions)
    loads.replace(ann, moved)
    assert (loads.of("a"), loads.of("b")) == (Load(1, 1), Load(2, 2))
    loads.replace(moved, None)
    assert loads.of("b") == Load()
    assert loads.held("b") == {}


def test_loads_are_what_counting_anew_gives() -> None:
    """After any number of changes, moves and ends."""
    chance = random.Random(3)
    loads = Loads()
    sessions: dict[str, SessionRecord] = {}
    for _ in range(2000):
        name = f"user{chance.randrange(20)}/x"
        after = None
        if chance.random() < 0.9:
            keys = [f"k{chance.randrange(10)}" for _ in range(chance.randrange(5))]
            after = SessionRecord(name, chance.choice("abc"), 1, subscriptions=held(*keys))
        loads.replace(sessions.pop(name, None), after)
        if after is not None:
            sessions[name] = after
    for broker in "abc":
        mine = [one for one in sessions.values() if one.owner == broker]
        holds = [one.key for session in mine for one in session.subscriptions]
        assert loads.of(broker) == Load(sum(map(rate_of, set(holds))), sum(map(rate_of, holds)))
        assert loads.subscribers(broker) == len(mine)


def test_what_a_newcomer_adds_depends_on_what_is_shared() -> None:
    keys = [one.key for one in held("fire", "flood")]
    view = BrokerView("a", capacity=2.0, load=Load(1, 5), held={keys[0]: 5})
    assert view.added(keys) == 3
    assert view.resulting_score(keys) == (6 + 3) / 2
