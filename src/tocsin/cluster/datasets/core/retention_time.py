"""The time that retention goes by (pure).

A clock that jumps a week ahead would make retention remove a week of history at once. So this time advances with the
monotonic clock. A wall clock that is ahead of it is believed once it has stayed ahead for as long as history is kept:
by then everything stored before the jump is past its time by either clock. A wall clock that goes back is believed at
once, because then less is removed. Both also hold for the time in which the process did not run.
"""

from __future__ import annotations

from dataclasses import dataclass

#: A clock may gain this much at once without doubt: a restart takes minutes, and corrections are small.
_BELIEVED_AT_ONCE_S = 3600


@dataclass(frozen=True, slots=True)
class RetentionTime:
    """`claimed_us` is a clock's time that is not believed yet, and `doubted_s` says how long the clock has claimed it.

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
    """Whether a clock has gained little since it read `before_us`."""
    return clock_us <= before_us + (elapsed_s + _BELIEVED_AT_ONCE_S) * 1e6
