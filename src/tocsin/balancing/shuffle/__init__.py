"""Shuffle policies by name. Outsiders add theirs by the entry point group `tocsin.shuffle`; see `..outsiders`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tocsin.balancing.proposal import BalancingPolicy
from tocsin.balancing.shuffle.gsh import gsh
from tocsin.balancing.shuffle.hypergraph import sharing_hypergraph
from tocsin.balancing.shuffle.sharing import sharing

POLICIES: Mapping[str, BalancingPolicy] = MappingProxyType(
    {"gsh": gsh, "sharing": sharing, "sharing-hypergraph": sharing_hypergraph}
)

__all__ = ["POLICIES", "gsh", "sharing", "sharing_hypergraph"]
