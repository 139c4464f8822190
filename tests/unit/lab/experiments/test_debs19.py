"""The claims of DEBS '19: each can hold and each can fail, for one seed and for ten, and the report is the same for the
same findings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tocsin.lab.experiments.claim import Claim, Runs
from tocsin.lab.experiments.debs19.claims import CLAIMS, migration
from tocsin.lab.experiments.debs19.drawing import paper_figures
from tocsin.lab.experiments.debs19.evaluation import Plan
from tocsin.lab.experiments.debs19.report import as_json, write_report
from tocsin.lab.experiments.debs19.sweeps import SWEEPS, Sweep, explained, sweep_up
from tocsin.lab.experiments.debs19.variants import (
    ALPHAS,
    BETAS_MB,
    TENTH,
    VARIANTS,
    Variant,
    alpha_name,
    beta_name,
    changes,
)
from tocsin.lab.experiments.report import tally
from tocsin.simulator.reading import load
from tocsin.simulator.timeline import PlanRecord, Run
from worlds.made_runs import NO_TOTALS, made_plan, made_run

pytestmark = pytest.mark.shell

PLACEMENTS = ("nearest", "random", "round-robin")
CROWDED, SPREAD = (2500, 400, 3600, 3500), (2500, 2500, 2500, 2500)


def run(
    cov: float,
    *,
    moved: Sequence[int] = (),
    shuffled: int = 0,
    mean: float = 1e6,
    subscribers: Sequence[int] = SPREAD,
    frontend: int = 0,
    backend: int = 0,
    raised: bool = False,
) -> Run:
    """Half of four brokers are above the mean by `cov`, half below, from the minute after the first plan on; extremely
    uneven before. `shuffled` were moved by a shuffle at two minutes, and `moved` by migrations at five, six …"""
    plans: list[PlanRecord] = [made_plan(120.0, stage="shuffle", policy="gsh", moves=shuffled)] if shuffled else []
    plans += [made_plan(60.0 * (5 + number), moves=moves) for number, moves in enumerate(moved)]
    if raised:
        plans = [replace(one, max_after=2 * one.max_before) for one in plans]
    even_from_s = plans[-1].time_s if plans else 0.0
    loads = []
    for minute in range(31):
        now = cov if minute * 60 > even_from_s else max(cov, 0.9)
        loads.append([mean * (1 + now), mean * (1 - now)] * 2)
    totals = replace(NO_TOTALS, frontend_subscriptions=frontend, backend_subscriptions=backend)
    return made_run(loads, plans=plans, subscribers=subscribers, totals=totals)


def prototype(policies: Mapping[str, Run], placements: Sequence[str] = ("nearest",)) -> Runs:
    return {f"prototype/{placement}/{policy}": one for placement in placements for policy, one in policies.items()}


def paper(**policies: Run) -> Runs:
    return {f"paper/nearest/{policy}": one for policy, one in policies.items()}


def alphas(covs: Sequence[float], moved: Sequence[int]) -> Runs:
    return {alpha_name(alpha): run(cov, moved=[count]) for alpha, cov, count in zip(ALPHAS, covs, moved, strict=True)}


def betas(*moved: Sequence[int], last_cov: float = 0.1) -> Runs:
    """What was moved at the smallest betas; at the others, nobody was."""
    plans = [*moved, *[()] * (len(BETAS_MB) - len(moved))]
    covs = [*[0.1] * (len(BETAS_MB) - 1), last_cov]
    return {beta_name(beta): run(cov, moved=some) for beta, some, cov in zip(BETAS_MB, plans, covs, strict=True)}


def workload(frontend: int, backend: int) -> Runs:
    return {
        **paper(off=run(0.1, frontend=frontend, backend=backend)),
        **prototype({"off": run(0.1, frontend=2200, backend=600)}),
    }


def every_preset(policies: Mapping[str, Run]) -> Runs:
    """Where our policies are compared with the paper's."""
    return {
        f"{preset}/nearest/{policy}{differs}": one
        for preset, differs in (("paper", "/a tenth"), ("prototype", ""), ("communities", "/a tenth"))
        for policy, one in policies.items()
    }


def rush(naive: Run) -> Runs:
    placements = {"least-loaded": naive, "random": run(0.1), "least-resulting-load": run(0.05)}
    return {f"paper/{placement}/off/a tenth, rush": one for placement, one in placements.items()}


