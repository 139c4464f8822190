"""The registry: equal keys are one subscription, held by brokers, ended by the last, and never numbered twice."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from databases import Database
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.errors import NotFound, NotRegistered


@pytest.fixture
def registry(database: Database) -> SubscriptionRegistry:
    found = SubscriptionRegistry(open_catalogue(database))
    for name in ("a", "b"):
        found.put_broker(name)
    return found


def test_equal_keys_are_one_subscription(registry: SubscriptionRegistry) -> None:
    """Values, channel and permission class make it; brokers share it, and asking again changes nothing."""
    first = registry.subscribe("a", "C", [(1, "x"), (2, "x"), (1, "x")])
    assert first.ids == (1, 2, 1)
    assert [one.id for one in first.created] == [1, 2]
    again = registry.subscribe("b", "C", [(1, "x")])
    assert (again.ids, again.created) == ((1,), ())
    assert registry.subscribe("a", "C", [(1, "x")], "staff").ids == (3,)
    assert registry.subscribe("a", "Other", [(1, "x")]).ids == (4,)
    assert registry.subscribe("a", "C", [("1", "x")]).ids == (5,)
    assert [registry.held_among(one, [1, 2, 4]) for one in ("a", "b")] == [[1, 2, 4], [1]]
    assert registry.held_among("b", [1, 2, 4]) == [1]
    assert registry.counts() == {"C": 4, "Other": 1}


def test_thousands_are_looked_up_at_once(database: Database) -> None:
    """A broker's pull costs no query for each result."""
    engine = open_catalogue(database)
    registry = SubscriptionRegistry(engine)
    registry.put_broker("a")
    ids = registry.subscribe("a", "C", [(number,) for number in range(10_000)]).ids
    asked: list[str] = []
    sa.event.listen(engine, "before_cursor_execute", lambda *given: asked.append(given[2]))
    assert registry.held_among("a", [*ids, 0]) == list(ids)
    assert len(asked) <= 3
    engine.dispose()


def test_the_last_holder_ends_it(registry: SubscriptionRegistry, database: Database) -> None:
    """It lives while anyone holds it; what is asked for afterwards has a new number, also after a restart."""
    registry.subscribe("a", "C", [(1,)])
    registry.subscribe("b", "C", [(1,)])
    assert not registry.unsubscribe("a", [1])
    assert registry.unsubscribe("b", [1, 1]) == {"C": [1]}
    assert registry.find([1]) == {}
    again = SubscriptionRegistry(open_catalogue(database))
    assert again.subscribe("a", "C", [(1,)]).ids == (2,)


def test_letting_go_of_what_is_not_held_changes_nothing(registry: SubscriptionRegistry) -> None:
    """One id that the broker does not hold refuses the whole call."""
    registry.subscribe("a", "C", [(1,), (2,)])
    with pytest.raises(NotFound, match="broker a holds no subscription 9"):
        registry.unsubscribe("a", [1, 9, 2])
    assert [registry.held_among(one, [1, 2]) for one in ("a", "b")] == [[1, 2], []]
    with pytest.raises(NotFound, match="no broker called c"):
        registry.subscribe("c", "C", [(1,)])


def test_a_forgotten_broker_lets_go_of_everything(registry: SubscriptionRegistry) -> None:
    """Only what nobody else holds ends with it."""
    registry.subscribe("a", "C", [(1,), (2,)])
    registry.subscribe("b", "C", [(2,)])
    assert registry.remove_broker("a") == {"C": [1]}
    assert registry.brokers() == ["b"]
    registry.put_broker("b")
    assert registry.brokers() == ["b"]


def test_a_dropped_channel_takes_its_subscriptions_along(registry: SubscriptionRegistry) -> None:
    """Those of other channels stay, and one of the same name has subscriptions of its own, however often it is dropped.
    Brokers hold what ended until they let go of it, so that they are told."""
    registry.subscribe("a", "D", [(1,)])
    for number in (2, 3):
        assert registry.subscribe("a", "C", [(1,)]).ids == (number,)
        registry.end_channel("C")
        assert [one.channel for one in registry.held_by("a")] == ["D"]
        assert registry.held_among("a", [number]) == [number]
    assert registry.counts() == {"D": 1}
    registry.unsubscribe("a", [2])
    assert registry.find([1, 2, 3]).keys() == {1, 3}


def test_subscriptions_that_name_somebody_are_found_and_ended(registry: SubscriptionRegistry) -> None:
    """Those that were asked for with the name as a whole value; nothing of it is kept, and it can be asked for anew."""
    registry.subscribe("a", "C", [("ann", 1), ("anna", 1), ("b", 2)])
    registry.subscribe("a", "D", [("x%", "ann")])
    assert registry.naming("ann") == {"C": [1], "D": [4]}
    assert registry.naming("x%") == {"D": [4]}
    registry.end([1, 4])
    assert registry.naming("ann") == {}
    assert [one.values for one in registry.find([1, 4]).values()] == [(), ()]
    assert registry.counts() == {"C": 2}
    assert registry.subscribe("a", "C", [("ann", 1)]).ids == (5,)


