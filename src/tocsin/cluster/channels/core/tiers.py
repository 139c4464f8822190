"""Which tiers of a channel's subscriptions to merge: a decision over sizes, made without Spark.

Tiers are in order of arrival. As in a log-structured merge, newcomers come in as small tiers and small tiers are
merged into larger ones, so that a run scans few of them and the large ones are seldom rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

#: A tier is merged with all younger ones when together they have a fifth of the rows. So each tier holds more than four
#: times the rows of all younger ones: 20 million rows make at most seven tiers of 10,000 or more, and a row is
#: rewritten about fifteen times in all. Each tier costs a run a scan of its own: five cost 10%, ten cost 30%.
RATIO = 4
#: A tier is rewritten when more than this share of its rows has ended: four rows are written for each one that ends.
MAX_REMOVED_SHARE = 0.25


@dataclass(frozen=True, slots=True)
class TierSize:
    """Rows of a tier, and how many of them belong to subscriptions that have ended."""

    rows: int
    removed: int = 0

    @property
    def living(self) -> int:
        return max(0, self.rows - self.removed)


def tiers_to_merge(sizes: Sequence[TierSize]) -> range | None:
    """The indices of the tiers to merge into one next; None if nothing is to be merged.

    >>> tiers_to_merge([TierSize(1_000_000), TierSize(40_000), TierSize(10_000)])
    range(1, 3)
    >>> tiers_to_merge([TierSize(1_000_000), TierSize(50_000), TierSize(10_000)])
    >>> tiers_to_merge([TierSize(1_000_000, removed=300_000), TierSize(50_000)])
    range(0, 1)
    """
    younger = sum(size.living for size in sizes)
    for index, size in enumerate(sizes):
        younger -= size.living
        if index < len(sizes) - 1 and size.living <= RATIO * younger:
            return range(index, len(sizes))
    for index, size in enumerate(sizes):
        if size.removed > MAX_REMOVED_SHARE * size.rows:
            return range(index, index + 1)
    return None
