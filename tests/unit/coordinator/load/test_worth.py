"""A plan's gain and cost are both bytes: what busy brokers are spared, and what is carried twice."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.balancing.evenness import Balance
from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal, Proposal
from tocsin.coordinator.load.outlook import Outlook
from tocsin.coordinator.load.plan import Plan, make_plan
from tocsin.coordinator.load.stages import Stage
from tocsin.coordinator.load.worth import above_mean, promise_of, worth_of
from tocsin.testing.assignments import assignment

CERTAIN = Outlook(chance=0.0, horizon_s=300.0, move_s=1.0)


def migrated(*sizes: int) -> Plan:
    """Brokers with so many subscribers, each with a subscription of its own that brings a byte per second."""
    who = {f"s{at}{number:03}": (f"b{at}", f"k{at}{number}") for at, size in enumerate(sizes) for number in range(size)}
    rates = {f"k{at}{number}": 1.0 for at, size in enumerate(sizes) for number in range(size)}
    view = assignment(who, rates, [f"b{at}" for at in range(len(sizes))])
    return make_plan(view, Stage.MIGRATION, "ldm", MIGRATIONS["ldm"](view, Goal(0.0)))


def test_without_chance_the_gain_is_what_was_above_the_mean() -> None:
    plan = migrated(30, 10)
    worth = worth_of(plan, CERTAIN, trust=1.0)
    assert worth.gain_bytes == pytest.approx((60 - 40) * 300)
    assert worth.cost_bytes == pytest.approx(10 * 1.0 * 31), "ten moves of subscribers who are sent a byte per second"
    assert worth_of(plan, CERTAIN, trust=0.5).ratio == pytest.approx(worth.ratio / 2)


def test_the_more_chance_makes_the_less_there_is_to_gain() -> None:
    ratios = [worth_of(migrated(22, 18), Outlook(chance, 300, 1), 1.0).ratio for chance in (0.0, 0.1, 0.3, 1.0)]
    assert ratios == sorted(ratios, reverse=True)
    assert ratios[-1] < 0.1 * ratios[0]


def test_a_plan_without_moves_is_worth_nothing() -> None:
    assert worth_of(migrated(10, 10), CERTAIN, 1.0).ratio == 0


def test_what_is_fetched_less_often_is_a_gain_too() -> None:
    """Two who share a subscription come together: one broker less fetches it."""
    who = {"a": ("b0", "shared"), "b": ("b1", "shared"), "c": ("b1", "own")}
    view = assignment(who, {"shared": 10.0, "own": 20.0}, ["b0", "b1"])
    together = np.array([1, 1, 0], np.int32)
    plan = make_plan(view, Stage.SHUFFLE, "by hand", Proposal(together, ("together",)))
    assert plan.before.total - plan.after.total == 10
    worth = worth_of(plan, CERTAIN, 1.0)
    before, after = (above_mean(one, 0.0) for one in (plan.before, plan.after))
    assert worth.gain_bytes == pytest.approx((before - after + 10) * 300)


def test_what_will_be_above_the_mean_is_more_than_the_rates_say() -> None:
    even = Balance.of("ab", [100.0, 100.0], [1.0, 1.0])
    assert above_mean(even, 0.0) == 0
    assert above_mean(even, 0.1) == pytest.approx(10)
    uneven = Balance.of("ab", [130.0, 70.0], [1.0, 1.0])
    assert above_mean(uneven, 0.0) == pytest.approx(30)
    assert above_mean(uneven, 0.4) == pytest.approx(50), "3, 4, 5"
    nothing = Balance.of("ab", [0.0, 0.0], [1.0, 1.0])
    assert above_mean(nothing, 0.5) == 0


def test_no_plan_promises_less_than_chance_makes() -> None:
    plan = migrated(30, 10)
    assert promise_of(plan, "p", 0.0).promised_cov == 0
    promise = promise_of(plan, "p", 0.12)
    assert promise.promised_cov == pytest.approx(0.12)
    assert promise.cov_before == pytest.approx((0.5**2 + 0.12**2) ** 0.5)
