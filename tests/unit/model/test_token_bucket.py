"""Rate limits."""

from __future__ import annotations

from tocsin.model.token_bucket import TokenBucket


def test_unused_time_makes_a_burst_and_no_more() -> None:
    """A bucket that nobody took from for a year gives what it holds; then its rate counts again."""
    bucket = TokenBucket(per_s=2, burst=3)
    assert [bucket.take(0.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(3e7) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(3e7 + 0.5 * step) for step in range(1, 4)] == [True, True, True]


def test_asking_takes_nothing() -> None:
    """Whoever asks whether there is a token leaves it there."""
    bucket = TokenBucket(per_s=1, burst=1)
    assert all(bucket.has_one(5.0) for _ in range(3))
    assert bucket.take(5.0)
    assert not bucket.has_one(5.0)
