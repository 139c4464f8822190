"""LIKE patterns of filters."""

from __future__ import annotations

import pytest

from tocsin.filters.patterns import LikePattern, UnsupportedPattern, read_pattern


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("a", LikePattern("a", begins=True, ends=True)),
        ("", LikePattern("", begins=True, ends=True)),
        ("%", LikePattern("", begins=False, ends=False)),
        ("%%", LikePattern("", begins=False, ends=False)),
        ("a%%", LikePattern("a", begins=True, ends=False)),
        ("%a\n%", LikePattern("a\n", begins=False, ends=False)),
        (r"\%\_\\%", LikePattern("%_\\", begins=True, ends=False)),
        (r"%\%", LikePattern("%", begins=False, ends=True)),
    ],
)
def test_patterns_are_understood(pattern: str, found: LikePattern) -> None:
    """At the beginning, at the end, anywhere, or the whole text."""
    assert read_pattern(pattern) == found


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a%b", "% at its ends only"),
        ("%a%b%", "% at its ends only"),
        ("a_", "_ is not allowed"),
        ("a\\b", "a backslash may stand before"),
        ("a\\", "a backslash may stand before"),
        ("\\\\\\", "a backslash may stand before"),
    ],
)
def test_other_patterns_are_refused_with_what_is_allowed(pattern: str, message: str) -> None:
    with pytest.raises(UnsupportedPattern, match=message):
        read_pattern(pattern)
