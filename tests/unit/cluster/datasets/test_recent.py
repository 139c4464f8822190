"""Recent rows: whole commits in memory, bounded, and honest about what is no longer there."""

from __future__ import annotations

import pyarrow as pa

from tocsin.cluster.datasets.recent import RecentRows


def rows(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_the_oldest_commits_go_first() -> None:
    """Beyond the limit whole commits are let go, and windows that reach back to them are not answered."""
    recent = RecentRows(max_bytes=250, since=0)
    for sequence in range(1, 6):
        recent.add(sequence, rows(10))  # 80 bytes each
    assert recent.size_bytes <= 250
    assert recent.window(2, 5) is not None
    assert len(recent.window(2, 5) or []) == 3
    assert recent.window(1, 5) is None


def test_a_commit_larger_than_all_leaves_nothing() -> None:
    """What does not fit is not kept; only an empty window is known then."""
    recent = RecentRows(max_bytes=100, since=0)
    recent.add(1, rows(1000))
    assert recent.size_bytes == 0
    assert recent.window(0, 1) is None
    assert recent.window(1, 1) == []


def test_clearing_forgets_what_is_before() -> None:
    """After rows were changed on disk, nothing in memory stands for them."""
    recent = RecentRows(max_bytes=1000, since=3)
    assert recent.window(2, 3) is None
    recent.add(4, rows(1))
    recent.clear(since=4)
    assert recent.window(3, 4) is None
    assert recent.window(4, 9) == []
