"""The short run comes last of all tests: it takes a minute, and needs the machine for itself."""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name == "test_chaos_short.py")  # stable: nothing else moves
