"""Claims about where newcomers are placed."""

from __future__ import annotations

from tocsin.balancing.evenness import cov_of
from tocsin.lab.experiments.claim import Check, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov, later_max

_NAIVE, _RANDOM, _OURS = (
    f"paper/{placement}/off/a tenth, rush" for placement in ("least-loaded", "random", "least-resulting-load")
)


@claim(
    "least-loaded-does-badly",
    "To place newcomers who come in a rush and hold nothing yet at the least loaded broker does badly: they crowd at a"
    " few and overwhelm them once they subscribe.",
    "5.1",
    _NAIVE,
    _RANDOM,
    _OURS,
    paper="does not perform well, especially when many empty subscribers come at a similar time",
)
def least_loaded_does_badly(runs: Runs) -> Judgement:
    naive, random = runs[_NAIVE], runs[_RANDOM]
    most = max(naive.samples[-1].subscribers) / max(1, sum(naive.samples[-1].subscribers))
    times = later_max(naive) / max(1.0, later_max(random))
    return Judgement(
        {
            "largest share of the subscribers": most,
            "maximal load over that of random placement": times,
            "cov": later_cov(naive),
            "cov of random placement": later_cov(random),
            "cov of our least-resulting-load, which counts connections too": later_cov(runs[_OURS]),
        },
        (
            # To be called bad it must be worse than no thought at all, beyond what chance would do.
            Check("a maximal load at least half above random placement's", times >= 1.5),
            Check("a broker with more than twice its even share", most > 2 / len(naive.brokers)),
        ),
    )


@claim(
    "equal-counts-are-not-equal-loads",
    "Round robin gives every broker as many subscribers, and that does not make their loads equal.",
    "3.2, 5.1",
    "prototype/round-robin/off",
    paper="can not guarantee the balanced load distribution",
)
def equal_counts(runs: Runs) -> Judgement:
    run = runs["prototype/round-robin/off"]
    counts = run.samples[-1].subscribers
    counted, cov = cov_of([float(one) for one in counts]), later_cov(run)
    return Judgement(
        {"cov of the numbers of subscribers": counted, "cov of loads": cov},
        (
            Check("numbers of subscribers at most two apart", max(counts) - min(counts) <= 2),
            # Counts that differ by one of 80 have a cov of 0.006; several times that is not due to the counts.
            Check("loads that are at least five times as uneven as the numbers", cov >= 5 * counted and cov > 0),
        ),
    )


_PLACEMENTS = ("nearest", "random", "round-robin")


@claim(
    "nearest-costs-most-migrations",
    "Nearest placement needs far more migrations than random and round robin, with either policy.",
    "Figure 12, 6.1.3",
    *(f"prototype/{placement}/{policy}" for placement in _PLACEMENTS for policy in ("ldm", "sdm")),
    paper="much higher",
)
def nearest_costs_most(runs: Runs) -> Judgement:
    moved = {
        (policy, one): runs[f"prototype/{one}/{policy}"].totals.migrations
        for policy in ("ldm", "sdm")
        for one in _PLACEMENTS
    }
    return Judgement(
        {f"migrations by {policy} after {one}": count for (policy, one), count in moved.items()},
        tuple(
            # "Much higher" in words; twice is the least that one would call so.
            Check(
                f"{policy} to move more than twice as many as after {one}",
                moved[policy, "nearest"] > 2 * moved[policy, one],
            )
            for policy in ("ldm", "sdm")
            for one in ("random", "round-robin")
        ),
    )