def falls(what: str) -> dict[str, tuple[Runs, Runs]]:
    """Either policy has to help, whatever the placement."""
    return {
        f"{placement}-{what}-falls": (
            prototype({"off": run(0.4), "ldm": run(0.2), "sdm": run(0.1)}, [placement]),
            prototype({"off": run(0.4), "ldm": run(0.2), "sdm": run(0.4)}, [placement]),
        )
        for placement in PLACEMENTS
    }


def either(one: Run) -> Mapping[str, Run]:
    return {"ldm": one, "sdm": one}


#: For each claim, runs with which it holds and runs with which it does not.
CASES: dict[str, tuple[Runs, Runs]] = {
    "workload-is-the-papers": (workload(200_100, 1000), workload(90_000, 1000)),
    "nearest-is-skewed": (paper(off=run(0.8, subscribers=CROWDED)), paper(off=run(0.8, subscribers=SPREAD))),
    "least-loaded-does-badly": (rush(run(0.9, subscribers=(9000, 400, 300, 300))), rush(run(0.1))),
    "equal-counts-are-not-equal-loads": (
        prototype({"off": run(0.1)}, ["round-robin"]),
        prototype({"off": run(0.0)}, ["round-robin"]),
    ),
    "nearest-costs-most-migrations": (
        {
            **prototype({"ldm": run(0.1, moved=[90]), "sdm": run(0.1, moved=[90])}),
            **prototype({"ldm": run(0.1, moved=[9]), "sdm": run(0.1)}, ("random", "round-robin")),
        },
        prototype(either(run(0.1, moved=[90])), PLACEMENTS),
    ),
    "no-plan-raises-the-maximal-load": (
        {
            **prototype({**either(run(0.1, moved=[9])), "ldm+gsh": run(0.1, shuffled=9)}),
            **paper(ldm=run(0.1, moved=[9]), gsh=run(0.1, shuffled=9)),
        },
        {
            **prototype({**either(run(0.1, moved=[9])), "ldm+gsh": run(0.1, shuffled=9)}),
            **paper(ldm=run(0.1, moved=[9]), gsh=run(0.1, shuffled=9, raised=True)),
        },
    ),
    **falls("cov"),
    **falls("maximal-load"),
    "random-needs-few-migrations": (
        prototype(either(run(0.1, moved=[30])), ["random"]),
        prototype(either(run(0.1)), ["random"]),
    ),
    "sdm-equals-ldm": (
        prototype({"ldm": run(0.1, moved=[9]), "sdm": run(0.12, moved=[9])}, PLACEMENTS),
        prototype({"ldm": run(0.1), "sdm": run(0.1)}, PLACEMENTS),
    ),
    "ldm-and-sdm-move-similar-numbers": (
        prototype({"ldm": run(0.1, moved=[90]), "sdm": run(0.1, moved=[100])}, PLACEMENTS),
        prototype({"ldm": run(0.1, moved=[90]), "sdm": run(0.1, moved=[180])}, PLACEMENTS),
    ),
    "random-needs-no-shuffle": (
        prototype({"off": run(0.2), "ldm+gsh": run(0.1, moved=[3])}, ("random",)),
        prototype({"off": run(0.7), "ldm+gsh": run(0.1, shuffled=300)}, ("random",)),
    ),
    "nearest-calls-for-a-shuffle": (
        prototype({"off": run(0.7), "ldm+gsh": run(0.1, shuffled=300)}),
        prototype({"off": run(0.3), "ldm+gsh": run(0.1, moved=[30])}),
    ),
    "early-shuffle-saves-migrations": (
        prototype(
            dict.fromkeys(("ldm", "sdm"), run(0.1, moved=[50]))
            | dict.fromkeys(("ldm+gsh", "sdm+gsh"), run(0.1, shuffled=300, moved=[5]))
        ),
        prototype(
            dict.fromkeys(("ldm", "sdm"), run(0.1, moved=[50]))
            | dict.fromkeys(("ldm+gsh", "sdm+gsh"), run(0.1, shuffled=300, moved=[60]))
        ),
    ),
    "shuffle-adds-little-in-prototype": (
        prototype({"off": run(0.9), "ldm": run(0.1), "ldm+gsh": run(0.08)}),
        prototype({"off": run(0.9), "ldm": run(0.5), "ldm+gsh": run(0.02)}),
    ),
    "ldm-restores-balance": (
        paper(off=run(0.8), ldm=run(0.1, moved=[9, 9])),
        paper(off=run(0.8), ldm=run(0.17, moved=[9, 9])),
    ),
    "maximal-load-halves": (
        paper(off=run(0.9), ldm=run(0.1), gsh=run(0.1)),
        paper(off=run(0.9), ldm=run(0.1), gsh=run(0.6)),
    ),
    "gsh-restores-balance-at-once": (paper(gsh=run(0.02, shuffled=99)), paper(gsh=run(0.2, shuffled=99))),
    "gsh-needs-no-further-migration": (paper(gsh=run(0.02, shuffled=99)), paper(gsh=run(0.2, shuffled=99))),
    "gsh-is-more-even-than-ldm": (paper(ldm=run(0.1), gsh=run(0.02)), paper(ldm=run(0.1), gsh=run(0.12))),
    "ldm-takes-longer-than-gsh": (
        paper(ldm=run(0.1, moved=[9, 9]), gsh=run(0.02, shuffled=99)),
        paper(ldm=run(0.1, moved=[9]), gsh=run(0.02, shuffled=99)),
    ),
    "smaller-alpha-evens-more": (alphas([0.05, 0.08, 0.12], [9, 9, 9]), alphas([0.05, 0.04, 0.12], [9, 9, 9])),
    "smaller-alpha-costs-more": (alphas([0.1] * 3, [900, 700, 600]), alphas([0.1] * 3, [900, 700, 700])),
    "small-alpha-matches-gsh": (
        {alpha_name(0.05): run(0.04), **paper(gsh=run(0.035))},
        {alpha_name(0.05): run(0.05), **paper(gsh=run(0.002))},
    ),
    "small-alpha-converges-later": (
        {alpha_name(0.05): run(0.04, moved=[9, 9]), **paper(gsh=run(0.02, shuffled=99))},
        {alpha_name(0.05): run(0.04, moved=[9]), **paper(gsh=run(0.02, shuffled=99))},
    ),
    "smaller-beta-invokes-more": (betas([9, 9, 9], [9, 9]), betas([9, 9], [9, 9, 9], [9])),
    "smaller-beta-evens-more": (betas([9], [9], last_cov=0.6), betas([9], [9])),
    "smaller-beta-costs-more": (betas([900], [700]), betas([901], [900])),
    "group-migration-carries-less": (
        every_preset({"ldm": run(0.1), "group": run(0.1, mean=0.9e6)}),
        every_preset({"ldm": run(0.1), "group": run(0.1, mean=1.1e6)}),
    ),
    "sharing-shuffle-carries-less": (
        every_preset({"gsh": run(0.01, shuffled=9), "sharing": run(0.01, shuffled=9, mean=0.9e6)}),
        every_preset({"gsh": run(0.01, shuffled=9), "sharing": run(0.01, shuffled=9, mean=1.1e6)}),
    ),
    "our-stages-cost-less": (
        every_preset({"ldm+gsh": run(0.1, shuffled=90), "group+sharing": run(0.1, shuffled=60)}),
        every_preset({"ldm+gsh": run(0.1, shuffled=90), "group+sharing": run(0.3, shuffled=60)}),
    ),
}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.id)
def test_a_claim_can_hold_and_can_fail(claim: Claim) -> None:
    """A claim that no run could refute would say nothing. One that fails says what was expected instead."""
    holding, failing = CASES[claim.id]
    found = claim.find(holding)
    assert found.holds, found.why
    assert found.why == ""
    refuted = claim.find(failing)
    assert not refuted.holds
    assert refuted.why.startswith("Expected ")
    assert refuted.measured
    assert all(isinstance(value, int | float) for value in refuted.numbers.values())


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: one.id)
def test_a_claim_looks_only_at_what_it_needs(claim: Claim) -> None:
    """So that what it needs is what is run."""
    assert set(claim.needs) <= set(VARIANTS)
    holding, _ = CASES[claim.id]
    claim.find({name: one for name, one in holding.items() if name in claim.needs})


