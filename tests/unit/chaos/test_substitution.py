"""Bugs are planted in the place of what is there."""

from __future__ import annotations

import subprocess

import pytest

from chaos.substitution import substitute


def test_a_bug_without_a_place_is_named() -> None:
    """A part that was renamed or moved leaves no bug planted nowhere."""
    with pytest.raises(AttributeError, match="has no nothing_like_it: plant this bug where it is done now"):
        substitute(subprocess, "nothing_like_it", None)
