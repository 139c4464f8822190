"""What a plan promised is compared with what brokers carried in the minute after it."""

from __future__ import annotations

import pytest

from tocsin.balancing.evenness import Balance
from tocsin.coordinator.load.promises import Promise, Promises

PROMISE = Promise("plan-1", cov_before=0.5, promised_cov=0.1)


def carried(*loads: float, takes: tuple[bool, ...] | None = None) -> Balance:
    names = [f"b{number}" for number in range(len(loads))]
    return Balance.of(names, loads, [1.0] * len(loads), takes)


def test_what_is_carried_in_the_minute_after_the_plan_counts() -> None:
    """Neither what came before, nor what came while subscribers moved."""
    promises = Promises()
    promises.begun(PROMISE)
    assert promises.look(100, carried(9000, 0)) == []
    promises.ended(100, carried(9000, 0))
    assert promises.look(159, carried(9000 + 500, 400)) == []
    (kept,) = promises.look(160, carried(9000 + 700, 300))
    assert (kept.plan, kept.promised_cov) == ("plan-1", 0.1)
    assert kept.kept_cov == pytest.approx(0.4)
    assert kept.share == pytest.approx(0.25), "of a fall by 0.4, a fall by 0.1 came true"
    assert promises.look(200, carried(1, 1)) == [], "once"
    assert promises.summary() == {"plans": 1, "promised_cov": 0.1, "kept_cov": pytest.approx(0.4)}


def test_a_promise_is_kept_in_full_or_not_at_all_at_most() -> None:
    for after, share in (((100, 100), 1.0), ((200, 0), 0.0)):
        promises = Promises()
        promises.begun(PROMISE)
        promises.ended(0, carried(0, 0))
        (kept,) = promises.look(60, carried(*after))
        assert kept.share == share


def test_who_promised_no_fall_is_not_judged() -> None:
    promises = Promises()
    promises.begun(Promise("plan-1", 0.1, 0.1))
    promises.ended(0, carried(0, 0))
    assert promises.look(60, carried(1, 3))[0].share is None


def test_brokers_that_come_go_or_begin_anew_are_left_out() -> None:
    promises = Promises()
    promises.begun(PROMISE)
    promises.ended(0, carried(100, 100, 5000))
    (kept,) = promises.look(60, carried(200, 200, 10, 7000))
    assert kept.kept_cov == 0


def test_a_network_without_plans_has_no_figures() -> None:
    assert Promises().summary() == {"plans": 0, "promised_cov": None, "kept_cov": None}
