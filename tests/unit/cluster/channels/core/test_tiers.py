"""The decision which tiers of subscriptions to merge."""

from __future__ import annotations

from math import log

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.core.tiers import MAX_REMOVED_SHARE, RATIO, TierSize, tiers_to_merge

Step = tuple[int, float]


def merged(sizes: list[TierSize], column_of: range) -> list[TierSize]:
    living = sum(sizes[number].living for number in column_of)
    return [*sizes[: column_of.start], *([TierSize(living)] if living else []), *sizes[column_of.stop :]]


@given(st.lists(st.tuples(st.integers(1, 1_000_000), st.floats(0, 1)), max_size=60))
def test_merging_ends_and_leaves_few_tiers(steps: list[Step]) -> None:
    """Whatever comes and goes, merges keep every living row, come to an end, and leave tiers that shrink by a ratio."""
    sizes: list[TierSize] = []
    for rows, share_removed in steps:
        sizes = [TierSize(size.rows, max(size.removed, int(size.rows * share_removed))) for size in sizes]
        sizes.append(TierSize(rows))
        living = sum(size.living for size in sizes)
        merges = 0
        while (column_of := tiers_to_merge(sizes)) is not None:
            sizes = merged(sizes, column_of)
            merges += 1
            assert merges <= 2 * len(steps) + 2
        assert sum(size.living for size in sizes) == living
        assert all(size.removed <= MAX_REMOVED_SHARE * size.rows for size in sizes)
        for number, size in enumerate(sizes[:-1]):
            assert size.living > RATIO * sum(younger.living for younger in sizes[number + 1 :])


def test_newcomers_rewrite_a_large_tier_seldom() -> None:
    """A row is rewritten a number of times that grows with the logarithm of how many there are."""
    sizes, written, come = [TierSize(10_000_000)], 0, 0
    while come < 10_000_000:
        sizes.append(TierSize(10_000))
        come += 10_000
        while (column_of := tiers_to_merge(sizes)) is not None:
            written += sum(sizes[number].living for number in column_of)
            sizes = merged(sizes, column_of)
        assert len(sizes) <= 2 + log(20_000_000 / 10_000, RATIO + 1)
    assert written / come < 25


def test_a_tier_whose_rows_have_all_left_goes() -> None:
    """It is rewritten alone, to nothing."""
    assert tiers_to_merge([TierSize(50_000_000), TierSize(1_000_000, removed=1_000_000), TierSize(10)]) is not None
    assert tiers_to_merge([TierSize(5, removed=5)]) == range(1)
    assert tiers_to_merge([]) is None
