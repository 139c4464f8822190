"""The charts' past: bounded, second by second at first, then minute by minute."""

from __future__ import annotations

import math

import msgspec
import pytest

from tocsin.dashboard.history import COARSE_SLOTS, FINE_SLOTS, MAX_POINTS, OVERALL, PER_BROKER, History, Sample


def sample(at_s: float, value: float | None, *brokers: str) -> Sample:
    return Sample(at_s, [value] * len(OVERALL), {name: [value] * len(PER_BROKER) for name in brokers})


def filled(seconds: int, *brokers: str) -> History:
    history = History()
    for second in range(seconds):
        history.add(sample(1000.0 + second, float(second), *brokers))
    return history


def test_what_was_seen_is_read_back() -> None:
    """Seconds come in their order, with None where there was no figure."""
    history = History()
    assert history.read(0) == {"times_s": [], "overall": {name: [] for name in OVERALL}, "brokers": {}}
    history.add(sample(1000.0, 1.5, "a"))
    history.add(sample(1001.0, None, "a", "b"))
    read = msgspec.json.decode(msgspec.json.encode(history.read(0)))
    assert read["times_s"] == [1000.0, 1001.0]
    assert read["overall"]["cov"] == [1.5, None]
    assert read["brokers"]["a"]["in"] == [1.5, None]
    assert read["brokers"]["b"]["in"] == [None, None]
    assert history.read(1000.5)["times_s"] == [1001.0]


def test_half_an_hour_is_kept_second_by_second() -> None:
    """Older seconds make room; the half hour is told in seconds, as many as can be shown."""
    history = filled(FINE_SLOTS + 100, "a")
    end_s = 1000.0 + FINE_SLOTS + 99
    last_minute = history.read(end_s - 59)
    assert last_minute["overall"]["cov"] == pytest.approx(
        [FINE_SLOTS + 40.0 + second for second in range(60)], rel=1e-3
    )
    whole = history.read(end_s - FINE_SLOTS + 1)
    assert len(whole["times_s"]) <= MAX_POINTS
    assert whole["times_s"][-1] == end_s


def test_a_day_is_kept_minute_by_minute() -> None:
    """A minute's cov is the mean of its seconds, its highest load the highest; a day and no more is kept."""
    history = filled(FINE_SLOTS + 600, "a")
    read = history.read(0)
    assert read["times_s"][0] == 1059.0
    assert read["overall"]["cov"][0] == pytest.approx(29.5)
    assert read["overall"]["max"][0] == pytest.approx(59)
    assert read["brokers"]["a"]["out"][1] == pytest.approx(89.5)
    assert len(read["times_s"]) == (FINE_SLOTS + 600) // 60
    long_past = filled((COARSE_SLOTS + 20) * 60)
    assert long_past.read(0)["times_s"][0] >= 1000.0 + 20 * 60


def test_brokers_that_are_gone_are_forgotten() -> None:
    """A broker that left no trace within the half hour takes no room any more."""
    history = filled(10, "a", "gone")
    for second in range(10, 3 * FINE_SLOTS):
        history.add(sample(1000.0 + second, 1.0, "a"))
    assert set(history.read(1000.0 + 3 * FINE_SLOTS - 60)["brokers"]) == {"a"}


def test_figures_are_short() -> None:
    """Four digits are told, of any size; what is not finite is not told as a number."""
    history = History()
    for second, value in enumerate([123456.0, 0.00123456, 0.0, 7.0]):
        history.add(sample(1000.0 + second, value))
    assert history.read(0)["overall"]["mean"] == pytest.approx([123500.0, 0.001235, 0.0, 7.0])
    history.add(sample(2000.0, math.nan))
    assert msgspec.json.decode(msgspec.json.encode(history.read(2000.0)))["overall"]["mean"] == [None]


def test_many_brokers_are_bounded() -> None:
    """Of more brokers than anybody can tell apart, no history is kept."""
    history = History()
    history.add(sample(1.0, 1.0, *(f"b{number}" for number in range(300))))
    assert len(history.read(0)["brokers"]) == 200
