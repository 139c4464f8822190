"""The schedule: a channel never stops, never runs twice at once, and keeps its beat."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.core.schedule import Schedule


def test_a_run_that_outlasts_its_period_takes_the_place_of_those_it_delayed() -> None:
    """Periods that passed meanwhile are one run; the next is on the beat again."""
    schedule = Schedule()
    schedule.put("C", period_s=10, now_s=0)
    assert schedule.take_due(10) == ["C"]
    assert schedule.take_due(35) == []
    assert schedule.finished("C", 35) == 2
    assert schedule.next_due_s() == 40
    assert schedule.take_due(39.9) == []
    assert schedule.take_due(40) == ["C"]
    assert schedule.finished("C", 41) == 0
    assert schedule.next_due_s() == 50


def test_the_longest_overdue_comes_first_and_the_dropped_not_at_all() -> None:
    """Order is by due time; a channel removed while it runs is not brought back by its end."""
    schedule = Schedule()
    schedule.put("Slow", 10, 0)
    schedule.put("Quick", 1, 0)
    schedule.put("Gone", 1, 0)
    schedule.remove("Gone")
    assert schedule.take_due(20) == ["Quick", "Slow"]
    assert schedule.next_due_s() is None
    schedule.remove("Quick")
    assert schedule.finished("Quick", 21) == 0
    assert schedule.finished("Slow", 21) == 1
    assert schedule.next_due_s() == 30


def test_another_period_counts_from_the_last_run() -> None:
    """Neither a run in vain nor a run left out: a longer period delays the next run, a shorter one brings it forward,
    and one that has passed already is due at once, which is no overrun. A run under way ends first."""
    schedule = Schedule()
    schedule.put("C", 10, 0)
    schedule.put("C", 30, 4)
    assert schedule.next_due_s() == 30
    schedule.put("C", 10, 5)
    assert schedule.next_due_s() == 10
    schedule.put("C", 2, 7)
    assert schedule.take_due(7) == ["C"]
    schedule.put("C", 5, 8)
    assert schedule.take_due(20) == []
    assert schedule.finished("C", 9) == 0
    assert schedule.next_due_s() == 12


@given(
    periods=st.lists(st.integers(1, 50), min_size=1, max_size=5),
    steps=st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4), st.booleans()), max_size=60),
)
def test_it_never_stops_and_never_overlaps(periods: list[int], steps: list[tuple[int, int, bool]]) -> None:
    """Whatever the runs take: a channel is either running or due within one period, and never running twice."""
    schedule = Schedule()
    for number, period in enumerate(periods):
        schedule.put(str(number), period, 0)
    now, running = 0, set[str]()
    for wait, which, finish in steps:
        now += wait
        if finish and running:
            ended = sorted(running)[which % len(running)]
            running.discard(ended)
            assert schedule.finished(ended, now) >= 0
        taken = schedule.take_due(now)
        assert not running.intersection(taken)
        assert len(set(taken)) == len(taken)
        running.update(taken)
        idle = {str(number): period for number, period in enumerate(periods) if str(number) not in running}
        due = schedule.next_due_s()
        assert (due is None) == (not idle)
        if due is not None:
            assert now < due <= now + max(idle.values())
    for name in sorted(running):
        schedule.finished(name, now)
    assert set(schedule.take_due(now + max(periods))) == {str(number) for number in range(len(periods))}
