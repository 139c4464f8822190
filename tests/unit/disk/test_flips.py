"""Flipped bits, a few of them; `python -m disk` does hundreds."""

from __future__ import annotations

import pytest

from disk.flips import flip_bits


@pytest.mark.shell
def test_a_damaged_file_is_detected_or_repaired() -> None:
    """None of them makes a start say anything else than before."""
    report = flip_bits("suite", 6, steps=60)
    assert report.violations == []
    assert report.flips == 6
