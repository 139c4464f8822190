"""Costs, in all and over the last hour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.core.cost import Cost, CostHistory

_STEPS = st.lists(st.tuples(st.floats(0, 1800), st.integers(0, 5)), max_size=60)


@given(_STEPS)
def test_the_last_hour_has_what_came_in_it_to_the_minute(steps: list[tuple[float, int]]) -> None:
    """Everything younger than 59 minutes is counted, nothing older than 60 is, and the total has all of it."""
    history, now_s, added = CostHistory(), 0.0, []
    for wait_s, results in steps:
        now_s += wait_s
        history.add(Cost(results=results), now_s)
        added.append((now_s, results))
        found = history.last_hour(now_s).results
        assert sum(count for at_s, count in added if now_s - at_s < 59 * 60) <= found
        assert found <= sum(count for at_s, count in added if now_s - at_s < 60 * 60)
    assert history.total.results == sum(count for _, count in added)


def test_a_cost_that_comes_late_is_counted_with_the_newest_minute() -> None:
    """A thread may read the clock, and add after another thread that read it later."""
    history = CostHistory()
    history.add(Cost(results=1), 120.0)
    history.add(Cost(results=2), 119.9)
    assert history.last_hour(120.0) == Cost(results=3)


def test_a_history_stays_small_however_many_costs_come() -> None:
    """Slots of the last hour are kept, and no others."""
    history = CostHistory()
    for minute in range(1_000):
        history.add(Cost(spark_s=1.0), minute * 60.0)
    assert len(history._slots) == 60
