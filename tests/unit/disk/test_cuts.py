"""Power cuts, a few of them; `python -m disk` does hundreds, and finds planted bugs."""

from __future__ import annotations

import shutil

import pytest

from disk.cuts import cut_power

_NEEDS_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the recorder")


@pytest.mark.shell
@_NEEDS_COMPILER
def test_a_power_cut_loses_nothing_that_anybody_was_told() -> None:
    """Cluster, coordinator and broker: no record, result, subscription or user is lost, and no number used again."""
    report = cut_power("suite", 5, steps=60)
    assert report.violations == []
    assert report.cuts == 5


@pytest.mark.shell
@_NEEDS_COMPILER
def test_a_sync_left_out_is_found() -> None:
    """The recording and the model of a disk are not blind."""
    assert cut_power("suite", 10, steps=60, bug="results-told-before-sync", stop_at_first=True).violations


@pytest.mark.shell
@_NEEDS_COMPILER
def test_a_recorded_run_that_fails_says_why() -> None:
    with pytest.raises(RuntimeError, match="KeyError: 'no such bug'"):
        cut_power("suite", 1, steps=1, bug="no such bug")
