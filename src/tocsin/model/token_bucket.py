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
        self._tokens = min(self.burst, self._tokens + (now_s - self._filled_at_s) * self.per_s)
        self._filled_at_s = now_s
        return self._tokens >= 1

    def take(self, now_s: float) -> bool:
        """Take one token, if there is one."""
        if not self.has_one(now_s):
            return False
        self._tokens -= 1
        return True
