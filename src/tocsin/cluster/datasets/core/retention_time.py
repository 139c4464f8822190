"""The time that retention goes by (pure).

A clock that jumps a week ahead would have a week of history removed at once. So time passes here as the monotonic clock
says. A clock that is ahead of that is believed when it has stayed so for as long as history is kept: by then all that
was stored before the jump is past its time by either clock. A clock that goes back is believed at once, for then less
is removed. Both also hold for the time in which the process did not run.
"""

from __future__ import annotations

from dataclasses import dataclass

#: What a clock may gain at once, unasked: a restart takes minutes, and corrections are small.
_BELIEVED_AT_ONCE_S = 3600


@dataclass(frozen=True, slots=True)
class RetentionTime:
    """`claimed_us` is what a clock said that is not believed, and `doubted_s` for how long it has said so.

    >>> RetentionTime(0).after(60, clock_us=61_000_000, patience_s=86_400)
    RetentionTime(now_us=61000000, claimed_us=None, doubted_s=0.0)
    >>> RetentionTime(0).after(60, clock_us=604_800_000_000, patience_s=86_400)
    RetentionTime(now_us=60000000, claimed_us=604800000000, doubted_s=0.0)
    """

    now_us: int
    claimed_us: int | None = None
    doubted_s: float = 0.0

    def after(self, elapsed_s: float, clock_us: int, patience_s: float) -> RetentionTime:
        """The time when `elapsed_s` have passed and the clock says `clock_us`. History is kept for `patience_s`."""
        if _follows(clock_us, self.now_us, elapsed_s):
            return RetentionTime(clock_us)
        is_known = self.claimed_us is not None and _follows(clock_us, self.claimed_us, elapsed_s)
        doubted_s = self.doubted_s + elapsed_s if is_known else 0.0
        if is_known and doubted_s >= patience_s:
            return RetentionTime(clock_us)
        return RetentionTime(self.now_us + int(elapsed_s * 1e6), clock_us, doubted_s)


def _follows(clock_us: int, before_us: int, elapsed_s: float) -> bool:
    """Whether a clock has gained little since it said `before_us`."""
    return clock_us <= before_us + (elapsed_s + _BELIEVED_AT_ONCE_S) * 1e6
