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


def oldest_kept_us(now_us: int, retention_s: float) -> int:
    """The time before which results of a channel with this retention are removed.

    Files hold results of many channels, so removing those of one rewrites the files. The time advances in steps of a
    tenth of the retention: then a file is rewritten a few times and not every minute, and results are kept for at most
    a tenth longer.

    >>> oldest_kept_us(now_us=1_234_000_000, retention_s=100)
    1130000000
    """
    step_us = max(1, int(retention_s * 1e5))
    oldest_us = now_us - int(retention_s * 1e6)
    return oldest_us - oldest_us % step_us


def _follows(clock_us: int, before_us: int, elapsed_s: float) -> bool:
    """Whether a clock has gained little since it read `before_us`."""
    return clock_us <= before_us + (elapsed_s + _BELIEVED_AT_ONCE_S) * 1e6
