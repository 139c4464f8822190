"""Policies of other packages, by name."""

from __future__ import annotations

import pytest

from tocsin.balancing.placement import POLICIES
from tocsin.balancing.plugins import with_plugins


def test_plugins_join_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under their own names: ours can't be replaced, and what can't be loaded is left out."""

    class Entry:
        def __init__(self, name: str, policy: object) -> None:
            self.name, self.policy = name, policy

        def load(self) -> object:
            if isinstance(self.policy, Exception):
                raise self.policy
            return self.policy

    entries = [Entry("mine", min), Entry("random", max), Entry("broken", ImportError("no"))]
    where = "tocsin.balancing.plugins.entry_points"
    monkeypatch.setattr(where, lambda group: entries if group == "tocsin.placement" else [])
    policies = with_plugins("placement", POLICIES)
    assert policies["mine"] is min  # type: ignore[comparison-overlap]
    assert policies["random"] is POLICIES["random"]
    assert "broken" not in policies
