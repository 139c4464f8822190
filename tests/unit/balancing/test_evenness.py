"""How even loads are, and which brokers are compared."""

from __future__ import annotations

import pytest

from tocsin.balancing.evenness import Balance


def balance(*scores: float, cordoned: tuple[int, ...] = ()) -> Balance:
    names = [f"b{number}" for number in range(len(scores))]
    return Balance.of(names, scores, [1.0] * len(scores), [number not in cordoned for number in range(len(scores))])


def test_balance_is_the_scores_spread_over_their_mean() -> None:
    balance = Balance.of(["a", "b"], [30.0, 40.0], [1.0, 4.0])
    assert balance.scores == (30.0, 10.0)
    assert (balance.mean, balance.max, balance.cov) == (20.0, 30.0, 0.5)
    assert Balance.of(["a"], [0.0], [1.0]).cov == 0
    assert Balance.of([], [], []).cov == 0


def test_a_cordoned_broker_with_little_load_leaves_the_others_even() -> None:
    """Nobody can be moved there."""
    assert balance(1, 1, 1, 0, cordoned=(3,)).cov == 0
    assert balance(1, 1, 1, 0).cov == pytest.approx(0.577, abs=0.001)


def test_a_cordoned_broker_with_too_much_load_counts() -> None:
    """It can be relieved."""
    assert balance(1, 1, 1, 5, cordoned=(3,)).cov == balance(1, 1, 1, 5).cov > 0.8


def test_the_load_of_a_cordoned_broker_exists() -> None:
    one = balance(4, 2, 1, cordoned=(2,))
    assert (one.total, one.max, one.mean) == (7, 4, 3)
    assert balance(4, 2, 9, cordoned=(2,)).max == 9


def test_a_cordoned_broker_does_not_idle() -> None:
    """It takes nobody, so its lack of load is no reason for a plan."""
    assert balance(1, 1, 0).has_idle(0.1)
    assert not balance(1, 1, 0, cordoned=(2,)).has_idle(0.1)


def test_if_all_are_cordoned_there_is_nothing_to_even_out() -> None:
    one = balance(5, 1, cordoned=(0, 1))
    assert (one.cov, one.mean, one.max, one.has_idle(0.1)) == (0, 0, 5, False)
