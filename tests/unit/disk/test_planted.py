"""Planted bugs, which show that cuts and flips are not blind."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from own_modules import knowing_tests

_PLANT_ALL = """
from disk.planted import CUT_BUGS, FLIP_BUGS

for bug in (*CUT_BUGS.values(), *FLIP_BUGS.values()):
    bug.plant()
"""


@pytest.mark.shell
def test_each_bug_replaces_something_that_is_still_there() -> None:
    """A change of the product that moves what a bug replaces is noticed at once, not after hours."""
    done = subprocess.run(
        [sys.executable, "-c", _PLANT_ALL], check=False, capture_output=True, text=True, env=knowing_tests(os.environ)
    )
    assert done.returncode == 0, done.stderr
