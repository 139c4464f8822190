"""Experiments that find out what a finding depends on: the same claims, judged again with other settings.

Where the paper does not tell a setting, a sweep over its values shows how much our choice matters. Where a claim fails,
a sweep shows under which conditions it would hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from tocsin.lab.experiments.claim import Claim, Finding
from tocsin.lab.experiments.debs19.claims import migration, shuffle, thresholds
from tocsin.lab.experiments.debs19.running import by_names
from tocsin.lab.experiments.debs19.variants import (
    BETA_SHARES,
    TENTH,
    VARIANTS,
    Changes,
    Variant,
    beta_share_variant,
    changes,
)
from tocsin.simulator.timeline import Run


@dataclass(frozen=True, slots=True)
class Sweep:
    """`steps` are settings by how they are called; those of `everywhere` are the same at all steps."""

    id: str
    question: str
    claims: tuple[Claim, ...]
    steps: Mapping[str, Changes]
    everywhere: Changes = ()

    def variants_at(self, step: str) -> dict[str, Variant]:
        """What the claims need, by the names that they know."""
        known = {**VARIANTS, **{one.name: one for one in map(beta_share_variant, BETA_SHARES)}}
        called = f"{self.id}: {step}"
        settings = (*self.everywhere, *self.steps[step])
        return {name: known[name].with_(called, settings) for one in self.claims for name in one.needs}

    def variants(self) -> list[Variant]:
        return [variant for step in self.steps for variant in self.variants_at(step).values()]


@dataclass(frozen=True, slots=True)
class Swept:
    """What became of a sweep's claims, step by step."""

    sweep: Sweep
    findings: Mapping[str, Sequence[Finding]]

    def verdicts_on(self, claim_id: str) -> dict[str, Finding]:
        """By step; empty if the sweep is not about the claim."""
        return {step: one for step, some in self.findings.items() for one in some if one.id == claim_id}


def sweep_up(sweep: Sweep, seeds: Iterable[Mapping[str, Run]]) -> Swept:
    """Judge the claims at each step, on each seed's runs by the names of their variants."""
    some = list(seeds)
    found: dict[str, list[Finding]] = {}
    for step in sweep.steps:
        names = sweep.variants_at(step)
        runs = [by_names(one, names) for one in some]
        found[step] = [claim.find(*runs) for claim in sweep.claims]
    return Swept(sweep, found)


def explained(findings: Iterable[Finding], swept: Sequence[Swept]) -> list[Finding]:
    """Findings of claims that fail say what the experiments have shown of them."""
    return [one if one.holds else replace(one, why=f"{one.why}{_shown_of(one, swept)}") for one in findings]


def _shown_of(finding: Finding, swept: Sequence[Swept]) -> str:
    texts = []
    for one in swept:
        verdicts = one.verdicts_on(finding.id)
        holding = [step for step, found in verdicts.items() if found.holds]
        if verdicts:
            outcome = f"holds at {', '.join(holding)} of {', '.join(verdicts)}" if holding else "holds at none"
            texts.append(f' Experiment "{one.sweep.id}": {outcome}.')
    return "".join(texts)


_SIMULATED = (
    migration.ldm_restores_balance,
    migration.maximal_load_halves,
    shuffle.gsh_at_once,
    shuffle.gsh_needs_no_more,
    shuffle.gsh_is_more_even,
    shuffle.ldm_takes_longer,
)
_SMALL_ALPHA = (thresholds.small_alpha_matches_gsh, thresholds.small_alpha_converges_later)
_IN_PROTOTYPE = (
    *migration.COV_FALLS[:2],
    *migration.MAXIMAL_LOAD_FALLS[:2],
    migration.random_needs_few,
    migration.sdm_equals_ldm,
    migration.similar_migrations,
    shuffle.random_needs_no_shuffle,
)


def _rates(times: float) -> Changes:
    mean, std = (round(one * times) for one in (100_000, 30_000))
    return changes(channels__rate__mean_bytes_per_s=mean, channels__rate__std_bytes_per_s=std)


#: What happens in a channel happens in an area, and to those who live there.
_BY_AREA = changes(subscribers__popularity="local", subscribers__groups=10, subscribers__inside=0.8)

SWEEPS: tuple[Sweep, ...] = (
    Sweep(
        "rates",
        "The paper gives beta and theta in MB/s, but not the sizes of results. How much does it matter which share of"
        " the mean load 300 MB/s are?",
        (*_SIMULATED, *_SMALL_ALPHA),
        {"0.98": _rates(0.88), "0.86": _rates(1.0), "0.5": _rates(1.72)},
        TENTH,
    ),
    Sweep(
        "beginning",
        "Who has not subscribed yet has no load, and a shuffle puts all of them at the broker that has least. What if"
        " balancing begins once everybody has subscribed?",
        (*_SIMULATED, *_SMALL_ALPHA),
        {"nine minutes": changes(balancing__begins_at_s=540)},
        TENTH,
    ),
    Sweep(
        "pace",
        "The paper does not say how long moves take. How much does it matter how many each broker makes in a second?",
        (shuffle.gsh_at_once, shuffle.ldm_takes_longer, *_SMALL_ALPHA),
        {
            "2": changes(balancing__moves_per_s=0.2),
            "10": changes(balancing__moves_per_s=1),
            "50": changes(balancing__moves_per_s=5),
            "no limit": changes(balancing__moves_per_s=1000, balancing__moves_in_flight=1000),
        },
        TENTH,
    ),
    Sweep(
        "looks",
        "The coordinator looks at the loads every so often, says the paper. How much does it matter after how many"
        " seconds?",
        _SIMULATED[2:],
        {str(every_s): changes(balancing__every_s=every_s) for every_s in (5, 10, 60)},
        TENTH,
    ),
    Sweep(
        "fluctuation",
        "The paper does not say by which factor data rates rise; ours is 2. How much does it matter?",
        _SIMULATED,
        {str(factor): changes(fluctuation__factor=factor) for factor in (1, 4)},
        TENTH,
    ),
    Sweep(
        "beta near the mean",
        "Beta can only act on what changes while it is in force. Does a smaller one cost more migrations if rates"
        " change in three of ten channels only, and interests are tied to areas of the city? Betas are shares of the"
        " mean load.",
        thresholds.BETA_NEAR_MEAN,
        {
            "as the paper has it": (),
            "three channels, and interests by area": (*changes(fluctuation__channels=3), *_BY_AREA),
        },
        TENTH,
    ),
    Sweep(
        "prototype's alpha",
        "At alpha 0.15 random and round robin placement may be even enough to be left alone. What if it is smaller?",
        _IN_PROTOTYPE,
        {f"{alpha:g}": changes(balancing__alpha=alpha) for alpha in (0.05, 0.1)},
    ),
    Sweep(
        "prototype's beta",
        "The paper does not tell its prototype's beta and theta. How much does it matter from which mean load on, in"
        " kB/s, balancing is at work? Ours are 35, and the load comes to 45.",
        _IN_PROTOTYPE,
        {
            str(beta_kb): changes(balancing__beta=f"{beta_kb}e3", balancing__theta=f"{beta_kb}e3")
            for beta_kb in (0, 10, 20)
        },
    ),
    Sweep(
        "prototype's rates",
        "The paper does not tell how unequal the rates of its prototype's subscriptions are; with ours, of 60 bytes per"
        " second, the standard deviation is 40. What if it is larger?",
        _IN_PROTOTYPE,
        {str(std): changes(channels__rate__std_bytes_per_s=std) for std in (80, 160)},
    ),
)
