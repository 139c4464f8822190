"""Claims about the thresholds: how alpha and beta act on load-based migration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from tocsin.lab.experiments.claim import Check, Claim, Judgement, Runs, claim
from tocsin.lab.experiments.debs19.claims.shuffle import uneven_until_s
from tocsin.lab.experiments.debs19.variants import (
    ALPHAS,
    BETA_SHARES,
    BETAS_MB,
    alpha_name,
    beta_name,
    beta_share_name,
)
from tocsin.simulator.figures import later_cov, later_max
from tocsin.simulator.timeline import Run

_ALPHA_NAMES = {alpha: alpha_name(alpha) for alpha in ALPHAS}
_SMALL, _GSH = alpha_name(ALPHAS[0]), "paper/nearest/gsh"
#: Nobody looks at the third digit of a cov, nor at a fiftieth of a load, which rates change by between looks.
_SAME_COV, _SAME_LOAD = 0.01, 1.02


@claim(
    "smaller-alpha-evens-more",
    "The smaller alpha is, the more even the loads.",
    "Figure 14 (1), 6.2.2, slides",
    *_ALPHA_NAMES.values(),
    paper="a better balanced state",
)
def smaller_alpha_evens_more(runs: Runs) -> Judgement:
    covs = {alpha: later_cov(runs[name]) for alpha, name in _ALPHA_NAMES.items()}
    return Judgement(
        {f"cov at alpha {alpha:g}": cov for alpha, cov in covs.items()},
        (Check("cov to rise with every step of alpha", all(one < two for one, two in pairwise(covs.values()))),),
    )


@claim(
    "smaller-alpha-costs-more",
    "The smaller alpha is, the more migrations there are.",
    "Figure 14 (2), 6.2.2, slides",
    *_ALPHA_NAMES.values(),
    paper="the higher number of migrations required",
)
def smaller_alpha_costs_more(runs: Runs) -> Judgement:
    moved = {alpha: runs[name].totals.migrations for alpha, name in _ALPHA_NAMES.items()}
    return Judgement(
        {f"migrations at alpha {alpha:g}": count for alpha, count in moved.items()},
        (
            Check(
                "migrations to fall with every step of alpha", all(one > two for one, two in pairwise(moved.values()))
            ),
        ),
    )


@claim(
    "small-alpha-matches-gsh",
    "With a very small alpha, load-based migration becomes as good as the greedy shuffle.",
    "Figure 14 (1), 6.2.2, slides",
    _SMALL,
    _GSH,
    paper="as good as GSH after a while, at alpha 0.05",
    value=1.0,
)
def small_alpha_matches_gsh(runs: Runs) -> Judgement:
    small, gsh = runs[_SMALL], runs[_GSH]
    times = later_max(small) / max(1.0, later_max(gsh))
    return Judgement(
        {"cov at alpha 0.05": later_cov(small), "cov with gsh": later_cov(gsh), "maximal load over gsh's": times},
        (
            Check("a cov at most 0.01 above gsh's", later_cov(small) <= later_cov(gsh) + _SAME_COV),
            Check("a maximal load at most a fiftieth above gsh's", times <= _SAME_LOAD),
        ),
    )


@claim(
    "small-alpha-converges-later",
    "With a very small alpha, load-based migration takes longer to get as even as the greedy shuffle.",
    "slides",
    _SMALL,
    _GSH,
    paper="takes longer time to converge",
)
def small_alpha_converges_later(runs: Runs) -> Judgement:
    small, gsh = runs[_SMALL], runs[_GSH]
    if not small.plans or not gsh.plans:
        return Judgement({}, (Check("plans of both", is_met=False),))
    # Both are measured by what the worse of the two comes to in the end.
    level = max(later_cov(small), later_cov(gsh)) + _SAME_COV
    ldm_s, gsh_s = (uneven_until_s(run, level) - run.plans[0].time_s for run in (small, gsh))
    return Judgement(
        {"seconds from the first plan until as even for good, ldm": ldm_s, "gsh": gsh_s, "as even as cov": level},
        (Check("ldm to be later", ldm_s > gsh_s),),
    )


def beta_claims(names: Sequence[tuple[str, str]]) -> tuple[Claim, ...]:
    """The claims about beta, on variants with rising betas, by how each beta is called."""
    needs = [name for _, name in names]

    def trend(what: str, figure: Callable[[Run], float], runs: Runs) -> dict[str, float]:
        return {f"{what} at beta {label}": figure(runs[name]) for label, name in names}

    @claim(
        "smaller-beta-invokes-more",
        "The smaller beta is, the more often migration is invoked.",
        "6.2.2",
        *needs,
        paper="the more sensitive towards migration",
    )
    def invokes_more(runs: Runs) -> Judgement:
        plans = trend("plans", lambda run: len(run.plans), runs)
        values = list(plans.values())
        return Judgement(
            plans,
            (
                Check("no more plans at any larger beta", all(one >= two for one, two in pairwise(values))),
                Check("more plans at the smallest beta than at the largest", values[0] > values[-1]),
            ),
        )

    @claim(
        "smaller-beta-evens-more",
        "The smaller beta is, the more even the loads.",
        "Figure 14 (1), 6.2.2",
        *needs,
        paper="a better balanced state",
    )
    def evens_more(runs: Runs) -> Judgement:
        covs = trend("cov", later_cov, runs)
        values = list(covs.values())
        return Judgement(
            covs,
            (
                Check(
                    "no cov above that of a larger beta, to two digits",
                    all(one <= two + _SAME_COV for one, two in pairwise(values)),
                ),
                Check("a smaller cov at the smallest beta than at the largest", values[0] < values[-1] - _SAME_COV),
            ),
        )

    @claim(
        "smaller-beta-costs-more",
        "The smaller beta is, the more migrations there are.",
        "Figure 14 (2), 6.2.2",
        *needs,
        paper="the cost of higher number of migrations",
    )
    def costs_more(runs: Runs) -> Judgement:
        moved = trend("migrations", lambda run: run.totals.migrations, runs)
        acting = [count for count in moved.values() if count]
        return Judgement(
            moved,
            (
                Check("migrations at two betas at least", len(acting) > 1),
                # Where nobody is moved, beta is above the load: that it then costs nothing is no trend.
                Check(
                    "a twentieth more at the smallest beta than at the largest that moves anybody",
                    bool(acting) and acting[0] >= 1.05 * acting[-1],
                ),
            ),
        )

    return invokes_more, evens_more, costs_more


BETA = beta_claims([(f"{one} MB/s", beta_name(one)) for one in BETAS_MB])
BETA_NEAR_MEAN = beta_claims([(f"{one:g}", beta_share_name(one)) for one in BETA_SHARES])
