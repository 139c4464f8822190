"""Loads follow from sessions, one by one, and come to what counting them anew would give."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tocsin.balancing.views import Load
from tocsin.coordinator.load.broker_loads import Loads
from tocsin.coordinator.load.rates import Rates
from tocsin.coordinator.registry.records import SessionRecord
from unit.coordinator.network import held


def test_a_shared_subscription_comes_in_once_and_goes_out_to_each() -> None:
    loads = Loads(Rates())
    ann = SessionRecord("ann/phone", "a", 1, True, subscriptions=held("fire", "flood"))
    bob = SessionRecord("bob/phone", "a", 1, True, subscriptions=held("fire"))
    loads.replace(None, ann)
    loads.replace(None, bob)
    assert loads.of("a") == Load(incoming=2, outgoing=3)
    assert (loads.subscribers("a"), loads.all_subscribers) == (2, 2)
    moved = SessionRecord("ann/phone", "b", 2, True, subscriptions=ann.subscriptions)
    loads.replace(ann, moved)
    assert (loads.of("a"), loads.of("b")) == (Load(1, 1), Load(2, 2))
    loads.replace(moved, None)
    assert loads.of("b") == Load()
    assert loads.held("b") == {}


def test_who_is_away_makes_their_broker_fetch_but_is_sent_nothing() -> None:
    loads = Loads(Rates())
    away = SessionRecord("ann/phone", "a", 1, False, held("fire", "flood"))
    loads.replace(None, away)
    assert loads.of("a") == Load(incoming=2, outgoing=0)
    loads.replace(away, replace(away, connected=True))
    assert loads.of("a") == Load(incoming=2, outgoing=2)


def test_loads_are_what_counting_anew_gives() -> None:
    """After any number of changes, moves and ends, and whatever the rates have become meanwhile."""
    chance = random.Random(3)
    rates = Rates(bucket_s=1.0, window_s=10.0)
    loads = Loads(rates)
    sessions: dict[str, SessionRecord] = {}
    for step in range(2000):
        name = f"user{chance.randrange(20)}/x"
        after = None
        if chance.random() < 0.9:
            keys = {f"k{chance.randrange(10)}" for _ in range(chance.randrange(5))}
            after = SessionRecord(name, chance.choice("abc"), 1, chance.random() < 0.7, held(*sorted(keys)))
        loads.replace(sessions.pop(name, None), after)
        if after is not None:
            sessions[name] = after
        if chance.random() < 0.05:
            rates.observe(held(f"k{chance.randrange(10)}")[0].key, chance.randrange(100))
            rates.advance(step)
    for broker in "abc":
        mine = [one for one in sessions.values() if one.owner == broker]
        fetched = {one.key for session in mine for one in session.subscriptions}
        sent = [one.key for session in mine if session.connected for one in session.subscriptions]
        assert loads.of(broker).incoming == pytest.approx(sum(map(rates.of, fetched)))
        assert loads.of(broker).outgoing == pytest.approx(sum(map(rates.of, sent)))
        assert loads.subscribers(broker) == len(mine)
