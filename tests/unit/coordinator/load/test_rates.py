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


def test_those_of_whom_little_is_known_weigh_like_the_others() -> None:
    """One result in the first seconds of a channel that runs once a minute is no rate."""
    rates = Rates(window_s=10, bucket_s=5)
    assert rates.of(FIRE) == 1
    rates.advance(0)
    rates.observe(FIRE, 500)
    rates.advance(5)
    assert rates.of(FIRE) == 1, "not for a whole window yet"
    rates.observe(FLOOD, 9000)
    rates.advance(10)
    assert (rates.of(FIRE), rates.of(FLOOD)) == (50, 50)
    rates.observe(FIRE, 500)
    rates.advance(15)
    assert (rates.of(FIRE), rates.of(FLOOD)) == (50, 900)


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
    rates.observe(FIRE, 500)
    rates.advance(10)
    before = rates.version
    rates.forget(FIRE)
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
