"""The transition table: where moves can go, and that they always end."""

from __future__ import annotations

from itertools import chain, combinations

import pytest

from tocsin.coordinator.moves.table import TRANSITIONS, Fact, Step, next_step, timeout_s


def test_a_move_that_goes_well() -> None:
    """It is queued, prepared, under way, and done."""
    steps = [Step.QUEUED]
    for fact in (Fact.TURN, Fact.PREPARED, Fact.ARRIVED):
        steps.append(next_step(steps[-1], {fact})[0])
    assert steps == [Step.QUEUED, Step.PREPARING, Step.MOVING, Step.DONE]


def test_nobody_is_told_before_the_destination_is_prepared() -> None:
    before = {step for step in Step if any(TRANSITIONS.get((step, fact)) is Step.MOVING for fact in Fact)}
    assert before == {Step.PREPARING}
    assert TRANSITIONS[Step.PREPARING, Fact.PREPARED] is Step.MOVING


def test_who_has_been_told_can_not_be_untold() -> None:
    for step in (Step.MOVING, Step.ADOPTING):
        assert next_step(step, {Fact.STOPPED}) == (step, None)


@pytest.mark.parametrize("step", [step for step in Step if step.is_final])
def test_what_has_ended_stays_so(step: Step) -> None:
    """No combination of facts changes a final step."""
    for facts in chain.from_iterable(combinations(Fact, size) for size in (1, 2, 3)):
        assert next_step(step, set(facts)) == (step, None)


@pytest.mark.parametrize("step", [step for step in Step if step.is_under_way])
def test_whatever_is_under_way_has_a_time_and_a_way_back(step: Step) -> None:
    assert timeout_s(step) < 60
    assert next_step(step, {Fact.TIMED_OUT})[0] is Step.FAILED
    assert next_step(step, {Fact.UNUSABLE})[0] is Step.FAILED
    assert next_step(step, {Fact.ARRIVED})[0] is Step.DONE


def test_having_arrived_counts_before_anything_else() -> None:
    """A subscriber that is at the destination has been moved, whatever else is the case."""
    for step in Step:
        if not step.is_final:
            assert next_step(step, set(Fact))[0] is Step.DONE
