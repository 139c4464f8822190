"""Claims about the shuffle: how fast it is, what it saves, and when it is not called for."""

from __future__ import annotations

from tocsin.lab.experiments.claim import Check, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov, later_max, shuffles
from tocsin.simulator.timeline import Run

_LDM, _GSH = "paper/nearest/ldm", "paper/nearest/gsh"
_NO_SHUFFLE = Judgement({}, (Check("a shuffle", is_met=False),))


def moved_by_s(run: Run) -> float:
    """When the last move of all plans had ended."""
    last = run.samples[-1].migrations
    return next(sample.time_s for sample in run.samples if sample.migrations == last)


def uneven_until_s(run: Run, cov: float) -> float:
    """When loads were last less even than `cov`: from the next sample on they stayed so. No time is forgiven."""
    return max((sample.time_s for sample in run.samples if sample.cov > cov), default=0.0)


@claim(
    "gsh-restores-balance-at-once",
    "The greedy shuffle restores balance as soon as it has been carried out.",
    "Figure 13 (3), 6.2.2",
    _GSH,
    paper="immediately after the process terminates",
    value=0.0,
)
def gsh_at_once(runs: Runs) -> Judgement:
    run = runs[_GSH]
    if not shuffles(run):
        return _NO_SHUFFLE
    first, ended_s = shuffles(run)[0], moved_by_s(run)
    late_s = max(0.0, uneven_until_s(run, run.alpha) - ended_s)
    return Judgement(
        {
            "moves": first.moves,
            "seconds that they take": ended_s - first.time_s,
            "seconds from their end until balanced for good": late_s,
        },
        (Check("a cov of at most alpha from the end of the moves on", late_s == 0),),
    )


@claim(
    "gsh-needs-no-further-migration",
    "After the greedy shuffle nothing needs to be moved again.",
    "Figure 13 (3), 6.2.2, slides",
    _GSH,
    paper="requires no further migration",
    value=0.0,
)
def gsh_needs_no_more(runs: Runs) -> Judgement:
    run = runs[_GSH]
    if not shuffles(run):
        return _NO_SHUFFLE
    ended_s = moved_by_s(run)
    covs = [sample.cov for sample in run.samples if sample.time_s > ended_s]
    return Judgement(
        {"shuffles": len(shuffles(run)), "highest cov afterwards": max(covs, default=0.0)},
        (
            Check("one shuffle", len(shuffles(run)) == 1),
            # Above alpha, migration would be called for; it is off in this run, so that it can't hide that.
            Check("a cov that never calls for migration afterwards", max(covs, default=0.0) <= run.alpha),
        ),
    )


@claim(
    "gsh-is-more-even-than-ldm",
    "The greedy shuffle makes loads more even than load-based migration does.",
    "slides",
    _LDM,
    _GSH,
    paper="achieves a better balanced load distribution",
)
def gsh_is_more_even(runs: Runs) -> Judgement:
    ldm, gsh = runs[_LDM], runs[_GSH]
    return Judgement(
        {
            "cov with ldm": later_cov(ldm),
            "cov with gsh": later_cov(gsh),
            "gsh's maximal load over ldm's": later_max(gsh) / max(1.0, later_max(ldm)),
        },
        (Check("a smaller cov with gsh", later_cov(gsh) < later_cov(ldm)),),
    )


@claim(
    "ldm-takes-longer-than-gsh",
    "Load-based migration gets there gradually and takes longer than the greedy shuffle.",
    "Figure 13 (2) and (3), 6.2.2",
    _LDM,
    _GSH,
    paper="takes longer time to finally reach the balanced state",
)
def ldm_takes_longer(runs: Runs) -> Judgement:
    ldm, gsh = runs[_LDM], runs[_GSH]
    if not ldm.plans or not gsh.plans:
        return Judgement({}, (Check("plans of both", is_met=False),))
    ldm_s = uneven_until_s(ldm, ldm.alpha) - ldm.plans[0].time_s
    gsh_s = uneven_until_s(gsh, ldm.alpha) - gsh.plans[0].time_s
    return Judgement(
        {
            "seconds from its first plan until balanced for good, ldm": ldm_s,
            "gsh": gsh_s,
            "seconds until balanced for the first time, ldm": _first_even_s(ldm),
            "gsh for the first time": _first_even_s(gsh),
            "plans of ldm": len(ldm.plans),
        },
        (
            Check("ldm to be balanced for good later than gsh", ldm_s > gsh_s),
            Check("ldm to need several plans", len(ldm.plans) > 1),
        ),
    )


