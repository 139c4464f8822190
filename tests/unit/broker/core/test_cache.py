"""The result cache: it knows what it lacks, stays within its bounds, and gives way in the order of its policy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.core.cache import POLICIES, ResultCache
from tocsin.errors import InvalidValue
from tocsin.protocol.ports import Delivery


def result(subscription: int, sequence: int, size: int = 20) -> Delivery:
    return Delivery(subscription, sequence, b"x" * size)


def cache(policy: str = "lru", *, max_bytes: int = 10_000, left: dict[int, int] | None = None) -> ResultCache:
    return ResultCache(policy, max_bytes=max_bytes, ttl_s=10, left=lambda one: (left or {}).get(one, 0))


def sequences(found: list[Delivery] | None) -> list[int] | None:
    return None if found is None else [one.sequence for one in found]


def test_complete_or_nothing() -> None:
    """What is asked for is there in full, or it is a miss: never a part."""
    kept = cache()
    kept.open(1, complete_after=10)
    kept.put(1, [result(1, 12), result(1, 15)], now_s=0)
    assert sequences(kept.after(1, 10)) == [12, 15]
    assert sequences(kept.after(1, 12)) == [15]
    assert sequences(kept.after(1, 99)) == []
    assert kept.after(1, 9) is None
    assert kept.after(2, 50) is None
    assert (kept.hits, kept.misses) == (3, 2)


def test_history_reaches_further_back() -> None:
    """Fetched history that joins what is there extends it; what does not join is left out."""
    kept = cache()
    kept.open(1, complete_after=10)
    kept.put(1, [result(1, 12)], now_s=0)
    kept.put_history(1, 4, [result(1, 6), result(1, 9), result(1, 12)], now_s=1)
    assert sequences(kept.after(1, 4)) == [6, 9, 12]
    kept.put_history(1, 7, [result(1, 9)], now_s=2)
    assert sequences(kept.after(1, 4)) == [6, 9, 12]


def test_room_is_made_from_the_oldest_of_the_least_used() -> None:
    """With lru, the subscription that was not looked at for longest gives its oldest results."""
    kept = cache(max_bytes=2_000)
    for one in (1, 2):
        kept.open(one, 0)
        kept.put(one, [result(one, 10 * at) for at in range(1, 5)], now_s=0)
    assert kept.after(1, 0) is not None
    kept.put(1, [result(1, 50 + at) for at in range(3)], now_s=1)
    assert kept.after(2, 0) is None
    assert sequences(kept.after(2, 40)) == []
    assert kept.after(1, 0) is not None
    assert kept.size_bytes <= 2_000


def test_least_subscribers_left() -> None:
    """Results that nobody waits for give way before those that somebody may still need."""
    kept = cache("least-subscribers-left", max_bytes=1_500, left={1: 0, 2: 5})
    for one in (2, 1):
        kept.open(one, 0)
        kept.put(one, [result(one, at) for at in range(1, 4)], now_s=0)
    kept.put(2, [result(2, at) for at in range(4, 6)], now_s=0)
    assert sequences(kept.after(2, 0)) == [1, 2, 3, 4, 5]
    assert kept.after(1, 0) is None


def test_time_to_live() -> None:
    """With ttl, old results go when their time is over, whether there is room or not."""
    kept = cache("ttl")
    kept.open(1, 0)
    kept.put(1, [result(1, 1)], now_s=0)
    kept.put(1, [result(1, 2)], now_s=8)
    kept.expire(now_s=11)
    assert kept.after(1, 0) is None
    assert sequences(kept.after(1, 1)) == [2]


def test_unknown_policy() -> None:
    """A policy that is not there is refused with those that are."""
    with pytest.raises(InvalidValue, match="lru, ttl, least-subscribers-left"):
        cache("best")


@given(
    st.sampled_from(sorted(POLICIES)),
    st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 400)), max_size=60),
)
def test_bounded_and_exact(policy: str, puts: list[tuple[int, int, int]]) -> None:
    """Whatever is put in, the cache stays within its bound, and what it returns is all there is after a sequence."""
    kept = cache(policy, max_bytes=2_000, left={1: 3, 2: 1})
    everything: dict[int, list[int]] = {1: [], 2: [], 3: []}
    for one in everything:
        kept.open(one, 0)
    sequence = 0
    for at, (one, count, size) in enumerate(puts):
        added = [result(one, sequence + step, size) for step in range(1, count + 1)]
        sequence += count
        everything[one] += [step.sequence for step in added]
        kept.put(one, added, now_s=float(at))
        kept.expire(float(at))
        assert kept.size_bytes <= 2_000
        for other, expected in everything.items():
            for after in (0, sequence // 2, sequence):
                found = sequences(kept.after(other, after))
                assert found is None or found == [step for step in expected if step > after]
