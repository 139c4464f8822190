"""Nobody waits for what they do not use: heavy libraries are imported by whoever needs them."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.shell

_HEAVY = ("matplotlib", "numba", "pandas", "pyarrow", "pyspark")


@pytest.mark.parametrize("module", ["tocsin.cli.main", "tocsin.coordinator.server"])
def test_heavy_libraries_are_left_out(module: str) -> None:
    """Neither commands nor the coordinator import Spark, numba and the like when they start."""
    program = f"import sys, {module}; print([one for one in {_HEAVY} if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
