"""Checks of the set-up: what we have put in ourselves, beside what the paper says of it. They are no evidence."""

from __future__ import annotations

from tocsin.lab.experiments.claim import Check, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov

#: The paper says "roughly" and "around" of all its sums.
_ROUGHLY = 0.1


def _is_roughly(value: float, expected: float) -> bool:
    return abs(value - expected) <= _ROUGHLY * expected


@claim(
    "workload-is-the-papers",
    "The workloads are the paper's: 10,000 subscribers with about 200,000 subscriptions that share 1,000, and a"
    " prototype with about 2,200 that share about 600.",
    "6.1.2, 6.2.1, slides",
    "paper/nearest/off",
    "prototype/nearest/off",
    kind="set-up",
    paper="roughly 200,000 and 1,000; prototype around 2,200 and 600 (slides: 610)",
)
def workload(runs: Runs) -> Judgement:
    paper, prototype = runs["paper/nearest/off"].totals, runs["prototype/nearest/off"].totals
    return Judgement(
        {
            "subscriptions of subscribers": paper.frontend_subscriptions,
            "shared ones at the cluster": paper.backend_subscriptions,
            "in the prototype": prototype.frontend_subscriptions,
            "shared in the prototype": prototype.backend_subscriptions,
        },
        (
            Check("200,000 subscriptions within a tenth", _is_roughly(paper.frontend_subscriptions, 200_000)),
            Check("1,000 to be shared, within a tenth", _is_roughly(paper.backend_subscriptions, 1000)),
            Check("2,200 in the prototype within a tenth", _is_roughly(prototype.frontend_subscriptions, 2200)),
            Check("600 to be shared there, within a tenth", _is_roughly(prototype.backend_subscriptions, 600)),
        ),
    )


@claim(
    "nearest-is-skewed",
    "Placed at the nearest broker, subscribers are badly skewed: one broker has more than 2,000 of 10,000, others have"
    " less than 500.",
    "Figure 13 (1), 6.2.2",
    "paper/nearest/off",
    kind="set-up",
    paper="more than 2,000 at one broker, less than 500 at others",
    value=2000,
)
def nearest_is_skewed(runs: Runs) -> Judgement:
    run = runs["paper/nearest/off"]
    counts = sorted(run.samples[-1].subscribers)
    return Judgement(
        {"most subscribers": counts[-1], "fewest": counts[0], "cov of loads": later_cov(run)},
        (
            Check("a broker with more than a fifth of all", counts[-1] > sum(counts) / 5),
            Check("a broker with less than a twentieth of all", counts[0] < sum(counts) / 20),
        ),
    )
