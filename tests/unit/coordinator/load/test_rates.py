"""Rates are moving averages over a window of time."""

from __future__ import annotations

import pytest

from tocsin.coordinator.load.rates import Rates, Reporters
from tocsin.errors import InvalidValue
from tocsin.protocol.subscription_keys import KeyText

FIRE, FLOOD = KeyText("fire"), KeyText("flood")


def test_what_comes_regularly_has_a_steady_rate() -> None:
    """Whatever its period, as long as the window is a multiple of it."""
    rates = Rates(window_s=60, bucket_s=5)
    seen = []
    for now_s in range(0, 300, 5):
        rates.advance(now_s)
        if now_s >= 120:
            seen.append((rates.of(FIRE), rates.of(FLOOD)))
        if now_s % 60 == 0:
            rates.observe(FIRE, 6000)
        rates.observe(FLOOD, 50)
    assert set(seen) == {(100.0, 10.0)}


def test_a_change_shows_in_full_after_one_window() -> None:
    rates = Rates(window_s=20, bucket_s=5)
    for now_s in range(0, 65, 5):
        rates.advance(now_s)
        if now_s == 40:
            assert rates.of(FIRE) == 10
        if now_s == 50:
            assert 10 < rates.of(FIRE) < 30
        rates.observe(FIRE, 50 if now_s < 40 else 150)
    assert rates.of(FIRE) == 30


def test_what_never_had_a_result_weighs_nothing_after_a_window() -> None:
    """However much the others bring. In its first window its rate fades from their mean to 0."""
    rates = Rates(window_s=20, bucket_s=5)
    rates.hold(FLOOD)
    rates.advance(0)
    for now_s in range(0, 40, 5):
        rates.observe(FLOOD, 500)
        rates.advance(now_s + 5)
    assert rates.of(FLOOD) == 100
    rates.hold(FIRE)
    seen = [rates.of(FIRE)]
    for now_s in range(40, 65, 5):
        rates.observe(FLOOD, 500)
        rates.advance(now_s + 5)
        seen.append(rates.of(FIRE))
    assert seen == [100, 50 * 3 / 4, 50 * 2 / 4, 50 * 1 / 4, 0, 0], "the mean of two is 50, as FIRE is one of them"


def test_silent_subscriptions_add_no_load_to_a_broker() -> None:
    """Of 1,000 subscriptions ten have results: from the second window on the load is theirs alone."""
    rates = Rates(window_s=60, bucket_s=5)
    keys = [KeyText(f"near{number}") for number in range(1000)]
    for key in keys:
        rates.hold(key)
    totals = []
    for now_s in range(0, 300, 5):
        rates.advance(now_s)
        totals.append(rates.sum_of(keys))
        for key in keys[:10]:
            rates.observe(key, 500)
    assert totals[1] == pytest.approx(1000 / 12), "at first all weigh the same, together what has come"
    assert totals[12:] == [pytest.approx(1000)] * (len(totals) - 12)
    assert max(totals[1:]) <= 1000 * (1 + 1e-9), "nor are they ever too much together"


def test_those_of_whom_little_is_known_weigh_like_the_others() -> None:
    """One result in the first seconds of a channel that runs once a minute is no rate."""
    rates = Rates(window_s=10, bucket_s=5)
    rates.hold(FIRE)
    rates.hold(FLOOD)
    assert (rates.of(FIRE), rates.of(FLOOD)) == (1, 1), "nothing is known"
    rates.advance(0)
    rates.observe(FIRE, 500)
    rates.advance(5)
    assert (rates.of(FIRE), rates.of(FLOOD)) == (37.5, 12.5), "half of it 25, the mean"
    rates.observe(FLOOD, 9000)
    rates.advance(10)
    assert (rates.of(FIRE), rates.of(FLOOD)) == (50, 900)


def test_what_brokers_report_and_nobody_holds_takes_no_room_for_long() -> None:
    rates = Rates(window_s=10, bucket_s=5)
    rates.advance(0)
    for number in range(100):
        rates.observe(KeyText(f"gone{number}"), 10)
    rates.advance(5)
    assert len(rates) == 100
    rates.advance(20)
    assert len(rates) == 0
    rates.observe(FIRE, 40)
    rates.advance(25)
    assert rates.of(FIRE) == 4


def test_the_version_tells_when_rates_may_have_changed() -> None:
    rates = Rates(window_s=10, bucket_s=5)
    rates.advance(0)
    before = rates.version
    rates.observe(FIRE, 500)
    rates.advance(4.9)
    assert rates.version == before
    rates.advance(5)
    assert rates.version != before


def test_after_a_long_silence_nothing_is_left() -> None:
    rates = Rates(window_s=10, bucket_s=5)
    rates.advance(0)
    rates.observe(FIRE, 500)
    rates.advance(10)
    assert rates.of(FIRE) == 50
    rates.advance(500)
    assert rates.of(FIRE) == 0


def test_the_forgotten_leave_no_trace_to_whoever_takes_their_place() -> None:
    rates = Rates(window_s=10, bucket_s=5)
    rates.advance(0)
    rates.hold(FIRE)
    rates.observe(FIRE, 500)
    rates.advance(10)
    before = rates.version
    rates.forget(FIRE)
    assert (len(rates), rates.version) == (0, before + 1)
    rates.observe(FLOOD, 20)
    rates.advance(20)
    assert rates.of(FLOOD) == 2


def test_many_fit() -> None:
    """Rates of thousands of subscriptions are told apart."""
    rates = Rates(window_s=10, bucket_s=5)
    rates.advance(0)
    keys = [KeyText(f"k{number}") for number in range(3000)]
    for number, key in enumerate(keys):
        rates.observe(key, number)
    rates.advance(10)
    assert [rates.of(key) for key in keys] == [number / 10 for number in range(3000)]


def test_a_bucket_must_fit_in_the_window() -> None:
    with pytest.raises(InvalidValue, match="a bucket of 20 s does not fit"):
        Rates(window_s=10, bucket_s=20)


def test_of_several_who_tell_the_same_one_is_listened_to() -> None:
    reporters = Reporters(patience_s=3)
    assert reporters.is_listened_to("a", FIRE, 0.0)
    assert not reporters.is_listened_to("b", FIRE, 0.5)
    assert reporters.is_listened_to("b", FLOOD, 0.5), "each subscription has its own"
    assert reporters.is_listened_to("a", FIRE, 1.0), "the rest of the same run"
    assert not reporters.is_listened_to("b", FIRE, 1.4)
    assert reporters.is_listened_to("b", FIRE, 60.0), "the next run; now b is first"
    assert not reporters.is_listened_to("a", FIRE, 60.3)


def test_reporters_of_what_nobody_tells_of_any_more_are_forgotten() -> None:
    reporters = Reporters(patience_s=3)
    reporters.is_listened_to("a", FIRE, 0.0)
    reporters.forget(100.0, after_s=200.0)
    assert not reporters.is_listened_to("b", FIRE, 1.0)
    reporters.forget(201.0, after_s=200.0)
    assert reporters.is_listened_to("b", FIRE, 1.0)
