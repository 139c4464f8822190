"""What holds for every policy in every network: plans can be carried out, and never make what they are for worse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.bounds import optimum
from tocsin.balancing.load_table import LoadTable, move
from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinator.load.plan import make_plan, verify
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.registry.records import SessionRecord, SessionSubscription
from tocsin.protocol.subscription_keys import KeyText

EVERY = {
    **{name: (Stage.MIGRATION, one) for name, one in MIGRATIONS.items()},
    **{name: (Stage.SHUFFLE, one) for name, one in SHUFFLES.items()},
}
#: They don't look at where everybody is.
_BEGIN_ANEW = {"gsh", "sharing-hypergraph"}
_CAPACITY = st.sampled_from([1.0, 1.0, 1.0, 0.5, 3.0])
_RATE = st.one_of(st.sampled_from([0.0, 1.0, 1.0, 2.0]), st.floats(0, 1e6, allow_subnormal=False))


@st.composite
def networks(draw: st.DrawFn, most: int = 12, *, plain: bool = False) -> AssignmentView:
    """With `plain`, everybody is here and may move, and all brokers take and are alike."""
    brokers = [
        AssignedBroker(f"b{number}", 1.0 if plain else draw(_CAPACITY), plain or draw(st.booleans()))
        for number in range(draw(st.integers(1, 3 if plain else 5)))
    ]
    rates = draw(st.lists(_RATE, min_size=1, max_size=8))
    keys = st.lists(st.integers(0, len(rates) - 1), max_size=5, unique=True)
    sessions = [
        SessionRecord(
            f"s{number}",
            draw(st.sampled_from(brokers)).name,
            1,
            plain or draw(st.integers(0, 9)) > 0,
            tuple(SessionSubscription(KeyText(str(key)), "0-0") for key in draw(keys)),
        )
        for number in range(draw(st.integers(0, most)))
    ]
    resting = [] if plain else [one.subscriber for one in sessions if draw(st.integers(0, 9)) == 0]
    return AssignmentView.of(
        draw(st.permutations(brokers)), draw(st.permutations(sessions)), lambda key: rates[int(key)], resting
    )


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    return Goal(
        draw(st.sampled_from([0.0, 0.05, 0.15, 0.5])),
        draw(st.sampled_from([0.0, 3.0])),
        draw(st.sampled_from([0.0, 0.3])),
    )


@pytest.mark.parametrize("policy", sorted(EVERY))
@given(view=networks(), goal=goals())
def test_every_plan_can_be_carried_out(policy: str, view: AssignmentView, goal: Goal) -> None:
    """And every policy comes to an end, whatever it is given. Those that assign everybody anew may come out worse than
    before: that is then all that is wrong, and is said."""
    stage, propose = EVERY[policy]
    plan = make_plan(view, stage, policy, propose(view, goal))
    faults = verify(view, plan)
    if policy in _BEGIN_ANEW and plan.after.max > plan.before.max * (1 + 1e-6):
        (fault,) = faults
        assert fault.startswith("it is worse than before")
    else:
        assert faults == []


@pytest.mark.parametrize("policy", sorted(MIGRATIONS))
@given(view=networks(), goal=goals(), budget=st.integers(0, 6))
def test_migration_never_raises_the_highest_score_and_keeps_to_its_budget(
    policy: str, view: AssignmentView, goal: Goal, budget: int
) -> None:
    within = Goal(goal.cov_at_most, goal.mean_above, goal.idle_below, budget)
    plan = make_plan(view, Stage.MIGRATION, policy, MIGRATIONS[policy](view, within))
    assert plan.after.max <= plan.before.max * (1 + 1e-9)
    assert plan.move_count <= budget


@pytest.mark.parametrize("policy", ["gsh", "sharing"])
@given(view=networks(), budget=st.integers(0, 6))
def test_a_shuffle_with_a_budget_keeps_to_it_and_never_raises_the_highest_score(
    policy: str, view: AssignmentView, budget: int
) -> None:
    plan = make_plan(view, Stage.SHUFFLE, policy, SHUFFLES[policy](view, Goal(max_moves=budget)))
    assert plan.after.max <= plan.before.max * (1 + 1e-9)
    assert plan.move_count <= budget


@pytest.mark.parametrize("policy", sorted(MIGRATIONS))
@given(view=networks(), goal=goals())
def test_the_loops_and_the_plans_say_the_same_of_evenness(policy: str, view: AssignmentView, goal: Goal) -> None:
    """If the scores are even enough by the plan's own figures, nobody is moved."""
    plan = make_plan(view, Stage.MIGRATION, policy, MIGRATIONS[policy](view, goal))
    before = plan.before
    is_even = before.cov <= goal.cov_at_most * (1 - 1e-9) or before.mean <= goal.mean_above
    if is_even and not (before.mean > goal.mean_above and before.has_idle(goal.idle_below)):
        assert plan.move_count == 0


@given(view=networks())
def test_sharing_is_never_worse_than_greed(view: AssignmentView) -> None:
    """Its highest score is no higher than that of the greedy shuffle, or than before."""
    greedy = make_plan(view, Stage.SHUFFLE, "gsh", SHUFFLES["gsh"](view, Goal()))
    sharing = make_plan(view, Stage.SHUFFLE, "sharing", SHUFFLES["sharing"](view, Goal()))
    assert sharing.after.max <= min(greedy.after.max, sharing.before.max) * (1 + 1e-9)


@settings(max_examples=60)
@given(view=networks(6, plain=True))
def test_between_the_bound_and_greed_on_networks_small_enough_to_try_everything(view: AssignmentView) -> None:
    """How far from the true optimum they are on average is in the report of `tocsin bench balance`."""
    best = optimum(view)
    plans = {name: make_plan(view, Stage.SHUFFLE, name, SHUFFLES[name](view, Goal())) for name in ("gsh", "sharing")}
    assert plans["sharing"].lower_bound <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= plans["sharing"].after.max <= plans["gsh"].after.max * (1 + 1e-9)


@given(view=networks(), moves=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 4)), max_size=30))
def test_loads_kept_move_by_move_are_what_counting_anew_gives(
    view: AssignmentView, moves: list[tuple[int, int]]
) -> None:
    table = LoadTable.of(view)
    for subscriber, broker in moves:
        if subscriber < len(view.subscribers):
            move(table, subscriber, broker % len(view.brokers))
    anew = LoadTable.of(view, table.owners)
    assert np.allclose(table.loads, anew.loads, rtol=1e-9, atol=1e-6)
    assert np.array_equal(table.holders, anew.holders)
