"""Commit times: what is known to be old, and nothing younger."""

from __future__ import annotations

from pathlib import Path

from tocsin.cluster.database import open_database
from tocsin.cluster.datasets.retention import CommitTimes


def test_only_what_was_there_by_then_is_old(tmp_path: Path) -> None:
    """The last commit that had been seen before a moment bounds what is older than it; tables don't mix."""
    times = CommitTimes(open_database(tmp_path / "c.sqlite"))
    for at_us, sequence in ((100, 5), (200, 5), (300, 9)):
        times.note("t", sequence, at_us)
    assert times.through("t", 100) == 0
    assert times.through("t", 101) == 5
    assert times.through("t", 300) == 5
    assert times.through("t", 301) == 9
    assert times.through("t", 301) == 9
    assert times.through("other", 301) == 0
    again = CommitTimes(open_database(tmp_path / "c.sqlite"))
    assert again.through("t", 301) == 9
