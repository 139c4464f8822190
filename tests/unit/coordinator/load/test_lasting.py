"""What lasts of rates is told from bursts by looking at a channel's subscriptions together."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tocsin.coordinator.load.lasting import Lasting

Floats = NDArray[np.float64]


def learned(windows: list[Floats], channels: NDArray[np.int64] | None = None) -> tuple[Lasting, Floats]:
    """The estimates after these windows; without channels, all are in one."""
    count = len(windows[0])
    numbers = np.arange(count)
    where = np.zeros(count, np.int64) if channels is None else channels
    lasting = Lasting()
    lasting.make_room(count, int(where.max()) + 1)
    for rates in windows:
        lasting.learn(numbers, where, rates)
    return lasting, lasting.estimates(numbers, where)


@given(
    st.lists(st.floats(0, 1e6, allow_subnormal=False), min_size=2, max_size=20),
    st.integers(2, 6),
)
def test_steady_rates_are_known_exactly_after_two_windows(rates: list[float], windows: int) -> None:
    true = np.array(rates)
    _, estimates = learned([true] * windows)
    np.testing.assert_allclose(estimates, true, atol=1e-6 * true.max() + 1e-9)


def test_channels_that_come_one_by_one_are_not_copied_each_time() -> None:
    """Ten thousand names take ten times as long as a thousand, whoever reports them."""
    lasting = Lasting()
    tables = {}
    for count in range(1, 10_000):
        lasting.make_room(count, count)
        tables[id(lasting.means)] = lasting.means
    assert len(tables) < 20
    assert len(lasting.means) >= 9_999


def test_one_window_alone_is_believed_by_half() -> None:
    """It can't tell bursts from what lasts."""
    _, estimates = learned([np.array([0.0, 100.0])])
    assert estimates.tolist() == [25.0, 75.0]


def test_bursts_leave_everybody_at_the_mean_of_the_channel() -> None:
    """Two in a hundred have a burst in each window, others every time: the next one can be anybody's."""
    chance = np.random.default_rng(1)
    windows = [np.where(chance.random(2000) < 0.02, 5000.0, 0.0) for _ in range(20)]
    _, estimates = learned(windows)
    assert abs(estimates.mean() - 100) < 20, "what all of them bring together is known"
    assert estimates.std() < 10, "though one window's averages vary by 700"


def test_what_lasts_is_found_below_the_bursts() -> None:
    """Those who bring more in the long run are known after some windows, though each window is mostly bursts. Whoever
    is expected to bring much, does: the estimates are right on average, for the busy and for the quiet."""
    chance = np.random.default_rng(2)
    true = chance.uniform(5, 50, 2000)
    windows = [np.where(chance.random(2000) < 0.3, true / 0.3, 0.0) for _ in range(40)]
    _, estimates = learned(windows)
    of_estimates = np.sqrt(np.mean((estimates - true) ** 2))
    of_windows = np.sqrt(np.mean((windows[-1] - true) ** 2))
    assert of_estimates < 0.25 * of_windows
    assert abs(estimates.mean() / true.mean() - 1) < 0.05
    order = np.argsort(estimates)
    for part in np.split(order, 4):
        assert abs(estimates[part].mean() / true[part].mean() - 1) < 0.3


def test_a_change_that_lasts_is_followed_within_twelve_windows() -> None:
    """One of a hundred steady ones brings ten times as much from now on. It could be a burst, and the longest that
    the channel ever had; half of the change is in the estimate after four windows, and nine tenths after twelve."""
    before, after = np.full(100, 10.0), np.full(100, 10.0)
    before[1:] += np.linspace(-5, 5, 99)
    after[1:] = before[1:]
    after[0] = 100.0
    seen = {windows: learned([before] * 10 + [after] * windows)[1][0] for windows in (4, 12)}
    assert seen[4] > 10 + 0.5 * 90
    assert seen[12] > 10 + 0.9 * 90
    assert max(seen.values()) <= 100


def test_a_change_of_a_whole_channel_is_followed_within_six_windows() -> None:
    _, estimates = learned([np.full(50, 10.0)] * 10 + [np.full(50, 40.0)] * 6)
    assert (estimates > 10 + 0.9 * 30).all()


def test_channels_are_told_apart() -> None:
    """One has bursts, the other is steady: only the first one's are taken to its mean."""
    chance = np.random.default_rng(3)
    channels = np.repeat([0, 1], 500)
    steady = np.linspace(1, 99, 500)
    windows = [np.concatenate([np.where(chance.random(500) < 0.05, 2000.0, 0.0), steady]) for _ in range(10)]
    _, estimates = learned(windows, channels)
    assert estimates[:500].std() < 20
    np.testing.assert_allclose(estimates[500:], steady)


def test_a_number_that_is_used_again_has_no_past() -> None:
    steady = np.linspace(10, 90, 9)
    lasting, _ = learned([steady] * 5)
    lasting.forget(8)
    numbers, channels = np.arange(9), np.zeros(9, np.int64)
    assert lasting.estimates(numbers, channels)[8] == 50, "the mean of the channel"
    lasting.forget_channel(0)
    assert np.isnan(lasting.means[0])
