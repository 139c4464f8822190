"""The stages: when something is done about the load, and what."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.balancing.assignment import AssignedBroker, AssignmentView
from tocsin.balancing.evenness import Balance
from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinator.load.controller import StageController, Verdict
from tocsin.coordinator.load.outlook import Outlook
from tocsin.coordinator.load.plan import verify
from tocsin.coordinator.load.promises import Kept
from tocsin.coordinator.load.stages import Rule, Stage, StageSettings
from tocsin.errors import InvalidValue
from tocsin.testing.assignments import assignment

AT_ONCE = StageSettings(hits=1, shuffle_hits=1, settle_s=0, rest_s=0, idle_below=0)
RATES = {"fire": 1.0}


def controller(settings: StageSettings = AT_ONCE, **changes: object) -> StageController:
    return StageController(replace(settings, **changes), MIGRATIONS, SHUFFLES)


def scores(*values: float) -> Balance:
    return Balance.of([f"b{number}" for number in range(len(values))], values, [1.0] * len(values))


def crowd(*sizes: int) -> AssignmentView:
    who = {f"s{at}{number:03}": (f"b{at}", "fire") for at, size in enumerate(sizes) for number in range(size)}
    return assignment(who, RATES, [f"b{at}" for at in range(len(sizes))])


EVEN, UNEVEN, EXTREME = scores(10, 10, 9), scores(13, 10, 8), scores(30, 5, 5)


def test_the_more_uneven_the_stronger_the_stage() -> None:
    assert controller().look(0, EVEN).stage is None
    assert controller().look(0, UNEVEN).stage is Stage.MIGRATION
    assert controller().look(0, EXTREME).stage is Stage.SHUFFLE


def test_little_load_is_not_worth_the_trouble() -> None:
    assert controller(beta=20).look(0, UNEVEN).stage is None
    assert controller(theta=20).look(0, EXTREME).stage is Stage.MIGRATION
    assert controller(theta=20, beta=20).look(0, EXTREME).stage is None


def test_a_stage_can_be_off() -> None:
    """A stage without a policy is never due; the other one is all the same."""
    assert controller(migration="").look(0, UNEVEN).stage is None
    assert controller(shuffle="").look(0, EXTREME).stage is Stage.MIGRATION


def test_one_look_is_no_evidence() -> None:
    """A stage is due after so many looks in a row, and one even look begins the count anew."""
    one = controller(hits=3, shuffle_hits=2)
    assert [one.look(now_s, UNEVEN).stage for now_s in range(3)] == [None, None, Stage.MIGRATION]
    one = controller(hits=3)
    looks = [UNEVEN, UNEVEN, EVEN, UNEVEN, UNEVEN, UNEVEN]
    assert [one.look(now_s, seen).stage for now_s, seen in enumerate(looks)][-2:] == [None, Stage.MIGRATION]
    one = controller(hits=9, shuffle_hits=2)
    assert [one.look(now_s, EXTREME).stage for now_s in range(2)] == [None, Stage.SHUFFLE]


def test_after_a_plan_figures_settle() -> None:
    """For so long nothing is due, and the reason says for how much longer."""
    one = controller(settle_s=60)
    view = crowd(30, 5, 5)
    one.begun(100, one.plan(view, one.look(100, EXTREME)))
    assert one.look(159, EXTREME).stage is None
    assert "settling for another 1 s" in one.look(159, EXTREME).reason
    assert one.look(160, EXTREME).stage is Stage.SHUFFLE


def test_whoever_was_moved_rests() -> None:
    """They are not moved again for a while, which begins anew with each move."""
    one = controller(rest_s=300, shuffle="")
    view = crowd(30, 5, 5)
    plan = one.plan(view, one.look(0, EXTREME))
    one.begun(0, plan)
    movers = {move.subscriber for move in plan.moves()}
    assert movers
    assert one.resting(299) == movers
    one.begun(200, plan)
    assert one.resting(301) == movers, "moved again, they rest anew"
    assert one.resting(500) == frozenset()


def test_a_broker_that_idles_is_filled_though_cov_is_low() -> None:
    sizes = [40] * 60 + [0]
    view = crowd(*sizes)
    balance = Balance.of(view.brokers, [float(size) for size in sizes], [1.0] * 61)
    assert balance.cov < 0.15
    assert controller().look(0, balance).stage is None
    one = controller(idle_below=0.1)
    verdict = one.look(0, balance)
    assert (verdict.stage, verdict.is_idle) == (Stage.MIGRATION, True)
    plan = one.plan(view, verdict)
    assert verify(view, plan) == []
    assert {move.destination for move in plan.moves()} == {"b60"}
    assert plan.after.scores[60] >= 0.1 * plan.after.mean


def test_an_empty_cordoned_broker_calls_for_no_stage() -> None:
    """Whatever is done, it stays empty: otherwise there would be a plan after every settling, for ever."""
    balance = Balance.of("abcd", [1.0, 1.0, 1.0, 0.0], [1.0] * 4, [True, True, True, False])
    assert controller(idle_below=0.1).look(0, balance).stage is None


def test_an_overloaded_cordoned_broker_is_relieved_and_the_plan_says_when_it_is_even() -> None:
    candidates = [AssignedBroker("a"), AssignedBroker("b"), AssignedBroker("shut", takes=False)]
    who = {f"s{number:02}": ("shut", f"k{number}") for number in range(30)}
    view = assignment(who, {f"k{number}": 1.0 for number in range(30)}, candidates)
    balance = Balance.of(view.brokers, [0.0, 0.0, 60.0], [1.0] * 3, [True, True, False])
    for shuffle in ("", "gsh", "sharing"):
        one = controller(shuffle=shuffle)
        verdict = one.look(0, balance)
        plan = one.plan(view, verdict)
        assert verify(view, plan) == []
        assert plan.after.cov <= 0.15
        assert plan.after.loads[2] >= 16, "it is not emptied: that is what draining is for"


def test_a_shuffle_leaves_a_quiet_cordoned_broker_alone() -> None:
    candidates = [AssignedBroker("a"), AssignedBroker("b"), AssignedBroker("shut", takes=False)]
    who = {f"s{number:02}": ("shut" if number < 4 else "a", f"k{number}") for number in range(40)}
    view = assignment(who, {f"k{number}": 1.0 for number in range(40)}, candidates)
    plan = controller(shuffle="gsh").plan(view, Verdict(Stage.SHUFFLE, "asked"))
    assert verify(view, plan) == []
    assert {move.source for move in plan.moves()} == {"a"}
    assert plan.after.cov < 0.01


def test_if_a_shuffle_leaves_it_uneven_migration_goes_on_from_there() -> None:
    def half_hearted(view: AssignmentView, _goal: Goal) -> Proposal:
        owners = view.owners.copy()
        owners[:5] = 1
        return Proposal(owners, ("half-hearted",))

    one = StageController(replace(AT_ONCE, shuffle="half", migration="ldm"), MIGRATIONS, {"half": half_hearted})
    view = crowd(30, 5, 5)
    plan = one.plan(view, one.look(0, EXTREME))
    assert (plan.stage, plan.policy) == (Stage.SHUFFLE, "half")
    assert plan.after.cov <= 0.15
    assert verify(view, plan) == []
    assert {move.reason.split()[0] for move in plan.moves()} == {"half-hearted", "among"}


def test_budgets_hold_over_both() -> None:
    """A shuffle and the migration after it keep to one budget together."""
    one = controller(max_moves=6)
    view = crowd(30, 5, 5)
    assert 0 < one.plan(view, one.look(0, EXTREME)).move_count <= 6


def test_unknown_policies_are_refused_by_name() -> None:
    """The refusal lists the policies that there are."""
    with pytest.raises(InvalidValue, match="no migration policy called 'lbm'; there are: group, ldm, sdm"):
        controller(migration="lbm")
    with pytest.raises(InvalidValue, match="no shuffle policy called 'x'"):
        controller(shuffle="x")


CERTAIN = Outlook()
#: As uneven as the crowd is, chance makes it.
NOISY = Outlook(chance=0.6)


def test_the_plain_rule_begins_whatever_is_due() -> None:
    one = controller(rule=Rule.PLAIN)
    view = crowd(13, 10, 8)
    decision = one.decide(0, view, one.look(0, UNEVEN), NOISY)
    assert decision.plan is not None
    assert decision.plan.move_count > 0


def test_a_worthwhile_plan_begins_and_says_what_it_gains() -> None:
    one = controller()
    decision = one.decide(0, crowd(30, 5, 5), one.look(0, EXTREME), CERTAIN)
    assert decision.plan is not None
    assert "times what its moves cost" in decision.reason


def test_noise_moves_nobody() -> None:
    """If chance explains what is seen, no plan begins in a hundred looks, and the verdict says why."""
    one = controller(settle_s=60)
    for now_s in range(0, 500, 5):
        verdict = one.look(now_s, UNEVEN)
        if verdict.stage is not None:
            verdict = Verdict(None, one.decide(now_s, crowd(13, 10, 8), verdict, NOISY).reason)
        assert verdict.stage is None
        assert "chance alone makes 0.600" in verdict.reason


def test_a_lasting_imbalance_is_acted_on_after_the_usual_number_of_looks() -> None:
    """Even if chance makes some of it: three looks, as without the rule."""
    one = controller(StageSettings())
    verdicts = [one.look(now_s, EXTREME) for now_s in (0, 5)]
    assert [verdict.stage for verdict in verdicts] == [None, Stage.SHUFFLE]
    assert one.decide(5, crowd(30, 5, 5), verdicts[1], Outlook(chance=0.2)).plan is not None
    one = controller(StageSettings())
    verdicts = [one.look(now_s, UNEVEN) for now_s in (0, 5, 10)]
    assert verdicts[2].stage is Stage.MIGRATION
    assert one.decide(10, crowd(39, 30, 24), verdicts[2], Outlook(chance=0.1)).plan is not None


def test_a_plan_that_was_refused_is_made_again_only_after_a_while() -> None:
    """Planning for a million subscribers takes long, and the figures are the same for now."""
    one = controller(settle_s=60)
    assert one.decide(0, crowd(13, 10, 8), one.look(0, UNEVEN), NOISY).plan is None
    assert one.look(59, UNEVEN).stage is None
    assert one.look(60, UNEVEN).stage is Stage.MIGRATION


def test_the_better_of_shuffle_and_migration_is_taken() -> None:
    """A few subscribers carry most: moving them gains as much as a shuffle of everybody, and costs less."""

    def everybody(view: AssignmentView, _goal: Goal) -> Proposal:
        return Proposal(((view.owners + 1) % len(view.brokers)).astype(view.owners.dtype), ("round and round",))

    one = StageController(replace(AT_ONCE, shuffle="all", migration="ldm"), MIGRATIONS, {"all": everybody})
    decision = one.decide(0, crowd(30, 5, 5), one.look(0, EXTREME), CERTAIN)
    assert decision.plan is not None
    assert decision.plan.stage is Stage.MIGRATION


def test_an_idle_broker_is_filled_whatever_that_gains() -> None:
    sizes = [40] * 60 + [0]
    balance = Balance.of([f"b{at}" for at in range(61)], [float(size) for size in sizes], [1.0] * 61)
    one = controller(idle_below=0.1)
    assert one.decide(0, crowd(*sizes), one.look(0, balance), NOISY).plan is not None


def test_plans_that_broke_their_promises_make_the_next_less_credible() -> None:
    """Down to a half, and no further: otherwise no plan could show that plans are good again. Half of what was lost is
    back after ten minutes."""
    one = controller()
    assert one.trust(0) == 1
    for _ in range(20):
        one.kept(0, Kept("plan", 0.1, 0.5, 0.0))
    assert one.trust(0) == 0.5
    one.kept(0, Kept("plan", 0.1, 0.1, None))
    assert one.trust(0) == 0.5, "it says nothing"
    assert one.trust(600) == 0.75
    for _ in range(20):
        one.kept(0, Kept("plan", 0.1, 0.1, 1.0))
    assert one.trust(0) > 0.99
