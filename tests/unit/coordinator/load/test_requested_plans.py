"""Plans that operators ask for."""

from __future__ import annotations

import pytest

from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinator.load.requested_plans import Planning
from tocsin.coordinator.load.stages import Stage
from tocsin.errors import InvalidValue, NotFound
from worlds.random_assignments import random_assignment

VIEW = random_assignment(1, subscribers=40, subscriptions=9, brokers=3, each=3)


def test_without_a_policy_the_usual_one_is_taken() -> None:
    planning = Planning(MIGRATIONS, SHUFFLES)
    assert planning.wish(Stage.MIGRATION, "", Goal()).policy == "group"
    assert planning.wish(Stage.SHUFFLE, "", Goal()).policy == "sharing"
    with pytest.raises(InvalidValue, match="no shuffle policy called 'ldm'; there are: gsh, sharing"):
        planning.wish(Stage.SHUFFLE, "ldm", Goal())


def test_a_plan_that_can_not_be_carried_out_is_not_shown() -> None:
    """Whoever wrote the policy."""
    planning = Planning(MIGRATIONS, SHUFFLES, check=lambda _view, _plan: ["nobody is there", "nor there"])
    with pytest.raises(InvalidValue, match=r"policy gsh made a plan .* nobody is there and 1 more"):
        planning.propose(VIEW, planning.wish(Stage.SHUFFLE, "gsh", Goal()))


def test_a_policy_that_fails_is_named_with_its_error() -> None:
    """Most likely it is a stranger's, who wants to know."""

    def divide_by_nobody(_view: object, _goal: object) -> Proposal:
        raise ZeroDivisionError("nobody is there")

    planning = Planning({**MIGRATIONS, "theirs": divide_by_nobody}, SHUFFLES)
    with pytest.raises(InvalidValue, match="policy theirs failed: ZeroDivisionError: nobody is there"):
        planning.propose(VIEW, planning.wish(Stage.MIGRATION, "theirs", Goal()))


def test_the_last_few_are_kept() -> None:
    """Twenty plans can be looked up, newest first; of an older one it is said that it is gone."""
    planning = Planning(MIGRATIONS, SHUFFLES)
    wish = planning.wish(Stage.SHUFFLE, "gsh", Goal(), "why not")
    plan = planning.propose(VIEW, wish)
    for number in range(25):
        planning.keep(f"plan-{number}", number, wish, plan)
    assert [one.id for one in planning.all()] == [f"plan-{number}" for number in range(24, 4, -1)]
    assert planning.get("plan-24").wish.reason == "why not"
    with pytest.raises(NotFound, match="no plan plan-4; the last 20 are kept"):
        planning.get("plan-4")
