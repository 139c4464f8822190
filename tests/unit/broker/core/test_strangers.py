"""Connections that have not shown a token yet."""

from __future__ import annotations

from tocsin.broker.core.strangers import Strangers


def test_one_address_does_not_take_every_place() -> None:
    """It is refused at its own limit while others get in, and what was refused holds no place."""
    strangers = Strangers(most=10, most_per_address=2)
    assert [strangers.enter("a") for _ in range(5)] == [True, True, False, False, False]
    assert [strangers.enter(f"b{number}") for number in range(9)] == [True] * 8 + [False]
    strangers.leave("a")
    assert strangers.enter("b9")
