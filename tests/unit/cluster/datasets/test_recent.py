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


def newest(recent: RecentRows, after: int, through: int, max_rows: int, max_bytes: int = 10_000) -> list[int]:
    found = recent.newest(after, through, max_rows=max_rows, max_bytes=max_bytes)
    return [value for part in found for value in part.column("n").to_pylist()]


def test_the_newest_rows_of_what_is_there() -> None:
    """The last rows, oldest first, cut inside a commit if need be; what was let go is simply not among them."""
    recent = RecentRows(max_bytes=250, since=0)
    for sequence in range(1, 6):
        recent.add(sequence, pa.table({"n": pa.array(range(10 * sequence, 10 * sequence + 10), pa.int64())}))
    assert newest(recent, 0, 5, max_rows=100) == list(range(30, 60))
    assert newest(recent, 0, 5, max_rows=12) == list(range(48, 60))
    assert newest(recent, 0, 5, max_rows=10) == list(range(50, 60))
    assert newest(recent, 4, 5, max_rows=100) == list(range(50, 60))
    assert newest(recent, 3, 4, max_rows=3) == [47, 48, 49]
    assert newest(recent, 5, 5, max_rows=100) == []
    assert newest(recent, 9, 5, max_rows=100) == []


def test_empty_commits_do_not_end_the_search() -> None:
    """A commit without rows, such as the one that begins a table, is passed over."""
    recent = RecentRows(max_bytes=1000, since=0)
    recent.add(1, rows(2))
    recent.add(2, rows(0))
    assert newest(recent, 0, 2, max_rows=5) == [0, 1]


def test_large_rows_are_fewer() -> None:
    """Beyond so many bytes no more rows are given, and there is no gap between those that are."""
    recent = RecentRows(max_bytes=10_000, since=0)
    for sequence in range(1, 4):
        recent.add(sequence, rows(10))  # 80 bytes each
    assert newest(recent, 0, 3, max_rows=100, max_bytes=80) == list(range(10))
    assert newest(recent, 0, 3, max_rows=100, max_bytes=100) == [8, 9, *range(10)]
    assert newest(recent, 0, 3, max_rows=100, max_bytes=7) == []
