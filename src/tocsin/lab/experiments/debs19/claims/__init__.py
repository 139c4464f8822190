"""The claims, in the order in which they are told. Each is judged on runs of `variants.py` by name."""

from __future__ import annotations

from tocsin.lab.experiments.claim import OURS, Check, Claim, Finding, Judgement, Runs
from tocsin.lab.experiments.debs19.claims.migration import (
    ldm_restores_balance,
    maximal_load_halves,
    sdm_equals_ldm,
    small_alpha_matches_gsh,
    smaller_alpha,
    smaller_beta,
)
from tocsin.lab.experiments.debs19.claims.ours import (
    group_carries_less,
    group_moves_fewer,
    our_stages,
    sharing_carries_less,
)
from tocsin.lab.experiments.debs19.claims.placement import (
    least_loaded_does_badly,
    nearest_costs_most,
    nearest_is_skewed,
    workload,
    works_for_every_placement,
)
from tocsin.lab.experiments.debs19.claims.shuffle import (
    early_shuffle_saves,
    gsh_at_once,
    ldm_takes_longer,
    random_needs_no_shuffle,
    shuffle_adds_little,
)

CLAIMS: tuple[Claim, ...] = (
    workload,
    nearest_is_skewed,
    least_loaded_does_badly,
    works_for_every_placement,
    nearest_costs_most,
    ldm_restores_balance,
    gsh_at_once,
    ldm_takes_longer,
    maximal_load_halves,
    sdm_equals_ldm,
    early_shuffle_saves,
    shuffle_adds_little,
    random_needs_no_shuffle,
    smaller_alpha,
    small_alpha_matches_gsh,
    smaller_beta,
    group_carries_less,
    group_moves_fewer,
    sharing_carries_less,
    our_stages,
)

__all__ = ["CLAIMS", "OURS", "Check", "Claim", "Finding", "Judgement", "Runs"]
