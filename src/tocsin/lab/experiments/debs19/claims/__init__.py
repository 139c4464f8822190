"""The claims, in the order in which they are told: about the set-up, the paper's prototype, its simulation, and ours.
Each is judged on runs of `variants.py` by name."""

from __future__ import annotations

from tocsin.lab.experiments.claim import Claim
from tocsin.lab.experiments.debs19.claims import migration, ours, placement, setup, shuffle, thresholds

CLAIMS: tuple[Claim, ...] = (
    setup.workload,
    setup.nearest_is_skewed,
    placement.least_loaded_does_badly,
    placement.equal_counts,
    placement.nearest_costs_most,
    migration.no_plan_raises,
    *migration.COV_FALLS,
    *migration.MAXIMAL_LOAD_FALLS,
    migration.random_needs_few,
    migration.sdm_equals_ldm,
    migration.similar_migrations,
    shuffle.random_needs_no_shuffle,
    shuffle.nearest_calls_for_shuffle,
    shuffle.early_shuffle_saves,
    shuffle.shuffle_adds_little,
    migration.ldm_restores_balance,
    migration.maximal_load_halves,
    shuffle.gsh_at_once,
    shuffle.gsh_needs_no_more,
    shuffle.gsh_is_more_even,
    shuffle.ldm_takes_longer,
    thresholds.smaller_alpha_evens_more,
    thresholds.smaller_alpha_costs_more,
    thresholds.small_alpha_matches_gsh,
    thresholds.small_alpha_converges_later,
    *thresholds.BETA,
    ours.group_carries_less,
    ours.sharing_carries_less,
    ours.our_stages,
)
