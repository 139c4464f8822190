"""Simulated time: order, and nothing else."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.kernel import Kernel


def test_things_happen_in_the_order_of_time_and_at_one_moment_in_the_order_of_asking() -> None:
    kernel, seen = Kernel(), []
    for time_s, name in ((2.0, "c"), (1.0, "a"), (2.0, "d"), (1.0, "b")):
        kernel.at(time_s, seen.append, name)
    kernel.run(2.0)
    assert seen == ["a", "b", "c", "d"]


def test_what_happens_may_bring_about_more_even_at_the_same_moment() -> None:
    kernel, seen = Kernel(), []

    def first() -> None:
        seen.append(("first", kernel.now_s))
        kernel.after(0.0, seen.append, "at once")
        kernel.after(5.0, seen.append, "too late")

    kernel.at(1.0, first)
    kernel.run(5.0)
    assert seen == [("first", 1.0), "at once"]
    assert len(kernel) == 1
    assert kernel.now_s == 5.0


@pytest.mark.parametrize("time_s", [0.5, float("nan")])
def test_nothing_happens_in_the_past(time_s: float) -> None:
    """Whatever is to happen earlier than now, or at no time, is refused."""
    kernel = Kernel()
    kernel.run(1.0)
    with pytest.raises(InvalidValue, match="any more"):
        kernel.at(time_s, print)
