"""How even loads are."""

from __future__ import annotations

from tocsin.balancing.evenness import Balance


def test_balance_is_the_scores_spread_over_their_mean() -> None:
    balance = Balance.of(["a", "b"], [30.0, 40.0], [1.0, 4.0])
    assert balance.scores == (30.0, 10.0)
    assert (balance.mean, balance.max, balance.cov) == (20.0, 30.0, 0.5)
    assert Balance.of(["a"], [0.0], [1.0]).cov == 0
    assert Balance.of([], [], []).cov == 0
