"""Limits of time: something stuck is noticed, and what ends in time is left alone."""

from __future__ import annotations

import threading

import pytest

from tocsin.cluster.spark_jobs import time_limit


def test_an_end_that_waits_for_something_stuck_is_cut_short() -> None:
    """Whoever has to act hears of it while the wait goes on."""
    late = threading.Event()
    with time_limit(0.01, late.set):
        assert late.wait(10)


@pytest.mark.parametrize("fails", [False, True])
def test_an_end_in_time_is_left_alone(fails: bool) -> None:
    """Also one that fails."""
    late = threading.Event()
    before = threading.active_count()
    try:
        with time_limit(60, late.set):
            if fails:
                raise ValueError
    except ValueError:
        pass
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer):
            thread.join(10)
    assert threading.active_count() == before
    assert not late.is_set()