def test_a_claim_holds_if_it_holds_for_nine_seeds_of_ten() -> None:
    """And says for how many, with means and standard deviations of what was measured."""
    claim = next(one for one in CLAIMS if one.id == "smaller-alpha-costs-more")
    holding, failing = CASES[claim.id]
    nine = claim.find(*[holding] * 9, failing)
    assert nine.holds
    assert (nine.held, nine.seeds) == (9, 10)
    assert nine.spread["migrations at alpha 0.15"] > 0
    assert "migrations at alpha 0.15 610 ± 31.6" in nine.measured
    eight = claim.find(*[holding] * 8, failing, failing)
    assert not eight.holds
    assert "(so for 8 of 10 seeds)" in eight.why


def test_every_variant_is_for_something() -> None:
    """No simulation is run for nothing."""
    assert set(VARIANTS) == {name for claim in CLAIMS for name in claim.needs}


def test_the_paper_is_run_as_it_is_written() -> None:
    """At least 18 of its claims, with its thresholds, subscribers and eight minutes of subscribing, and balancing on
    from the start, by its own rule. What the paper does not say is not mixed up with what it does."""
    assert sum(claim.kind == "paper" for claim in CLAIMS) >= 18
    assert VARIANTS["paper/nearest/ldm"].settings == VARIANTS["paper/nearest/gsh"].settings == ()
    scenario = load("paper")
    balancing, people = scenario.balancing, scenario.subscribers
    assert (balancing.alpha, balancing.gamma, balancing.beta, balancing.theta) == (0.15, 0.5, 300e6, 300e6)
    assert balancing.begins_at_s == 0
    assert (balancing.hits, balancing.shuffle_hits, balancing.settle_s, balancing.rest_s) == (1, 1, 0, 0)
    assert (people.count, people.subscribe_s[1], people.subscriptions) == (10_000, 480, (10, 30))
    prototype_balancing = load("prototype").balancing
    assert (prototype_balancing.alpha, prototype_balancing.gamma, prototype_balancing.begins_at_s) == (0.15, 0.5, 0)


