"""Loops are compiled before somebody waits for a plan."""

from __future__ import annotations

import pytest

from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinator.load import compiling


@pytest.mark.parametrize("name", sorted({*MIGRATIONS, *SHUFFLES} - {"sharing-hypergraph"}))
def test_every_policy_moves_somebody(name: str) -> None:
    """A policy that finds nothing to do would leave its loops uncompiled."""
    view = vars(compiling)["_small_assignment"]()
    policy = {**MIGRATIONS, **SHUFFLES}[name]
    assert (policy(view, Goal(cov_at_most=0.02)).owners != view.owners).any()
