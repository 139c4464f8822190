"""The thread that merges subscriptions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from tocsin.cluster.channels.merging import SubscriptionMerging


class Subscriptions:
    """Has so many merges to do; they fail while told to."""

    def __init__(self, merges: int) -> None:
        self.merges = merges
        self.is_failing = False
        self.attempts = 0
        self.attempted = threading.Semaphore(0)

    def merge(self, between_runs: threading.Lock) -> bool:
        self.attempts += 1
        try:
            if self.is_failing:
                raise RuntimeError("no room")
            if not self.merges:
                return False
            with between_runs:
                self.merges -= 1
            return True
        finally:
            self.attempted.release()

    def wait(self, attempts: int) -> None:
        for _ in range(attempts):
            assert self.attempted.acquire(timeout=10)


class Clock:
    now_s = 0.0

    def monotonic_s(self) -> float:
        return self.now_s


@contextmanager
def merging(clock: Clock, *channels: Subscriptions) -> Iterator[SubscriptionMerging]:
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(setLocalProperty=lambda name, value: None))
    states: Any = [
        SimpleNamespace(channel=SimpleNamespace(name=f"C{at}"), subscriptions=one, lock=threading.Lock())
        for at, one in enumerate(channels)
    ]
    thread: SubscriptionMerging = SubscriptionMerging(spark, clock, lambda: states, lambda one: one.lock)  # type: ignore[arg-type]
    try:
        yield thread
    finally:
        thread.stop()


def test_merges_go_on_until_nothing_is_left() -> None:
    """Once woken, for every channel."""
    one, other = Subscriptions(3), Subscriptions(1)
    with merging(Clock(), one, other) as thread:
        thread.wake()
        one.wait(4)
        other.wait(2)
    assert one.merges == other.merges == 0


def test_a_merge_that_failed_waits_a_minute_and_holds_up_no_other_channel() -> None:
    """A large merge that can't be done must not be tried at every run."""
    clock, failing, other = Clock(), Subscriptions(1), Subscriptions(1)
    failing.is_failing = True
    with merging(clock, failing, other) as thread:
        thread.wake()
        other.wait(2)
        thread.wake()
        other.wait(1)
        assert failing.attempts == 1
        clock.now_s, failing.is_failing = 61.0, False
        thread.wake()
        other.wait(1)
    assert failing.merges == 0
