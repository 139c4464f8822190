"""Claims about the shuffle: how fast it is, what it saves, and when it is not called for."""

from __future__ import annotations

from tocsin.lab.experiments.claim import Check, Judgement, Runs, claim
from tocsin.simulator.figures import balanced_after_s, later_cov, later_max, shuffles
from tocsin.simulator.timeline import Run

#: A plan is carried out by telling every mover once; a minute is ample for thousands and still "at once" of 30.
_AT_ONCE_S = 60.0


def _moved_after(run: Run, time_s: float) -> int:
    return sum(plan.moves for plan in run.plans if plan.time_s > time_s)


@claim(
    "gsh-restores-balance-at-once",
    "The greedy shuffle restores balance as soon as it has been carried out, and nothing needs to be moved later.",
    "Figure 13 (3), 6.2.2",
    "paper/nearest/gsh",
    "paper/nearest/ldm+gsh",
)
def gsh_at_once(runs: Runs) -> Judgement:
    gsh, both = runs["paper/nearest/gsh"], runs["paper/nearest/ldm+gsh"]
    if not shuffles(gsh) or not shuffles(both):
        return Judgement("no shuffle was made", {}, (Check("a shuffle", is_met=False),))
    first = shuffles(gsh)[0]
    took_s = balanced_after_s(gsh, first.time_s, gsh.alpha)
    later = _moved_after(gsh, first.time_s)
    later_with_ldm = _moved_after(both, shuffles(both)[0].time_s)
    took = "never" if took_s is None else f"after {took_s:.0f} s"
    return Judgement(
        f"as even as alpha {took}, cov {later_cov(gsh):.3f} from then on; later migrations: {later:,} by gsh alone,"
        f" {later_with_ldm:,} with ldm beside it",
        {
            "balanced_after_s": -1.0 if took_s is None else took_s,
            "later_cov": later_cov(gsh),
            "later_migrations": later,
            "later_migrations_with_ldm": later_with_ldm,
        },
        (
            Check(f"cov at most alpha within {_AT_ONCE_S:.0f} s", took_s is not None and took_s <= _AT_ONCE_S),
            Check("no later migration by gsh alone", later == 0),
            Check("no later migration with ldm beside it", later_with_ldm == 0),
        ),
    )


@claim(
    "ldm-takes-longer-than-gsh",
    "Load-based migration gets there gradually and takes longer than the greedy shuffle.",
    "Figure 13 (2) and (3), 6.2.2",
    "paper/nearest/ldm",
    "paper/nearest/gsh",
)
def ldm_takes_longer(runs: Runs) -> Judgement:
    ldm, gsh = runs["paper/nearest/ldm"], runs["paper/nearest/gsh"]
    ldm_s, gsh_s = _even_from_s(ldm, ldm.alpha), _even_from_s(gsh, ldm.alpha)
    return Judgement(
        f"even for good from {ldm_s / 60:.1f} min with ldm, in {len(ldm.plans)} plans; from {gsh_s / 60:.1f} min with"
        f" gsh, in {len(gsh.plans)}",
        {"ldm_even_from_s": ldm_s, "gsh_even_from_s": gsh_s, "ldm_plans": len(ldm.plans), "gsh_plans": len(gsh.plans)},
        (
            Check("ldm to need several plans", len(ldm.plans) > 1),
            Check("fewer plans by gsh", len(gsh.plans) < len(ldm.plans)),
            Check(
                "ldm to become even later than gsh (ours plans all the moves that it takes to reach alpha, and they are"
                " carried out as fast as a shuffle's; only what drifts afterwards is left for later plans)",
                ldm_s > gsh_s,
            ),
        ),
    )


def _even_from_s(run: Run, cov: float) -> float:
    """When loads were last less even than `cov`: from then on they stayed so. Loads change between looks, so a tenth
    above is not held against a run."""
    return max((sample.time_s for sample in run.samples if sample.cov > cov * 1.1), default=0.0)


@claim(
    "early-shuffle-saves-migrations",
    "An early shuffle saves later migrations, with either policy.",
    "Figures 8, 9 and 11, 6.1.3",
    *(f"prototype/nearest/{policy}" for policy in ("ldm", "sdm", "ldm+gsh", "sdm+gsh")),
)
def early_shuffle_saves(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    sentences: list[str] = []
    for policy in ("ldm", "sdm"):
        alone, shuffled = runs[f"prototype/nearest/{policy}"], runs[f"prototype/nearest/{policy}+gsh"]
        made = shuffles(shuffled)
        later = _moved_after(shuffled, made[0].time_s) if made else shuffled.totals.migrations
        in_shuffle = made[0].moves if made else 0
        sentences.append(
            f"{policy} alone moves {alone.totals.migrations:,}; after a shuffle of {in_shuffle:,} it moves {later:,}"
        )
        numbers |= {
            f"{policy} migrations": alone.totals.migrations,
            f"{policy} migrations after shuffle": later,
            f"{policy} moves of shuffle": in_shuffle,
        }
        checks.append(Check(f"a shuffle beside {policy}", bool(made)))
        checks.append(Check(f"fewer migrations by {policy} after a shuffle", later < alone.totals.migrations))
    return Judgement("; ".join(sentences), numbers, tuple(checks))


@claim(
    "shuffle-adds-little-in-prototype",
    "In the small prototype a shuffle reaches little that migration alone does not.",
    "Figure 11, 6.1.3",
    "prototype/nearest/ldm",
    "prototype/nearest/ldm+gsh",
)
def shuffle_adds_little(runs: Runs) -> Judgement:
    alone, both = runs["prototype/nearest/ldm"], runs["prototype/nearest/ldm+gsh"]
    times = later_max(both) / max(1.0, later_max(alone))
    return Judgement(
        f"with a shuffle the maximal load is {times:.2f} of that without, cov {later_cov(both):.2f} against"
        f" {later_cov(alone):.2f}",
        {"max_over_ldm_alone": times, "ldm_cov": later_cov(alone), "ldm_gsh_cov": later_cov(both)},
        # The same bounds as for policies that are called equal.
        (
            Check("maximal loads within a tenth", 0.9 <= times <= 1.1),
            Check("covs at most 0.05 apart", abs(later_cov(both) - later_cov(alone)) <= 0.05),
        ),
    )


@claim(
    "random-needs-no-shuffle",
    "After random placement loads are so little skewed that a shuffle is not called for.",
    "Figure 6, 6.1.3",
    "prototype/random/off",
    "prototype/random/ldm+gsh",
)
def random_needs_no_shuffle(runs: Runs) -> Judgement:
    run = runs["prototype/random/ldm+gsh"]
    made = len(shuffles(run))
    cov = later_cov(runs["prototype/random/off"])
    return Judgement(
        f"{made} shuffles, {run.totals.migrations:,} migrations; cov without balancing {cov:.2f}",
        {"shuffles": made, "migrations": run.totals.migrations, "off_cov": cov},
        (Check("no shuffle", made == 0),),
    )
