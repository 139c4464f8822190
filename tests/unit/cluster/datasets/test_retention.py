"""Commit times and retention's clock: what is known to be old, and nothing younger."""

from __future__ import annotations

from databases import Database
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.retention import CommitTimes, RetentionClock


def test_only_what_was_there_by_then_is_old(database: Database) -> None:
    """The last commit that had been seen before a moment bounds what is older than it; tables don't mix."""
    times = CommitTimes(open_catalogue(database))
    for at_us, sequence in ((100, 5), (200, 5), (300, 9)):
        times.note("t", sequence, at_us)
    assert times.through("t", 100) == 0
    assert times.through("t", 101) == 5
    assert times.through("t", 300) == 5
    assert times.through("t", 301) == 9
    assert times.through("t", 301) == 9
    assert times.through("other", 301) == 0
    again = CommitTimes(open_catalogue(database))
    assert again.through("t", 301) == 9


_DAY_S = 24 * 3600
_US = 1_000_000


def test_the_clock_of_retention_outlives_the_process(database: Database) -> None:
    """A start with a clock that is a week ahead does not know better than the process before it."""
    clock = RetentionClock(open_catalogue(database), monotonic_s=500)
    assert clock.now_us(1000 * _US, 500, _DAY_S) == 1000 * _US
    assert clock.now_us(1060 * _US, 560, _DAY_S) == 1060 * _US
    again = RetentionClock(open_catalogue(database), monotonic_s=7)
    assert again.now_us((1060 + 7 * _DAY_S) * _US, 17, _DAY_S) == 1070 * _US
    again = RetentionClock(open_catalogue(database), monotonic_s=0)
    assert again.now_us((1069 + 8 * _DAY_S) * _US, _DAY_S - 1, _DAY_S) == (1069 + _DAY_S) * _US
    assert again.now_us((1070 + 8 * _DAY_S) * _US, _DAY_S, _DAY_S) == (1070 + 8 * _DAY_S) * _US
