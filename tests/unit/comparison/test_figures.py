"""Two revisions are compared figure by figure."""

from __future__ import annotations

from comparison.figures import Compared, compare, figures, turns


def test_the_median_of_the_rounds_counts() -> None:
    """One slow round on a noisy machine does not decide."""
    before = [{"p99_ms": 10}, {"p99_ms": 90}, {"p99_ms": 12}]
    after = [{"p99_ms": 6}, {"p99_ms": 6}, {"p99_ms": 50}]
    assert compare(before, after) == [Compared("p99_ms", 12, 6)]
    assert compare(before, after)[0].ratio == 0.5


def test_only_figures_that_both_print_are_compared() -> None:
    """A figure that one revision, or one round, does not print is left out instead of counting as nothing."""
    assert compare([{"a": 1, "b": 2}], [{"b": 3, "c": 4}]) == [Compared("b", 2, 3)]
    assert compare([{"a": 1}, {}], [{"a": 1}, {"a": 1}]) == []


def test_figures_have_the_path_to_them() -> None:
    """Numbers inside of objects are figures too; texts, lists, and what is true or false are not."""
    result = {"machine": "m", "is_quiet": True, "churn": {"run_p99_s": 0.5, "runs": [1, 2]}, "rate": 3}
    assert dict(figures(result)) == {"churn.run_p99_s": 0.5, "rate": 3}


def test_a_ratio_to_nothing_is_none() -> None:
    """Before was 0, so no factor says how much more it is now."""
    assert Compared("lost", 0, 3).ratio is None


def test_revisions_take_turns_in_being_the_first() -> None:
    """A machine that gets slower and slower favours neither."""
    assert list(turns(3)) == ["before", "after", "after", "before", "before", "after"]
