"""The live evaluation's claims and report, on runs made by hand; real ones take an hour."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from tocsin.errors import InvalidValue
from tocsin.lab.experiments.debs19.variants import Variant
from tocsin.lab.experiments.emergency.scenario import CityScenario
from tocsin.lab.experiments.emergency.tally import Audit
from tocsin.lab.experiments.prototype import running
from tocsin.lab.experiments.prototype.claims import end_cov, find_all
from tocsin.lab.experiments.prototype.measured import measured_loads
from tocsin.lab.experiments.prototype.report import as_json, write_report
from tocsin.lab.experiments.prototype.running import Conditions, LiveRun, run_variants
from tocsin.lab.experiments.prototype.variants import VARIANTS
from worlds.made_runs import NO_TOTALS, made_plan, made_run

_CONDITIONS = Conditions(CityScenario(), 4.0, locations_every_s=0.25)
_WORKLOAD = "workload-is-the-papers"
_SKEWED = [100.0, 100.0, 100.0, 300.0, 900.0]
_EVEN = [290.0, 300.0, 300.0, 300.0, 310.0]


def live_run(variant: Variant, conditions: Conditions = _CONDITIONS) -> LiveRun:
    """As it should be: nearest placement is skewed until it is balanced."""
    skewed = _SKEWED if variant.placement == "nearest" else [280.0, 320.0, 300.0, 270.0, 330.0]
    is_balanced = bool(variant.migration)
    loads = [skewed] * 10 + [_EVEN if is_balanced else skewed] * 21
    moves = 100 if variant.placement == "nearest" else 2
    plans = [made_plan(570, moves=moves)] if is_balanced else []
    if variant.shuffle == "gsh" and variant.placement == "nearest":
        plans = [made_plan(560, stage="shuffle", policy="gsh", moves=300), made_plan(700, moves=5)]
    totals = replace(NO_TOTALS, frontend_subscriptions=2237, backend_subscriptions=610)
    names = {"placement": variant.placement, "migration": variant.migration}
    run = made_run(loads, plans=plans, totals=totals, alpha=0.1, **names)
    delays = {"p50": 1.0, "p95": 2.0, "p99": 2.5, "max": 3.0}
    return LiveRun(
        conditions,
        run,
        Audit(1000, 0, 0, 0, 0),
        50,
        50,
        0,
        0,
        {"EmergenciesOfType": delays},
        delays,
        sum(plan.moves for plan in plans),
        delays if plans else None,
        delays if plans else None,
    )


@pytest.fixture
def live() -> dict[str, LiveRun]:
    return {name: live_run(variant) for name, variant in VARIANTS.items()}


def holds(live: dict[str, LiveRun], claim: str) -> bool:
    return next(one for one in find_all(live) if one.id == claim).holds


def test_what_the_paper_says_holds_of_runs_like_its_own(live: dict[str, LiveRun]) -> None:
    findings = find_all(live)
    assert len(findings) == 23
    assert [one.id for one in findings if not one.holds] == []


def test_what_is_balanced_too_late_or_not_at_all_is_found(live: dict[str, LiveRun]) -> None:
    live["prototype/nearest/sdm"] = replace(live["prototype/nearest/sdm"], run=live["prototype/nearest/off"].run)
    assert not holds(live, "balancing-fixes-extremes")
    assert not holds(live, "maximal-load-falls-by-half")
    live["prototype/nearest/off"] = live["prototype/random/off"]
    assert not holds(live, "nearest-is-extremely-skewed")


@pytest.mark.parametrize("kind", ["lost", "doubled", "reordered", "misdelivered", "ended"])
def test_one_wrong_notification_in_one_run_is_found(live: dict[str, LiveRun], kind: str) -> None:
    wrong = replace(Audit(1000, 0, 0, 0, 0), **{kind: 1})
    live["prototype/random/sdm"] = replace(live["prototype/random/sdm"], audit=wrong)
    assert not holds(live, "nothing-is-lost")


def test_a_record_refused_an_overrun_and_slow_moves_are_found(live: dict[str, LiveRun]) -> None:
    name = "prototype/nearest/ldm"
    assert not holds({**live, name: replace(live[name], accepted=49)}, "nothing-is-lost")
    assert not holds({**live, name: replace(live[name], overruns=1)}, "the-machine-keeps-up")
    slow = {"p50": 1.0, "p95": 9.0, "p99": 20.0, "max": 30.0}
    assert not holds({**live, name: replace(live[name], movers_received_s=slow)}, "moving-is-not-noticed")
    both = replace(live[name], movers_received_s=slow, others_received_s=slow)
    assert holds({**live, name: both}, "moving-is-not-noticed")


def test_another_workload_than_the_papers_is_told(live: dict[str, LiveRun]) -> None:
    """Other numbers of shared subscriptions than the paper's, and locations that come too rarely, are told."""
    first = next(iter(live))
    totals = replace(live[first].run.totals, backend_subscriptions=1200)
    assert not holds({**live, first: replace(live[first], run=replace(live[first].run, totals=totals))}, _WORKLOAD)
    rarely = replace(live[first], conditions=replace(_CONDITIONS, locations_every_s=1.0))
    assert not holds({**live, first: rarely}, _WORKLOAD)
    assert next(one for one in find_all(live) if one.id == _WORKLOAD).kind == "set-up"