def test_a_broker_that_starts_anew_lets_go_of_what_has_ended(registry: SubscriptionRegistry) -> None:
    """It is not told of it by anybody, so nobody else would let go of it."""
    registry.subscribe("a", "C", [(1,)])
    registry.subscribe("b", "C", [(1,), (2,)])
    registry.subscribe("b", "D", [(1,)])
    registry.end_channel("C")
    registry.forget_ended("b")
    assert registry.find([1, 2, 3]).keys() == {1, 3}
    assert registry.held_among("b", [1, 2, 3]) == [3]


def test_values_come_back_as_they_went_in(registry: SubscriptionRegistry) -> None:
    """Every type of value survives, in order, a page at a time."""
    values = [("é'\"", True, 5, 1 << 40, 0.1, "2026-01-02T03:04:05.000000Z"), ("", False, -5, 0, -0.5, "x")]
    registry.subscribe("a", "C", values)
    assert [one.values for chunk in registry.of_channel("C") for one in chunk] == values
    assert [one.values for one in registry.held_by("a", after=1, limit=1)] == values[1:]


def test_a_failed_subscription_is_known_until_it_ends(registry: SubscriptionRegistry, database: Database) -> None:
    """Its reason is there for whoever asks, also after a restart, and goes with its last holder or its channel."""
    registry.subscribe("a", "C", [(1,), (2,)])
    registry.subscribe("b", "C", [(1,)])
    registry.subscribe("a", "Other", [(1,)])
    for one, channel in ((1, "C"), (2, "C"), (3, "Other"), (9, "C")):
        registry.fail(channel, {one: f"why {one}"}, 7)
    registry.fail("C", {2: "why else"}, 8)
    again = SubscriptionRegistry(open_catalogue(database))
    assert again.failures("C") == {1: "why 1", 2: "why else"}  # The one that had ended is left alone.
    assert again.failed_counts() == {"C": 2, "Other": 1}
    again.unsubscribe("a", [1, 2])
    assert again.failures("C") == {1: "why 1"}
    again.remove_broker("b")
    again.end_channel("Other")
    assert again.failed_counts() == {}


def test_a_broker_is_found_by_its_key(registry: SubscriptionRegistry) -> None:
    """Every pull asks who calls: that reads one row, however many brokers there are."""
    read: list[str] = []

    @sa.event.listens_for(registry._engine, "before_cursor_execute")
    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        read.append(statement)

    registry.check_registered("b")
    (statement,) = read
    assert "WHERE broker.name = " in statement
    with pytest.raises(NotRegistered, match="no broker called c"):
        registry.check_registered("c")


def test_subscriptions_end_with_the_transaction_that_ends_them(database: Database) -> None:
    """Those that end can't be found by their channel any more, so a new one with the same values is another one; that
    their holders are to be notified is known until it is done, also to another process. If the transaction fails,
    nothing has changed."""
    engine = open_catalogue(database)
    registry = SubscriptionRegistry(engine)
    registry.put_broker("b")
    first, second = registry.subscribe("b", "C", [(1,), (2,)]).ids
    registry.fail("C", {first: "no zone"}, 0)

    def break_off() -> None:
        with registry.ending("C", [first], "replaced") as end, engine.begin() as connection:
            end(connection)
            raise RuntimeError("full disk")

    with pytest.raises(RuntimeError):
        break_off()
    assert registry.next_ending() is None
    assert registry.failures("C") == {first: "no zone"}
    with registry.ending("C", [first], "replaced") as end, engine.begin() as connection:
        end(connection)
    again = SubscriptionRegistry(open_catalogue(database))
    assert again.next_ending() == again.next_ending() == ("C", "replaced", [first])
    assert [one.id for chunk in again.of_channel("C") for one in chunk] == [second]
    assert again.failures("C") == {}
    assert again.subscribe("b", "C", [(1,)]).ids[0] not in (first, second)
    assert again.held_among("b", [first]) == [first]
    again.notified([first])
    assert again.next_ending() is None


def test_who_waits_for_a_snapshot_is_known_until_it_is_served(
    registry: SubscriptionRegistry, database: Database
) -> None:
    """In the order of the requests, also by the next process; asking again while one waits changes nothing, and what
    has ended waits no more. Numbers are those of subscriptions, so that none is used twice."""
    registry.subscribe("a", "C", [(1,), (2,)], snapshot=True)
    registry.subscribe("a", "Other", [(1,)], snapshot=True)
    registry.subscribe("b", "C", [(2,)], snapshot=True)
    registry.request_snapshots({1: 0, 2: 1})
    first = [(1, 1, True), (2, 2, True)]
    assert _requests(registry, after=0) == first
    assert _requests(registry, after=1) == first[1:]
    registry.request_snapshots({1: 2, 2: 2})
    again = SubscriptionRegistry(open_catalogue(database))
    assert _requests(again, after=2) == [(4, 1, False), (5, 2, False)]
    assert again.subscribe("a", "C", [(3,)]).ids == (6,)
    again.forget_snapshot_requests("C", 4)
    assert _requests(again, after=0) == [(5, 2, False)]
    again.unsubscribe("a", [2])
    again.unsubscribe("b", [2])
    assert _requests(again, after=0) == []
    assert len(again.snapshot_requests("Other", 0)) == 1


def _requests(registry: SubscriptionRegistry, after: int) -> list[tuple[int, int, bool]]:
    return [(one.number, one.subscription, one.is_first) for one in registry.snapshot_requests("C", after, 10)]
