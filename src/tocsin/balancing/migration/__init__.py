"""Migration policies by name. Other packages add theirs by entry points: see `tocsin.balancing.plugins`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tocsin.balancing.migration.group import group
from tocsin.balancing.migration.one_by_one import ldm, sdm
from tocsin.balancing.proposal import BalancingPolicy

POLICIES: Mapping[str, BalancingPolicy] = MappingProxyType({"ldm": ldm, "sdm": sdm, "group": group})