def test_a_tenth_has_the_same_loads() -> None:
    """As many subscribers for each subscription, and as many bytes for each broker."""
    whole, tenth = load("paper"), load("paper", dict(TENTH))
    assert tenth.subscribers.count * 10 == whole.subscribers.count
    for small, large in zip(tenth.all_channels(), whole.all_channels(), strict=True):
        assert small.subscriptions * 10 == large.subscriptions
        assert small.rate.mean_bytes_per_s == 10 * large.rate.mean_bytes_per_s
        assert small.rate.std_bytes_per_s == 10 * large.rate.std_bytes_per_s


def test_ids_are_kebab_case_and_unique() -> None:
    """Each claim is called by one name, which can be part of an address."""
    ids = [claim.id for claim in CLAIMS]
    assert len(set(ids)) == len(ids)
    assert all(id_.replace("-", "").isalnum() and id_ == id_.lower() for id_ in ids)


def test_no_shuffle_at_all_is_told() -> None:
    """A claim about the shuffle fails, rather than breaks, if none was made."""
    claim = next(one for one in CLAIMS if one.id == "gsh-restores-balance-at-once")
    found = claim.find({name: run(0.1) for name in claim.needs})
    assert not found.holds
    assert found.why == "Expected a shuffle."


def test_experiments_say_where_a_claim_that_fails_would_hold() -> None:
    """The same claim is judged on runs with other settings; what comes out is told with the finding."""
    claim = migration.ldm_restores_balance
    sweep = Sweep("looks", "How often?", (claim,), {"5": changes(balancing__every_s=5), "60": changes()}, TENTH)
    names = {step: sweep.variants_at(step) for step in sweep.steps}
    assert set(names["5"]["paper/nearest/ldm"].settings) == {*TENTH, ("balancing.every_s", "5")}
    even, uneven = run(0.1, moved=[9]), run(0.4, moved=[9])
    runs = {one.name: even for one in names["5"].values()} | {one.name: uneven for one in names["60"].values()}
    swept = sweep_up(sweep, [runs])
    failed = explained([claim.find(paper(off=uneven, ldm=uneven))], [swept])[0]
    assert 'Experiment "looks": holds at 5 of 5, 60.' in failed.why
    held = explained([claim.find(paper(off=uneven, ldm=even))], [swept])[0]
    assert held.why == ""


