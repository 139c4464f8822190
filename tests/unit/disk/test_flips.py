"""Flipped bits, a few of them; `python -m disk` does hundreds."""

from __future__ import annotations

import pytest

from disk.flips import finds, flip_bits
from disk.planted import FLIP_BUGS


@pytest.mark.shell
def test_a_damaged_file_is_detected_or_repaired() -> None:
    """None of them makes a start say anything else than before."""
    report = flip_bits("suite", 6, steps=60)
    assert report.violations == []
    assert report.flips == 6


@pytest.mark.shell
@pytest.mark.parametrize("bug", FLIP_BUGS)
def test_a_check_that_is_not_made_is_found(bug: str) -> None:
    """Whatever else is checked does not hide it."""
    assert finds(bug, "suite", 120)
