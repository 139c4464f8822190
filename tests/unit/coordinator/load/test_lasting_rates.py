"""Rates that tell what to expect: window by window, and the channel's mean for those of whom nothing is known."""

from __future__ import annotations

import pytest

from tocsin.coordinator.load.lasting_rates import LastingRates
from tocsin.protocol.subscription_keys import KeyText, key_text


def key(number: int, channel: str = "Near") -> KeyText:
    return key_text(channel, {"user": number}, "")


def told(rates: LastingRates, sizes: dict[KeyText, float], since_s: int, until_s: int) -> None:
    """So many bytes come for each every five seconds."""
    for now_s in range(since_s, until_s, 5):
        for one, size_bytes in sizes.items():
            rates.observe(one, size_bytes)
        rates.advance(now_s + 5)


def held(*keys: KeyText) -> LastingRates:
    rates = LastingRates(window_s=20, bucket_s=5)
    rates.advance(0)
    for one in keys:
        rates.hold(one)
    return rates


def test_steady_rates_become_the_averages() -> None:
    """So do loads, which are sums of them."""
    rates = held(key(1), key(2))
    told(rates, {key(1): 50, key(2): 150}, 0, 60)
    assert (rates.of(key(1)), rates.of(key(2))) == (10, 30)
    assert rates.sum_of([key(1), key(2)]) == 40
    assert rates.weighed({key(1): 2, key(2): 1}) == 50


def test_who_is_new_has_the_mean_of_its_channel() -> None:
    """Not that of all channels, and at once."""
    rates = held(key(1), key(2), key(1, "Other"))
    told(rates, {key(1): 50, key(2): 150, key(1, "Other"): 5000}, 0, 40)
    rates.hold(key(3))
    assert rates.of(key(3)) == 20
    rates.hold(key(1, "Third"))
    assert 0 < rates.of(key(1, "Third")) < 1000, "of a new channel nothing is known but what all bring"


def test_who_is_silent_stays_in_its_channel_s_mean() -> None:
    rates = held(*(key(number) for number in range(10)))
    told(rates, {key(0): 500}, 0, 200)
    assert rates.of(key(0)) == pytest.approx(100)
    assert rates.of(key(5)) == pytest.approx(0, abs=1e-6)
    assert len(rates) == 10


def test_a_window_that_was_seen_in_part_counts_if_half_of_it_was() -> None:
    rates = held(key(1), key(2))
    told(rates, {key(1): 50, key(2): 50}, 0, 10)
    rates.hold(key(3))
    told(rates, {key(1): 50, key(2): 50, key(3): 50}, 10, 20)
    assert rates.of(key(3)) == 10


def test_forecasts_are_compared_with_what_came() -> None:
    """For the subscriptions that a broker has now, each as often as it is fetched and sent."""
    rates = held(key(1), key(2))
    told(rates, {key(1): 50, key(2): 150}, 0, 60)
    told(rates, {key(1): 50, key(2): 300}, 60, 80)
    assert rates.windows == 4
    expected, seen = rates.forecast({key(1): 1, key(2): 1}, {key(2): 2}) or (0, 0)
    assert (expected, seen) == (10 + 3 * 30, 10 + 3 * 60), "fetched once, and sent to two"
    rates.hold(key(3))
    assert rates.forecast({key(3): 1}, {}) == (0, 0), "nothing was expected of what is new"


def test_the_forgotten_leave_no_trace() -> None:
    """Neither to who gets their number, nor of their channel, nor in the memory."""
    rates = held(key(1))
    told(rates, {key(1): 500}, 0, 60)
    rates.forget(key(1))
    assert (len(rates), rates.of(key(1))) == (0, 0)
    rates.hold(key(1, "Other"))
    told(rates, {}, 60, 120)
    assert rates.of(key(1, "Other")) == 0
    for number in range(3000):
        rates.hold(key(number, f"channel{number}"))
        rates.forget(key(number, f"channel{number}"))
    assert len(rates) == 1


def test_what_brokers_report_and_nobody_holds_takes_no_room_for_long() -> None:
    rates = held()
    for number in range(100):
        rates.observe(key(number), 10)
    assert len(rates) == 100
    told(rates, {}, 0, 20)
    assert len(rates) == 0


def test_many_fit() -> None:
    """Estimates of thousands of subscriptions are told apart."""
    keys = [key(number) for number in range(3000)]
    rates = held(*keys)
    told(rates, {one: 5.0 * number for number, one in enumerate(keys)}, 0, 60)
    assert [round(rates.of(one), 6) for one in keys] == list(range(3000))
