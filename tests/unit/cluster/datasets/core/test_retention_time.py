"""The time that retention goes by: whatever the clock does, nothing goes before its time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.datasets.core.retention_time import RetentionTime

_US = 1_000_000
_KEPT_S = 7 * 24 * 3600
_SLACK_S = 3600

_steps = st.lists(
    st.tuples(st.floats(0, _KEPT_S), st.sampled_from([0, 0, 0, 60, -60, _KEPT_S, -_KEPT_S, 10**9, -(10**9)])),
    max_size=40,
)


@given(steps=_steps)
def test_nothing_is_removed_before_its_time_whatever_the_clock_does(steps: list[tuple[float, int]]) -> None:
    """For any jumps: what was stored, stamped as the clock said, is kept for as long as it is to be, but for the hour
    by which a clock may be put forward."""
    passed_s, error_s = 0.0, 0.0
    time = RetentionTime(0)
    stored: list[tuple[float, float]] = []  # When, and what the clock said.
    gained_s = 0.0
    for elapsed_s, jump_s in steps:
        passed_s += elapsed_s
        error_s += jump_s
        gained_s += min(max(jump_s, 0), _SLACK_S)
        time = time.after(elapsed_s, int((passed_s + error_s) * _US), _KEPT_S)
        for at_s, stamp_s in stored:
            if stamp_s < time.now_us / _US - _KEPT_S - 1:
                assert passed_s - at_s >= _KEPT_S - gained_s - 1
        stored.append((passed_s, passed_s + error_s))


def test_a_clock_that_stays_ahead_is_believed_in_the_end() -> None:
    """After downtime, history is kept longer for a while, not for ever."""
    time = RetentionTime(0)
    for hour in range(7 * 24 + 1):
        assert time.now_us == hour * 3600 * _US
        time = time.after(3600, clock_us=(hour + 10) * 3600 * _US, patience_s=_KEPT_S)
    assert time.claimed_us is None
    assert time.now_us > _KEPT_S * _US


def test_a_clock_that_goes_back_is_believed_at_once() -> None:
    """Then less is removed; when it comes right again, that is doubted, and less is removed still."""
    time = RetentionTime(10**15).after(60, clock_us=0, patience_s=_KEPT_S)
    assert time == RetentionTime(0)
    assert time.after(60, clock_us=10**15, patience_s=_KEPT_S) == RetentionTime(60 * _US, 10**15)
