"""Removals: whose results were removed is remembered, for as long as the subscription lasts."""

from __future__ import annotations

import pytest

from databases import Database
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.removals import Removals


@pytest.fixture
def registry(database: Database) -> SubscriptionRegistry:
    registry = SubscriptionRegistry(open_catalogue(database))
    registry.put_broker("b")
    registry.subscribe("b", "C", [(1,), (2,), (3,)])
    return registry


def test_the_newest_that_was_removed_is_remembered(registry: SubscriptionRegistry, database: Database) -> None:
    """Also by another process; a later removal takes the place of an earlier one."""
    removals = Removals(open_catalogue(database))
    removals.note({1: 10, 2: 20})
    removals.note({2: 30})
    again = Removals(open_catalogue(database))
    assert again.find([1, 2, 3]) == {1: 10, 2: 30}
    assert again.find([]) == {}


def test_nothing_is_kept_of_subscriptions_that_have_ended(registry: SubscriptionRegistry, database: Database) -> None:
    """Their ids never come again; what is known of them goes with the next removal."""
    removals = Removals(open_catalogue(database))
    removals.note({1: 10, 2: 20, 99: 5})
    assert removals.find([1, 2, 99]) == {1: 10, 2: 20}
    registry.unsubscribe("b", [2])
    removals.note({2: 30})
    assert removals.find([1, 2]) == {1: 10}


def test_many_at_once(registry: SubscriptionRegistry, database: Database) -> None:
    """More than a statement of SQLite may name."""
    ids = registry.subscribe("b", "C", [(number,) for number in range(40_000)]).ids
    removals = Removals(open_catalogue(database))
    removals.note(dict.fromkeys(ids, 7))
    assert removals.find(ids) == dict.fromkeys(ids, 7)