def _first_even_s(run: Run) -> float:
    """From the first plan on; the length of the run if never."""
    since_s = run.plans[0].time_s
    evens = (one.time_s - since_s for one in run.samples if one.time_s > since_s and one.cov <= run.alpha)
    return next(evens, run.duration_s)


@claim(
    "early-shuffle-saves-migrations",
    "An early shuffle saves later migrations, with either policy.",
    "Figures 8 (3), 9 (3) and 11, 6.1.3, slides",
    *(f"prototype/nearest/{policy}" for policy in ("ldm", "sdm", "ldm+gsh", "sdm+gsh")),
    paper="requires less migrations later",
)
def early_shuffle_saves(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for policy in ("ldm", "sdm"):
        alone, shuffled = runs[f"prototype/nearest/{policy}"], runs[f"prototype/nearest/{policy}+gsh"]
        made = shuffles(shuffled)
        later = sum(plan.moves for plan in shuffled.plans if made and plan.time_s > made[0].time_s)
        numbers |= {
            f"migrations by {policy} alone": alone.totals.migrations,
            f"moves of the shuffle beside {policy}": made[0].moves if made else 0,
            f"migrations by {policy} after it": later,
        }
        checks.append(Check(f"a shuffle beside {policy}", bool(made)))
        checks.append(Check(f"fewer migrations by {policy} after a shuffle", later < alone.totals.migrations))
    return Judgement(numbers, tuple(checks))


@claim(
    "shuffle-adds-little-in-prototype",
    "In the small prototype a shuffle reaches little that migration alone does not.",
    "Figure 11, 6.1.3",
    "prototype/nearest/off",
    "prototype/nearest/ldm",
    "prototype/nearest/ldm+gsh",
    paper="does not show much benefits",
)
def shuffle_adds_little(runs: Runs) -> Judgement:
    off, alone, both = (runs[f"prototype/nearest/{policy}"] for policy in ("off", "ldm", "ldm+gsh"))
    before = max(1.0, later_max(off))
    by_ldm, by_both = 1 - later_max(alone) / before, 1 - later_max(both) / before
    return Judgement(
        {
            "taken off the maximal load by ldm": by_ldm,
            "with a shuffle": by_both,
            "cov with ldm": later_cov(alone),
            "cov with a shuffle": later_cov(both),
        },
        # "Not much": less than a quarter of what migration gains by itself.
        (Check("a shuffle to gain at most a quarter more than ldm", by_both <= 1.25 * by_ldm),),
    )


@claim(
    "random-needs-no-shuffle",
    "After random placement loads are so little skewed that a shuffle is not called for.",
    "Figure 6, 6.1.3",
    "prototype/random/off",
    "prototype/random/ldm+gsh",
    paper="the shuffle was not invoked",
    value=0,
)
def random_needs_no_shuffle(runs: Runs) -> Judgement:
    run = runs["prototype/random/ldm+gsh"]
    made = len(shuffles(run))
    return Judgement(
        {"shuffles": made, "cov without balancing": later_cov(runs["prototype/random/off"])},
        (Check("no shuffle", made == 0),),
    )


@claim(
    "nearest-calls-for-a-shuffle",
    "Nearest placement makes so extreme an imbalance that it calls for the shuffle.",
    "Figure 8 (1), 6.1.3",
    "prototype/nearest/off",
    "prototype/nearest/ldm+gsh",
    paper="calls out the shuffle process; gamma 0.5",
    value=0.5,
)
def nearest_calls_for_shuffle(runs: Runs) -> Judgement:
    off, run = runs["prototype/nearest/off"], runs["prototype/nearest/ldm+gsh"]
    made = len(shuffles(run))
    return Judgement(
        {"cov without balancing": later_cov(off), "shuffles": made},
        (Check("a shuffle", made > 0), Check("a cov above gamma without balancing", later_cov(off) > run.gamma)),
    )
