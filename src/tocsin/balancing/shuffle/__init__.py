"""Shuffle policies by name. Other packages add theirs by entry points: see `tocsin.balancing.plugins`."""

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
