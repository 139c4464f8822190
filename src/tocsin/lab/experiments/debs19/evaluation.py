"""The whole evaluation: the claims for every seed, and the experiments for some of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tocsin.lab.experiments.claim import Finding, Runs
from tocsin.lab.experiments.debs19.claims import CLAIMS
from tocsin.lab.experiments.debs19.running import Job, by_names, jobs_of, run_jobs
from tocsin.lab.experiments.debs19.sweeps import SWEEPS, Swept, explained, sweep_up
from tocsin.lab.experiments.debs19.variants import PAPER, TENTH, VARIANTS, Variant

#: Experiments look for what matters, not for small differences.
_SEEDS_OF_SWEEPS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be run. A quick look has a tenth of the paper's subscribers everywhere, and no experiments."""

    seeds: Sequence[int]
    is_quick: bool = False

    @property
    def variants(self) -> Mapping[str, Variant]:
        if not self.is_quick:
            return VARIANTS
        return {
            name: one.with_("quick", TENTH) if one.preset == PAPER and TENTH[0] not in one.settings else one
            for name, one in VARIANTS.items()
        }

    @property
    def jobs(self) -> list[Job]:
        """Each once."""
        jobs = jobs_of(self.variants.values(), self.seeds)
        if not self.is_quick:
            jobs += [job for one in SWEEPS for job in jobs_of(one.variants(), self.seeds[:_SEEDS_OF_SWEEPS])]
        return list(dict.fromkeys(jobs))


@dataclass(frozen=True, slots=True)
class Evaluation:
    """`runs` are by seed, then by the names of variants; all simulations took `cpu_s` of one core."""

    runs: Mapping[int, Runs]
    findings: Sequence[Finding]
    swept: Sequence[Swept]
    cpu_s: float


def evaluate(plan: Plan, done: Callable[[str], None] = lambda _: None, kept: Path | None = None) -> Evaluation:
    """`done` hears of each run; those that the folder `kept` has are not made again."""
    ran = run_jobs(plan.jobs, done, kept)
    found = ran.runs
    runs = {seed: by_names(found[seed], plan.variants) for seed in plan.seeds}
    swept = (
        []
        if plan.is_quick
        else [sweep_up(one, [found[seed] for seed in plan.seeds[:_SEEDS_OF_SWEEPS]]) for one in SWEEPS]
    )
    findings = explained([claim.find(*runs.values()) for claim in CLAIMS], swept)
    return Evaluation(runs, findings, swept, ran.cpu_s)
