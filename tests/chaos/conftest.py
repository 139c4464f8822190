"""The short runs come last of all tests: each takes a minute, and needs the machine for itself."""

from __future__ import annotations

import pytest

_LAST = ("test_chaos_short.py", "test_chaos_network_short.py")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name in _LAST)  # stable: nothing else moves
