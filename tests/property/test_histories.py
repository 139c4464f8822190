"""Whatever happens to cluster, brokers, coordinator and subscribers together, nothing is lost, doubled, reordered or
somebody else's. `python -m histories` draws many more."""

from __future__ import annotations

import pytest

from histories.drawing import live_through
from histories.planted import BUGS


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_every_result_once_whatever_happens(first: int) -> None:
    """Kills, cuts, lost answers and late ones, in twenty histories."""
    for seed in range(first, first + 20):
        assert not live_through(seed).violations, f"PYTHONPATH=src:tests python -m histories --count 1 --seed {seed}"


@pytest.mark.parametrize(
    "name",
    ["forget-positions", "forget-filter", "catch-up-skips-one", "cursor-too-far", "keep-repeats", "ignore-permission"],
)
def test_planted_bugs_are_found(name: str) -> None:
    """A few histories are enough for each of the coarser bugs."""
    with BUGS[name].planted():
        found = (one.kind for seed in range(40) for one in live_through(seed).violations)
        assert any(kind in BUGS[name].kinds for kind in found)