def test_bytes_that_are_not_what_the_model_says_are_found(live: dict[str, LiveRun]) -> None:
    """Whether brokers in fact fetch and send more than the model says, or are less even than it says."""
    name = "prototype/nearest/ldm"
    assert measured_loads(live[name].run) == pytest.approx(_EVEN)
    for factors in ((3.0,) * 5, (1.0, 1.0, 1.0, 1.0, 1.45)):
        samples = tuple(
            replace(one, out_bytes=tuple(bytes_ * by for bytes_, by in zip(one.out_bytes, factors, strict=True)))
            for one in live[name].run.samples
        )
        wrong = replace(live[name], run=replace(live[name].run, samples=samples))
        found = holds({**live, name: wrong}, "measured-loads-agree")
        assert found is (factors[0] == 1.0)
    skewed = replace(live[name], run=live["prototype/nearest/off"].run)
    assert not holds({**live, name: skewed}, "measured-loads-agree")


def test_the_end_is_the_last_five_minutes() -> None:
    run = made_run([_SKEWED] * 26 + [_EVEN] * 5)
    assert end_cov(run) == pytest.approx((end_cov(made_run([_SKEWED])) + 5 * end_cov(made_run([_EVEN]))) / 6)


def test_report(live: dict[str, LiveRun], tmp_path: Path) -> None:
    """Figures 5 to 12, the claims and what everybody was handed, for people and for machines."""
    findings = find_all(live)
    written = write_report(findings, live, "tocsin experiment prototype --out DIR", "2 cores", tmp_path)
    text = (tmp_path / "report.md").read_text()
    for figure in range(5, 13):
        assert f"## Figure {figure}:" in text
    assert "How long notifications take" in text
    assert "What each broker fetched and sent, counted" in text
    assert "Alpha is 0.1 and gamma 0.5; a stage is due after 2 looks" in text
    assert "rates are means over 120 s" in text
    assert "at 4 times the speed of life" in text
    assert "| prototype/nearest/off | 1,000 | 0 |" in text
    assert all(path.stat().st_size for path in written)
    document = json.loads((tmp_path / "claims.json").read_text())
    assert document == json.loads(json.dumps(as_json(findings, live)))
    assert document["runs"]["prototype/nearest/ldm"]["audit"]["lost"] == 0


@pytest.mark.parametrize("name", ["prototype/nearest/off", "prototype/nearest/ldm"])
def test_a_few_runs_make_a_smaller_report(live: dict[str, LiveRun], tmp_path: Path, name: str) -> None:
    """What takes runs that are not there is not judged."""
    few = {name: live[name]}
    found = {one.id for one in find_all(few)}
    assert "sdm-equals-ldm" not in found
    assert ("moving-is-not-noticed" in found) is name.endswith("ldm")
    write_report(find_all(few), few, "some command", "2 cores", tmp_path)
    assert "## Figure 8" not in (tmp_path / "report.md").read_text()


def test_who_is_interrupted_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is kept as soon as it is over, and used again only under the same conditions."""
    ran: list[str] = []

    def run(variant: Variant, conditions: Conditions, _say: object) -> LiveRun:
        if len(ran) == 1:
            raise KeyboardInterrupt
        ran.append(variant.name)
        return live_run(variant, conditions)

    monkeypatch.setattr(running, "_run", run)
    two = list(VARIANTS.values())[:2]
    with pytest.raises(KeyboardInterrupt):
        run_variants(two, _CONDITIONS, tmp_path, lambda _: None)
    ran[:] = ["", ""]
    found = run_variants(two, _CONDITIONS, tmp_path, lambda _: None)
    assert ran == ["", "", two[1].name]
    assert found == {variant.name: live_run(variant) for variant in two}
    run_variants(two, replace(_CONDITIONS, speed_up=5.0), tmp_path, lambda _: None)
    assert ran[3:] == [variant.name for variant in two]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    """The message says which file is no run, and how to have it run again."""
    name, variant = next(iter(VARIANTS.items()))
    (tmp_path / f"{name.replace('/', '-')}.json").write_bytes(msgspec.json.encode({"run": 1}))
    with pytest.raises(InvalidValue, match=r"is not a run: .*; remove it to have it run again"):
        run_variants([variant], _CONDITIONS, tmp_path, lambda _: None)
