"""Numbers that are never used twice, whatever happens to the disk (pure).

Brokers and clients know the numbers of results commits and the ids of subscriptions. A cluster that is started from a
back-up does not know how far its former process had come. So at each start the next number is at least the one that the
clock gives. Numbers grow more slowly than the clock's, so every new number is above all that brokers and clients have
ever seen. The skipped numbers are a gap. No commit lies in it, and a position in it comes from a history that is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tocsin.model.position import MAX_EPOCH, MAX_NUMBER, end_of

#: 2025-01-01T00:00:00Z, before any cluster was started.
_BEGIN_US = 1_735_689_600_000_000
#: Results commits come one after the other and take 10 ms and more.
_NUMBERS_PER_S = 200
#: Subscriptions are made in bulk, at about 100,000 a second.
_IDS_PER_S = 1_000_000


def number_floor(now_us: int) -> int:
    """The lowest number that a process started at `now_us` may give to a results commit.

    >>> number_floor(0), number_floor(1_735_689_610_000_000)
    (0, 2000)
    """
    return _floor(now_us, _NUMBERS_PER_S, MAX_NUMBER)


def id_floor(now_us: int) -> int:
    """The lowest id that a process started at `now_us` may give to a subscription."""
    return _floor(now_us, _IDS_PER_S, MAX_EPOCH)


def _floor(now_us: int, per_s: int, highest: int) -> int:
    """The clock gets half of all numbers, until 2068, so that a wrong clock can't use them up."""
    return min(max(0, now_us - _BEGIN_US) * per_s // 1_000_000, highest // 2)


class Gaps:
    """Numbers that no commit has: pairs (after, through], ascending.

    >>> gaps = Gaps([(10, 50), (60, 90)])
    >>> gaps.beyond(30), gaps.beyond(50), gaps.beyond(55)
    (50, 50, 55)
    """

    def __init__(self, pairs: Iterable[tuple[int, int]] = ()) -> None:
        self._pairs = sorted(pairs)
        self._ends = [through for _, through in self._pairs]

    def beyond(self, number: int) -> int:
        """The number itself or, if it lies in a gap, the end of the gap."""
        at = bisect_left(self._ends, number)
        if at < len(self._pairs) and self._pairs[at][0] < number:
            return self._ends[at]
        return number

    def around(self, sequence: int) -> int | None:
        """Where to go on from, if `sequence` lies inside a gap. Both ends of a gap are valid cursors: they cover
        everything before the gap, and nothing after it.

        >>> gaps = Gaps([(10, 50)])
        >>> gaps.around(end_of(10)), gaps.around(end_of(10) + 1) == end_of(50), gaps.around(end_of(50))
        (None, True, None)
        """
        at = bisect_left(self._ends, sequence, key=end_of)
        if at < len(self._pairs):
            after, through = self._pairs[at]
            if end_of(after) < sequence < end_of(through):
                return end_of(through)
        return None
