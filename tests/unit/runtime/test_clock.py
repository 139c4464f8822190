"""One clock: whoever is handed one asks no other beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tocsin

_SOURCE = Path(tocsin.__file__).parent
_ASKS_THE_MACHINE = re.compile(r"\btime\.(?:monotonic|time|time_ns|monotonic_ns)\(|\bdatetime\.now\(|\butcnow\(")


@pytest.mark.parametrize("package", ["broker", "coordinator", "protocol", "model", "simulator"])
def test_no_module_asks_the_machines_clock_beside_the_injected_one(package: str) -> None:
    """With two clocks, silence, rates and expiry would go by different times, and tests could move only one of them."""
    asking = [
        str(path.relative_to(_SOURCE))
        for path in sorted((_SOURCE / package).rglob("*.py"))
        if _ASKS_THE_MACHINE.search(path.read_text())
    ]
    assert asking == []
