"""The cluster knows which start of a broker may change what that broker holds."""

from __future__ import annotations

import pytest

from databases import Database
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.results.incarnations import Incarnations
from tocsin.errors import AlreadyExists, NotFound, Superseded


class _Clock:
    def __init__(self) -> None:
        self.at_s = 1000.0

    def now_us(self) -> int:
        return 1

    def monotonic_s(self) -> float:
        return self.at_s


def test_incarnations_outlive_the_cluster_and_its_start_counts_as_having_heard_of_all(database: Database) -> None:
    """After a restart the broker that goes on is known, and another folder has to wait until it proves silent."""
    clock = _Clock()
    first = Incarnations(open_catalogue(database), clock).register("b", "one")
    clock.at_s += 1000
    again = Incarnations(open_catalogue(database), clock)
    again.check("b", first)
    with pytest.raises(AlreadyExists):
        again.register("b", "two")
    clock.at_s += 14
    again.check("b", first)
    clock.at_s += 14
    with pytest.raises(AlreadyExists):
        again.register("b", "two")
    clock.at_s += 1
    second = again.register("b", "two")
    with pytest.raises(Superseded):
        again.check("b", first)
    again.check("b", second)


def test_the_same_folder_is_taken_at_once(database: Database) -> None:
    incarnations = Incarnations(open_catalogue(database), _Clock())
    first = incarnations.register("b", "one", "x")
    assert incarnations.register("b", "one", "x") == first
    second = incarnations.register("b", "one", "y")
    with pytest.raises(Superseded):
        incarnations.check("b", first)
    incarnations.check("b", second)


def test_one_that_was_forgotten_has_to_register_again(database: Database) -> None:
    incarnations = Incarnations(open_catalogue(database), _Clock())
    first = incarnations.register("b", "one")
    incarnations.forget("b")
    with pytest.raises(NotFound):
        incarnations.check("b", first)
    incarnations.register("b", "two")
