"""Claims about dynamic migration: what it reaches, and what it costs."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.lab.experiments.claim import Check, Claim, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov, later_max
from tocsin.simulator.timeline import Run

_POLICIES = ("ldm", "sdm")
#: Each placement with the place where the paper says that balancing helps it, and in which words.
_PLACEMENTS = {
    "random": ("Figures 5 and 6, 6.1.3", "reduces the cov value and the maximum broker load"),
    "round-robin": ("Figure 7, slides", "both help reduce the max broker load, reduce the imbalance"),
    "nearest": ("Figures 8 and 10, 6.1.3, slides", "fixes the extreme imbalance, reduces maximal broker load"),
}


def _falls(what: str, words: str, figure: Callable[[Run], float], placement: str) -> Claim:
    """A figure falls with either policy, beside the run without balancing."""
    source, paper = _PLACEMENTS[placement]
    names = {policy: f"prototype/{placement}/{policy}" for policy in ("off", *_POLICIES)}
    helps = f"Migration {words} after {placement} placement, with either policy."

    @claim(f"{placement}-{what}-falls", helps, source, *names.values(), paper=paper)
    def judge(runs: Runs) -> Judgement:
        before = figure(runs[names["off"]])
        after = {policy: figure(runs[names[policy]]) / before if before else 1.0 for policy in _POLICIES}
        moved = {policy: runs[names[policy]].totals.migrations for policy in _POLICIES}
        return Judgement(
            {f"{what} without".replace("-", " "): before if figure is later_cov else before / 1e3}
            | {f"left with {policy}": left for policy, left in after.items()}
            | {f"migrations by {policy}": count for policy, count in moved.items()},
            tuple(Check(f"{policy} to lower it", left < 1) for policy, left in after.items()),
        )

    return judge


COV_FALLS = tuple(_falls("cov", "makes loads more even", later_cov, one) for one in _PLACEMENTS)
MAXIMAL_LOAD_FALLS = tuple(
    _falls("maximal-load", "takes load off the most loaded broker", later_max, one) for one in _PLACEMENTS
)


@claim(
    "random-needs-few-migrations",
    "After random placement loads are so little skewed that a few migrations are all it takes.",
    "Figure 6 (3), 6.1.3",
    *(f"prototype/random/{policy}" for policy in _POLICIES),
    paper="a few subscriber migrations happened",
)
def random_needs_few(runs: Runs) -> Judgement:
    picked = {policy: runs[f"prototype/random/{policy}"] for policy in _POLICIES}
    moved = {policy: run.totals.migrations for policy, run in picked.items()}
    return Judgement(
        {f"migrations by {policy}": count for policy, count in moved.items()},
        tuple(
            # A few of 400 people are fewer than one in twenty.
            Check(f"{policy} to move somebody, and at most a twentieth", 0 < count <= sum(_people(picked[policy])) / 20)
            for policy, count in moved.items()
        ),
    )


def _people(run: Run) -> tuple[int, ...]:
    return run.samples[-1].subscribers


@claim(
    "sdm-equals-ldm",
    "Similarity-based and load-based migration do about equally well: sharing is in the load already.",
    "Figures 6 and 10, 6.1.3",
    *(f"prototype/{placement}/{policy}" for placement in ("random", "nearest") for policy in _POLICIES),
    paper="similar",
    value=1.0,
)
def sdm_equals_ldm(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for placement in ("random", "nearest"):
        ldm, sdm = runs[f"prototype/{placement}/ldm"], runs[f"prototype/{placement}/sdm"]
        times = later_max(sdm) / max(1.0, later_max(ldm))
        apart = abs(later_cov(sdm) - later_cov(ldm))
        numbers |= {f"sdm's maximal load over ldm's after {placement}": times, f"covs apart after {placement}": apart}
        # Who moves nobody equals everybody else who does not.
        moved = ldm.totals.migrations + sdm.totals.migrations
        checks.append(Check(f"some migrations after {placement}", moved > 0))
        # "Similar" leaves room; a tenth of the load, and a third of alpha, are what we would not call so any more.
        checks.append(Check(f"maximal loads within a tenth after {placement}", 0.9 <= times <= 1.1))
        checks.append(Check(f"covs at most 0.05 apart after {placement}", apart <= 0.05))
    return Judgement(numbers, tuple(checks))


@claim(
    "ldm-and-sdm-move-similar-numbers",
    "Load-based and similarity-based migration need similar numbers of migrations.",
    "slides (round robin), Figures 6 and 10",
    *(f"prototype/{placement}/{policy}" for placement in _PLACEMENTS for policy in _POLICIES),
    paper="require similar number of migrations",
    value=1.0,
)
def similar_migrations(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for placement in _PLACEMENTS:
        ldm, sdm = (runs[f"prototype/{placement}/{policy}"].totals.migrations for policy in _POLICIES)
        numbers |= {f"ldm after {placement}": ldm, f"sdm after {placement}": sdm}
        # Half as many again is not similar; of small numbers, five people are one in eighty.
        near = max(ldm, sdm) <= max(1.5 * min(ldm, sdm), min(ldm, sdm) + 5)
        checks.append(Check(f"at most half as many again, or five more, after {placement}", near))
        # Two zeros would be similar and say nothing.
        checks.append(Check(f"some migrations after {placement}", ldm + sdm > 0))
    return Judgement(numbers, tuple(checks))


_PLANNING = (
    *(f"prototype/nearest/{policy}" for policy in ("ldm", "sdm", "ldm+gsh")),
    *(f"paper/nearest/{policy}" for policy in ("ldm", "gsh")),
)


@claim(
    "no-plan-raises-the-maximal-load",
    "Every plan lowers the load of the most loaded broker, or leaves it as it is.",
    "5.2",
    *_PLANNING,
    paper="after every iteration, the maximum load is decreased, or the number of brokers that have it",
)
def no_plan_raises(runs: Runs) -> Judgement:
    plans = [plan for name in _PLANNING for plan in runs[name].plans]
    raising = sum(plan.max_after > plan.max_before for plan in plans)
    left = [plan.max_after / plan.max_before for plan in plans if plan.max_before]
    return Judgement(
        {
            "plans": len(plans),
            "plans that raise it": raising,
            "least that a plan takes off": 1 - max(left, default=1.0),
        },
        (Check("plans", bool(plans)), Check("none that raises it", not raising)),
    )


@claim(
    "ldm-restores-balance",
    "Load-based migration brings an extremely skewed network back to balance.",
    "Figure 13 (2), 6.2.2",
    "paper/nearest/off",
    "paper/nearest/ldm",
    paper="can fix the load imbalance eventually; alpha 0.15",
    value=0.15,
)
def ldm_restores_balance(runs: Runs) -> Judgement:
    off, ldm = runs["paper/nearest/off"], runs["paper/nearest/ldm"]
    return Judgement(
        {
            "cov without": later_cov(off),
            "cov with ldm": later_cov(ldm),
            "plans": len(ldm.plans),
            "migrations": ldm.totals.migrations,
        },
        # Balance is what asks for no more migration; rates go on changing between looks, so two digits have to do.
        (Check("a cov of alpha, to two digits", round(later_cov(ldm), 2) <= ldm.alpha),),
    )


@claim(
    "maximal-load-halves",
    "Balancing a skewed network cuts the load of its most loaded broker roughly in half.",
    "Figure 13, slides",
    "paper/nearest/off",
    "paper/nearest/ldm",
    "paper/nearest/gsh",
    paper="reduced by roughly half",
    value=0.5,
)
def maximal_load_halves(runs: Runs) -> Judgement:
    before = max(1.0, later_max(runs["paper/nearest/off"]))
    left = {policy: later_max(runs[f"paper/nearest/{policy}"]) / before for policy in ("ldm", "gsh")}
    return Judgement(
        {f"left with {policy}": share for policy, share in left.items()},
        # "Roughly": to a tenth. To take more off confirms it.
        tuple(Check(f"at most 0.6 to be left with {policy}", share <= 0.6) for policy, share in left.items()),
    )
