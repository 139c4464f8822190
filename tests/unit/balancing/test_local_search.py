"""The search that moves one subscriber at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.local_search import search
from tocsin.testing.assignments import assignment
from worlds.random_assignments import random_assignment

RATES = {"fire": 2.0, "flood": 3.0, "smoke": 5.0}


def test_a_budget_of_one_goes_to_who_gains_most() -> None:
    """The heavy subscriber moves, not one of the light ones before it."""
    view = assignment({"ann": ("a", "fire"), "bob": ("a", "fire"), "cid": ("a", "flood smoke")}, RATES, ["b"])
    owners = search(LoadTable.of(view), view.movable, max_moves=1)
    assert [view.brokers[owner] for owner in owners] == ["a", "a", "b"]


@pytest.mark.parametrize("max_moves", [None, 0, 5])
def test_the_highest_score_never_rises(max_moves: int | None) -> None:
    """Whatever is tried on the way, the result is no worse than the start, and keeps to the budget."""
    view = random_assignment(3, subscribers=60, subscriptions=12, brokers=4, each=3, capacities=(1, 1, 2, 4))
    owners = search(LoadTable.of(view), view.movable, max_moves)
    assert LoadTable.of(replace(view, owners=owners)).max_score <= LoadTable.of(view).max_score
    moved = int(np.count_nonzero(owners != view.owners))
    assert max_moves is None or moved <= max_moves
    assert (moved == 0) == (max_moves == 0)
