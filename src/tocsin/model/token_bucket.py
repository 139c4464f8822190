"""A rate limit: a steady rate, with a burst from unused time (pure)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class TokenBucket:
    """Gains `per_s` tokens each second and holds at most `burst`; it begins full.

    >>> bucket = TokenBucket(per_s=1, burst=2)
    >>> [bucket.take(now_s) for now_s in (10, 10, 10, 11, 11)]
    [True, True, False, True, False]
    """

    per_s: float
    burst: float
    _tokens: float = 0.0
    _filled_at_s: float = float("-inf")

    def has_one(self, now_s: float) -> bool:
        """Whether `take` would succeed now."""
        self._fill(now_s)
        return self._tokens >= 1

    def is_full(self, now_s: float) -> bool:
        """Whether nothing has been taken for long."""
        self._fill(now_s)
        return self._tokens >= self.burst

    def take(self, now_s: float, count: float = 1) -> bool:
        """Take so many tokens, if they are there."""
        self._fill(now_s)
        if self._tokens < count:
            return False
        self._tokens -= count
        return True

    def _fill(self, now_s: float) -> None:
        self._tokens = min(self.burst, self._tokens + (now_s - self._filled_at_s) * self.per_s)
        self._filled_at_s = now_s
