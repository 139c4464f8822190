"""The claims, in the order in which they are told. Each is judged on runs of `variants.py` by name."""

from __future__ import annotations

from tocsin.lab.experiments.claim import Claim
from tocsin.lab.experiments.debs19.claims import migration, ours, placement, shuffle

CLAIMS: tuple[Claim, ...] = (
    placement.workload,
    placement.nearest_is_skewed,
    placement.least_loaded_does_badly,
    placement.works_for_every_placement,
    placement.nearest_costs_most,
    migration.ldm_restores_balance,
    shuffle.gsh_at_once,
    shuffle.ldm_takes_longer,
    migration.maximal_load_halves,
    migration.sdm_equals_ldm,
    shuffle.early_shuffle_saves,
    shuffle.shuffle_adds_little,
    shuffle.random_needs_no_shuffle,
    migration.smaller_alpha,
    migration.small_alpha_matches_gsh,
    migration.smaller_beta,
    ours.group_carries_less,
    ours.sharing_carries_less,
    ours.our_stages,
)
