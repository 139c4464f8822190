"""Claims about where newcomers are placed, and about the workload that is placed."""

from __future__ import annotations

from tocsin.lab.experiments.claim import Check, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov, later_max
from tocsin.simulator.timeline import Run


@claim(
    "workload-is-the-papers",
    "The workloads are the paper's: 10,000 subscribers with about 200,000 subscriptions that share 1,000, and a"
    " prototype with about 2,200 that share about 600.",
    "6.1.2, 6.2.1",
    "paper/nearest/off",
    "prototype/nearest/off",
)
def workload(runs: Runs) -> Judgement:
    paper, prototype = runs["paper/nearest/off"], runs["prototype/nearest/off"]
    people = sum(paper.samples[-1].subscribers)
    one, two = paper.totals, prototype.totals
    return Judgement(
        f"{one.frontend_subscriptions:,} subscriptions of {people:,} subscribers share {one.backend_subscriptions:,};"
        f" in the prototype {two.frontend_subscriptions:,} share {two.backend_subscriptions:,}",
        {
            "paper_frontend_per_subscriber": one.frontend_subscriptions / max(1, people),
            "paper_backend": one.backend_subscriptions,
            "prototype_frontend": two.frontend_subscriptions,
            "prototype_backend": two.backend_subscriptions,
        },
        (
            # The paper draws 10 to 30 subscriptions each and says "roughly" for all its sums: a tenth and a fifth.
            Check("18 to 22 subscriptions a subscriber", 18 <= one.frontend_subscriptions / max(1, people) <= 22),
            Check("at most 1,000 to be shared, and nearly all of them held", 990 <= one.backend_subscriptions <= 1000),
            Check("the prototype's to be 2,200 within a fifth", 1760 <= two.frontend_subscriptions <= 2640),
            Check("the prototype's shared ones to be 600 within a fifth", 480 <= two.backend_subscriptions <= 720),
        ),
    )


@claim(
    "nearest-is-skewed",
    "Placed at the nearest broker, subscribers are badly skewed: one broker has more than a fifth of them, others have"
    " less than a twentieth.",
    "Figure 13 (1), 6.2.2",
    "paper/nearest/off",
)
def nearest_is_skewed(runs: Runs) -> Judgement:
    run = runs["paper/nearest/off"]
    counts = sorted(run.samples[-1].subscribers)
    everybody = sum(counts)
    cov = later_cov(run)
    return Judgement(
        f"from {counts[0]:,} to {counts[-1]:,} of {everybody:,} subscribers at a broker; cov {cov:.2f}",
        {"most_subscribers": counts[-1], "fewest_subscribers": counts[0], "later_cov": cov},
        (
            Check("a broker with more than a fifth of all", counts[-1] > everybody / 5),
            Check("a broker with less than a twentieth of all", counts[0] < everybody / 20),
            # What our coordinator by default calls extreme, and answers with a shuffle.
            Check("a cov above 0.5", cov > 0.5),
        ),
    )


@claim(
    "least-loaded-does-badly",
    "To place newcomers who come in a rush and hold nothing yet at the least loaded broker does badly: they crowd at a"
    " few and overwhelm them once they subscribe.",
    "5.1",
    "paper/least-loaded/off/rush",
    "paper/random/off/rush",
    "paper/least-resulting-load/off/rush",
)
def least_loaded_does_badly(runs: Runs) -> Judgement:
    naive, random = runs["paper/least-loaded/off/rush"], runs["paper/random/off/rush"]
    ours = runs["paper/least-resulting-load/off/rush"]
    most = max(naive.samples[-1].subscribers) / max(1, sum(naive.samples[-1].subscribers))
    times = later_max(naive) / max(1.0, later_max(random))
    return Judgement(
        f"one broker gets {most:.0%} of all, and the maximal load is {times:.1f} times that of random placement"
        f" (cov {later_cov(naive):.2f} against {later_cov(random):.2f}); our least-resulting-load, which counts"
        f" connections too, has cov {later_cov(ours):.2f}",
        {
            "largest_share": most,
            "max_over_random": times,
            "least_loaded_cov": later_cov(naive),
            "random_cov": later_cov(random),
            "least_resulting_load_cov": later_cov(ours),
        },
        (
            # To be called bad it must be worse than no thought at all, beyond what chance would do.
            Check("a maximal load at least half above random placement's", times >= 1.5),
            Check("a broker with more than twice its even share", most > 2 / len(naive.brokers)),
        ),
    )


_PLACEMENTS = ("nearest", "random", "round-robin")


@claim(
    "works-for-every-placement",
    "Balancing works whatever the placement: both migrations make loads more even after random and round robin as well"
    " as after nearest.",
    "Figures 5 to 8 and 10, 6.1.3",
    *(f"prototype/{placement}/{policy}" for placement in _PLACEMENTS for policy in ("off", "ldm", "sdm")),
)
def works_for_every_placement(runs: Runs) -> Judgement:
    def of(placement: str, policy: str) -> Run:
        return runs[f"prototype/{placement}/{policy}"]

    covs = {(one, policy): later_cov(of(one, policy)) for one in _PLACEMENTS for policy in ("off", "ldm", "sdm")}
    return Judgement(
        "cov without balancing, with ldm and with sdm: "
        + "; ".join(
            f"{one} " + ", ".join(f"{covs[one, policy]:.2f}" for policy in ("off", "ldm", "sdm")) for one in _PLACEMENTS
        ),
        {f"{one} {policy} cov": cov for (one, policy), cov in covs.items()},
        tuple(
            # Where loads are even enough for alpha from the start there is nothing to gain, and nothing may be lost.
            Check(
                f"{policy} to lower cov for {one}, or to leave it below alpha",
                covs[one, policy] < covs[one, "off"] or covs[one, policy] <= of(one, policy).alpha,
            )
            for one in _PLACEMENTS
            for policy in ("ldm", "sdm")
        ),
    )


@claim(
    "nearest-costs-most-migrations",
    "Nearest placement needs far more migrations than random and round robin, with either policy.",
    "Figure 12, 6.1.3",
    *(f"prototype/{placement}/{policy}" for placement in _PLACEMENTS for policy in ("ldm", "sdm")),
)
def nearest_costs_most(runs: Runs) -> Judgement:
    moved = {
        (policy, one): runs[f"prototype/{one}/{policy}"].totals.migrations
        for policy in ("ldm", "sdm")
        for one in _PLACEMENTS
    }
    return Judgement(
        "migrations after nearest, random and round robin: "
        + "; ".join(
            f"{policy} " + ", ".join(f"{moved[policy, one]:,}" for one in _PLACEMENTS) for policy in ("ldm", "sdm")
        ),
        {f"{policy} {one}": count for (policy, one), count in moved.items()},
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
