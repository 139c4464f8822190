"""The claims of DEBS '19: each can hold and each can fail, and the report is the same for the same findings."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tocsin.lab.experiments.claim import OURS, Claim, Runs
from tocsin.lab.experiments.debs19.claims import CLAIMS
from tocsin.lab.experiments.debs19.drawing import paper_figures
from tocsin.lab.experiments.debs19.report import as_json, write_report
from tocsin.lab.experiments.debs19.variants import ALPHAS, AUDIENCE, BETA_SHARES, VARIANTS, alpha_name, beta_name
from tocsin.lab.experiments.report import tally
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
) -> Run:
    """Half of four brokers are above the mean by `cov`, half below, from the minute after the first plan on; extremely
    uneven before. `shuffled` were moved by a shuffle at two minutes, and `moved` by migrations at five, six …"""
    plans: list[PlanRecord] = [made_plan(120.0, stage="shuffle", policy="gsh", moves=shuffled)] if shuffled else []
    plans += [made_plan(60.0 * (5 + number), moves=moves) for number, moves in enumerate(moved)]
    even_from_s = plans[-1].time_s if plans else 0.0
    loads = []
    for minute in range(31):
        now = cov if minute * 60 > even_from_s else max(cov, 0.9)
        loads.append([mean * (1 + now), mean * (1 - now)] * 2)
    totals = replace(NO_TOTALS, frontend_subscriptions=frontend, backend_subscriptions=backend)
    return made_run(loads, plans=plans, subscribers=subscribers, totals=totals)


def prototype(policies: Mapping[str, Run], placements: Sequence[str] = ("nearest",)) -> Runs:
    return {f"prototype/{placement}/{policy}": one for placement in placements for policy, one in policies.items()}


def alphas(covs: Sequence[float], moved: Sequence[int]) -> Runs:
    return {alpha_name(alpha): run(cov, moved=[count]) for alpha, cov, count in zip(ALPHAS, covs, moved, strict=True)}


def betas(moved: Sequence[int]) -> Runs:
    return {beta_name(share): run(0.1, moved=[count]) for share, count in zip(BETA_SHARES, moved, strict=True)}


def workload(frontend: int, backend: int) -> Runs:
    return {
        "paper/nearest/off": run(0.1, frontend=frontend, backend=backend),
        "prototype/nearest/off": run(0.1, frontend=2200, backend=600),
    }


def every_preset(policies: Mapping[str, Run]) -> Runs:
    return {f"{preset}/nearest/{policy}": one for preset in AUDIENCE for policy, one in policies.items()}


#: For each claim, runs with which it holds and runs with which it does not.
CASES: dict[str, tuple[Runs, Runs]] = {
    "workload-is-the-papers": (workload(200_100, 1000), workload(90_000, 1000)),
    "nearest-is-skewed": (
        {"paper/nearest/off": run(0.8, subscribers=CROWDED)},
        {"paper/nearest/off": run(0.8, subscribers=SPREAD)},
    ),
    "least-loaded-does-badly": (
        {
            "paper/least-loaded/off/rush": run(0.9, subscribers=(9000, 400, 300, 300)),
            "paper/random/off/rush": run(0.1),
            "paper/least-resulting-load/off/rush": run(0.05),
        },
        {
            "paper/least-loaded/off/rush": run(0.1),
            "paper/random/off/rush": run(0.1),
            "paper/least-resulting-load/off/rush": run(0.05),
        },
    ),
    "works-for-every-placement": (
        prototype({"off": run(0.4), "ldm": run(0.2), "sdm": run(0.1)}, PLACEMENTS),
        prototype({"off": run(0.4), "ldm": run(0.2), "sdm": run(0.5)}, PLACEMENTS),
    ),
    "nearest-costs-most-migrations": (
        {
            **prototype({"ldm": run(0.1, moved=[90]), "sdm": run(0.1, moved=[90])}),
            **prototype({"ldm": run(0.1, moved=[9]), "sdm": run(0.1)}, ("random", "round-robin")),
        },
        prototype({"ldm": run(0.1, moved=[90]), "sdm": run(0.1, moved=[90])}, PLACEMENTS),
    ),
    "ldm-restores-balance": (
        {"paper/nearest/off": run(0.8), "paper/nearest/ldm": run(0.1, moved=[9, 9])},
        {"paper/nearest/off": run(0.8), "paper/nearest/ldm": run(0.5, moved=[9, 9])},
    ),
    "gsh-restores-balance-at-once": (
        {"paper/nearest/gsh": run(0.02, shuffled=99), "paper/nearest/ldm+gsh": run(0.02, shuffled=99)},
        {"paper/nearest/gsh": run(0.02, shuffled=99), "paper/nearest/ldm+gsh": run(0.02, shuffled=99, moved=[1])},
    ),
    "ldm-takes-longer-than-gsh": (
        {"paper/nearest/ldm": run(0.1, moved=[9, 9]), "paper/nearest/gsh": run(0.02, shuffled=99)},
        {"paper/nearest/ldm": run(0.1, moved=[9]), "paper/nearest/gsh": run(0.02, shuffled=99)},
    ),
    "maximal-load-halves": (
        every_preset({"off": run(0.9)} | dict.fromkeys(("ldm", "sdm", "gsh", "ldm+gsh"), run(0.1))),
        every_preset({"off": run(0.9)} | dict.fromkeys(("ldm", "sdm", "gsh", "ldm+gsh"), run(0.6))),
    ),
    "sdm-equals-ldm": (
        prototype({"ldm": run(0.1), "sdm": run(0.12)}, PLACEMENTS),
        prototype({"ldm": run(0.1), "sdm": run(0.3)}, PLACEMENTS),
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
        prototype({"ldm": run(0.1), "ldm+gsh": run(0.08)}),
        prototype({"ldm": run(0.5), "ldm+gsh": run(0.02)}),
    ),
    "random-needs-no-shuffle": (
        prototype({"off": run(0.2), "ldm+gsh": run(0.1, moved=[3])}, ("random",)),
        prototype({"off": run(0.7), "ldm+gsh": run(0.1, shuffled=300)}, ("random",)),
    ),
    "smaller-alpha-evens-more-and-costs-more": (
        alphas([0.05, 0.08, 0.12, 0.11, 0.2, 0.25], [900, 700, 600, 300, 200, 100]),
        alphas([0.05, 0.08, 0.12, 0.15, 0.2, 0.25], [100, 100, 100, 100, 100, 100]),
    ),
    "small-alpha-matches-gsh": (
        {alpha_name(0.05): run(0.04), "paper/nearest/gsh": run(0.02)},
        {alpha_name(0.05): run(0.14), "paper/nearest/gsh": run(0.02)},
    ),
    "smaller-beta-costs-more": (betas([900, 700, 500, 0]), betas([901, 900, 899, 0])),
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


def test_every_variant_is_for_something() -> None:
    """No simulation is run for nothing."""
    assert set(VARIANTS) == {name for claim in CLAIMS for name in claim.needs}


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
    assert found.measured == "no shuffle was made"


def test_the_report_is_the_same_for_the_same_findings(tmp_path: Path) -> None:
    """And it is all there: the table in three forms, and a picture for each of the paper's figures."""
    runs = {name: run(0.1, moved=[5]) for name in VARIANTS}
    findings = [claim.find(runs) for claim in CLAIMS]
    first = write_report(findings, runs, 1, "tocsin reproduce debs19 --seed 1 --out DIR", tmp_path / "one")
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
    claims = json.loads(first[0].read_text())["claims"]
    assert [one["id"] for one in claims] == [claim.id for claim in CLAIMS]
    assert {"id", "claim", "source", "measured", "holds", "why"} <= set(claims[0])


def test_figures_without_their_runs_are_left_out() -> None:
    figures = paper_figures({name: run(0.1) for name in VARIANTS if name.startswith("prototype/random/")})
    assert [figure.number for figure in figures] == ["5", "6"]
    again = paper_figures({name: run(0.1) for name in VARIANTS if name.startswith("prototype/random/")})
    assert figures == again


def test_the_tally_tells_the_papers_claims_from_ours() -> None:
    findings = [claim.find(CASES[claim.id][claim.source == OURS]) for claim in CLAIMS]
    assert tally(findings) == f"{len(CLAIMS) - 3} of {len(CLAIMS) - 3} claims of the paper hold, and 0 of 3 of ours."
    assert as_json(findings, 7)["seed"] == 7
