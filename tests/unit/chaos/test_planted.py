"""Bugs are planted in what is there: a part that was renamed takes its bugs with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from documentation import ROOT

pytestmark = pytest.mark.shell


@pytest.mark.parametrize("module", ["chaos.planted", "chaos.network.planted"])
def test_every_bug_finds_its_place(module: str) -> None:
    """In a process of its own, which nobody uses afterwards."""
    planting = f"from {module} import BUGS\nfor bug in BUGS.values(): bug.plant()\nprint(len(BUGS))"
    done = subprocess.run(
        [sys.executable, "-c", planting], cwd=ROOT / "tests", capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10
