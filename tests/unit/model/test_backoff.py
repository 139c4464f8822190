"""Back-off: bounded, growing, and spread over everything below the bound."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.backoff import Backoff


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_stays_below_the_bound(attempt: int, chance: float) -> None:
    """Never longer than the last bound, never negative, and no earlier try has a higher bound."""
    backoff = Backoff()
    assert 0 <= backoff.delay_s(attempt, lambda: chance) <= backoff.bound_s(attempt) <= 10
    assert backoff.bound_s(attempt) <= backoff.bound_s(attempt + 1)


def test_is_spread_evenly() -> None:
    """Full jitter: a thousand clients that lose the same broker come back over the whole time."""
    rng = random.Random(7)
    delays = [Backoff().delay_s(5, rng.random) for _ in range(1000)]
    assert all(any(low <= delay < low + 0.32 for delay in delays) for low in (0, 0.32, 0.64, 2.56, 2.88))
    assert 1.5 < sum(delays) / 1000 < 1.7
