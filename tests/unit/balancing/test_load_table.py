"""The load model: what is shared is fetched once and sent to each."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.load_table import LoadTable, added, move
from tocsin.testing.assignments import assignment
from worlds.random_assignments import random_assignment

RATES = {"fire": 2.0, "flood": 3.0, "smoke": 5.0}


def test_loads_are_fetched_once_and_sent_to_each() -> None:
    view = assignment({"ann": ("a", "fire flood"), "bob": ("a", "fire"), "cid": ("b", "smoke")}, RATES)
    table = LoadTable.of(view)
    assert table.loads.tolist() == [(2 + 3) + (2 + 3 + 2), 5 + 5]
    assert table.demands.tolist() == [5, 2, 5]


def test_who_is_away_is_fetched_for_but_sent_nothing() -> None:
    view = assignment({"ann": ("a", "fire flood"), "bob": ("a", "fire")}, RATES, away=["ann"])
    assert LoadTable.of(view).loads.tolist() == [(2 + 3) + 2]


def test_a_move_takes_along_what_is_not_shared() -> None:
    view = assignment({"ann": ("a", "fire flood"), "bob": ("a", "fire"), "cid": ("b", "flood")}, RATES)
    table = LoadTable.of(view)
    assert added(table, 0, 1) == 5 + 2
    move(table, 0, 1)
    assert table.loads.tolist() == [2 + 2, (2 + 3) + (5 + 3)]
    assert table.owners.tolist() == [1, 0, 1]
    assert view.owners.tolist() == [0, 0, 1], "the view is frozen"


def test_some_may_be_nowhere() -> None:
    """A table without some subscribers counts nothing for them, and everything for the others."""
    view = assignment({"ann": ("a", "fire"), "bob": ("b", "flood")}, RATES, resting=["bob"])
    table = LoadTable.without(view, view.movable)
    assert table.owners.tolist() == [-1, 1]
    assert table.loads.tolist() == [0, 6]


def test_the_heaviest_come_first_and_of_equals_the_first_by_name() -> None:
    view = assignment({"cid": ("a", "fire"), "bob": ("a", "smoke"), "ann": ("a", "fire")}, RATES)
    order = LoadTable.of(view).heaviest_first(view.movable)
    assert [view.subscribers[number] for number in order] == ["bob", "ann", "cid"]


def test_after_thousands_of_moves_loads_are_what_counting_anew_gives() -> None:
    view = random_assignment(5, subscribers=200, subscriptions=50, brokers=7, each=6)
    table = LoadTable.of(view)
    draw = np.random.default_rng(6)
    for _ in range(5000):
        move(table, int(draw.integers(200)), int(draw.integers(7)))
    assert np.allclose(table.loads, LoadTable.of(view, table.owners).loads, rtol=1e-9)
    assert np.array_equal(table.holders, LoadTable.of(view, table.owners).holders)