@pytest.mark.parametrize("sweep", SWEEPS, ids=lambda one: one.id)
def test_every_step_of_every_experiment_is_a_scenario(sweep: Sweep) -> None:
    """A setting that there is not would be found only after minutes of simulating."""
    for variant in sweep.variants():
        load(variant.preset, dict(variant.settings))
    assert len({one.name for one in sweep.variants()}) == len({(one.name, one.settings) for one in sweep.variants()})


def test_a_variant_that_takes_its_beta_from_a_run_brings_that_run_with_it() -> None:
    jobs = Plan(range(1, 4)).jobs
    known = {(job.variant.name, job.seed) for job in jobs}
    some = [job for job in jobs if job.variant.beta_share is not None]
    assert some
    assert all((job.variant.without_balancing().name, job.seed) in known for job in some)
    assert len(known) == len(jobs)


def test_a_quick_look_has_a_tenth_of_everybody() -> None:
    plan = Plan([1], is_quick=True)
    assert set(plan.variants) == set(VARIANTS)
    counts = {dict(one.settings).get("subscribers.count") for one in plan.variants.values() if one.preset == "paper"}
    assert counts == {"1000"}
    assert len(plan.jobs) == len({one.name for one in plan.variants.values()})


def test_the_report_is_the_same_for_the_same_findings(tmp_path: Path) -> None:
    """And it is all there: the table in three forms, a picture for each of the paper's figures, and the experiments."""
    runs = {name: run(0.1, moved=[5]) for name in VARIANTS}
    swept = [
        sweep_up(one, [{variant.name: run(0.1, moved=[5]) for variant in one.variants()}] * 2) for one in SWEEPS[:2]
    ]
    findings = [claim.find(runs, runs) for claim in CLAIMS]
    command = "tocsin reproduce debs19 --seed 1 --seeds 2 --out DIR"
    first = write_report(findings, swept, {1: runs, 2: runs}, command, tmp_path / "one", {"made_by": {}})
    names = [path.relative_to(tmp_path / "one") for path in first]
    assert [name.name for name in names[:3]] == ["claims.json", "report.html", "report.md"]
    page, markdown = first[1].read_text(), first[2].read_text()
    assert "http://" not in page
    assert "tocsin reproduce debs19 --seed 1" in page
    for number in range(5, 15):
        assert f"Figure {number}:" in page
        assert f"## Figure {number}:" in markdown
    for name in names[3:]:
        assert f"]({name})" in markdown
    assert len(set(names)) == len(names), "each picture has a file of its own"
    for one in swept:
        assert f"## Experiment: {one.sweep.id}" in markdown
        assert one.sweep.question in markdown
    document = json.loads(first[0].read_text())
    assert [one["id"] for one in document["claims"]] == [claim.id for claim in CLAIMS]
    assert {"id", "claim", "source", "paper", "measured", "holds", "held", "why"} <= set(document["claims"][0])
    assert document["seeds"] == [1, 2]
    assert [one["id"] for one in document["experiments"]] == [one.sweep.id for one in swept]


def test_figures_without_their_runs_are_left_out() -> None:
    some = {name: run(0.1) for name in VARIANTS if name.startswith("prototype/random/")}
    figures = paper_figures(some)
    assert [figure.number for figure in figures] == ["5", "6"]
    assert figures == paper_figures(some)


def test_the_tally_tells_the_papers_claims_from_ours_and_from_the_set_up() -> None:
    findings = [claim.find(CASES[claim.id][claim.kind == "ours"]) for claim in CLAIMS]
    theirs = sum(claim.kind == "paper" for claim in CLAIMS)
    assert tally(findings) == (
        f"{theirs} of {theirs} claims of the paper, 0 of 3 claims of ours and 2 of 2 checks of the set-up hold."
    )
    assert as_json(findings, [], [7])["seeds"] == [7]


def test_a_variant_is_called_by_what_differs() -> None:
    one = Variant("paper", "nearest", "ldm", beta_share=0.9).with_("looks: 5", changes(balancing__every_s=5))
    assert one.name == "paper/nearest/ldm/looks: 5/beta at 0.9 of the mean"
    assert one.without_balancing().name == "paper/nearest/off/looks: 5"
