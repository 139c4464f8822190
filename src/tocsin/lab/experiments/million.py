"""A million subscribers, simulated: the preset city-million, judged, with a report that is kept.

The same run with a few of the subscribers is its probe, which tests make: a tenth of them would take most of a minute.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tocsin.lab.experiments import report
from tocsin.lab.experiments.claim import OURS, Check, Claim, Finding, Judgement, Runs, claim
from tocsin.lab.experiments.report import PaperFigure, Report, Table, tally
from tocsin.lab.experiments.youth import DECIDING, Youth
from tocsin.simulator.figures import later_cov, later_max, summary
from tocsin.simulator.reading import load
from tocsin.simulator.timeline import Run, Sample
from tocsin.simulator.timeline_pictures import cov_picture, max_picture, migrations_picture
from tocsin.simulator.world import simulate

NAME = "city-million"
_PROBE_SUBSCRIBERS = 5_000
_TITLE = "A million subscribers of a hundred brokers"
_ABOUT = (
    "The preset `city-million`: people come, go, walk and change their minds; one of the brokers dies after twenty"
    " minutes and comes back five minutes later. Every control message goes through the machines of brokers,"
    " coordinator and subscribers; deliveries are summed."
)


def run_city(subscribers: int | None = None, seed: int = 1) -> Run:
    """With all subscribers if None."""
    changes = {} if subscribers is None else {"subscribers.count": str(subscribers)}
    return simulate(load(NAME, changes), seed=seed)


@cache
def probe_run() -> Run:
    return run_city(_PROBE_SUBSCRIBERS)


def probe() -> dict[str, dict[str, float]]:
    run = probe_run()
    return {
        f"{_PROBE_SUBSCRIBERS:,} subscribers": {
            "cov": round(later_cov(run), 6),
            "maximal load": round(later_max(run), 1),
            "migrations": run.totals.migrations,
            "deliveries": run.totals.deliveries,
        }
    }


YOUTH = Youth((*DECIDING, "lab/experiments/claim.py", "lab/experiments/million.py"), probe)


@claim(
    "who-lost-a-broker-finds-another",
    "When a broker dies, its subscribers are at other brokers within a minute.",
    OURS,
    NAME,
    kind="ours",
)
def another_broker(runs: Runs) -> Judgement:
    run = runs[NAME]
    failure = load(NAME).failures[0]
    dead = run.brokers.index(failure.broker)
    # A sample that is taken at the moment of the failure is taken after it.
    before, after = _sample_at(run, failure.at_s - 1), _sample_at(run, failure.at_s + 60)
    kept = sum(after.subscribers) / max(1, sum(before.subscribers))
    return Judgement(
        {
            "subscribers of the broker that died": before.subscribers[dead],
            "connected in all before": sum(before.subscribers),
            "a minute later": sum(after.subscribers),
        },
        (
            Check("nobody at a dead broker", after.subscribers[dead] == 0),
            # In a minute, as many log out as log in, give or take one in two hundred.
            Check("as many to be connected as before, to half a percent", kept >= 0.995),
        ),
    )


@claim(
    "migration-evens-the-city",
    "Group migration halves the unevenness of nearest placement, and takes load off the most loaded broker.",
    OURS,
    NAME,
    kind="ours",
)
def evens(runs: Runs) -> Judgement:
    run = runs[NAME]
    if not run.plans:
        return Judgement({}, (Check("a plan", is_met=False),))
    before, last = _sample_at(run, run.plans[0].time_s), run.samples[-1]
    return Judgement(
        {
            "cov before the first plan": before.cov,
            "cov at the end": last.cov,
            "maximal load over the mean before": before.max / max(1.0, before.mean),
            "at the end": last.max / max(1.0, last.mean),
            "plans": len(run.plans),
            "migrations": run.totals.migrations,
        },
        (
            Check("half of the cov at the end", last.cov <= before.cov / 2),
            Check("a maximal load nearer to the mean", last.max / last.mean < before.max / before.mean),
        ),
    )


def _sample_at(run: Run, time_s: float) -> Sample:
    """The last one that was taken by then."""
    return [one for one in run.samples if one.time_s <= time_s][-1]


CLAIMS: tuple[Claim, ...] = (another_broker, evens)


def find_all(run: Run) -> list[Finding]:
    return [one.find({NAME: run}) for one in CLAIMS]


def write_report(run: Run, command: str, folder: Path) -> list[Path]:
    findings = find_all(run)
    totals = run.totals
    pictures = {
        "cov": cov_picture("(1) cov", {NAME: run}),
        "max": max_picture("(2) maximal load", {NAME: run}),
        "migrations": migrations_picture("(3) migrations", {NAME: run}),
    }
    counts = {
        "subscribers at the end": sum(run.samples[-1].subscribers),
        "frontend subscriptions": totals.frontend_subscriptions,
        "backend subscriptions": totals.backend_subscriptions,
        "logins": totals.logins,
        "control messages": totals.control_messages,
        "deliveries": totals.deliveries,
        "migrations": totals.migrations,
        "plans": totals.plans,
    }
    table = Table("Counts", ["what", "how many"], [[what, f"{count:,}"] for what, count in counts.items()])
    figures = [PaperFigure("city", "The city over half an hour", pictures)]
    content = Report(_TITLE, (f"{tally(findings)} {_ABOUT}",), command, findings, figures, [table])
    return report.write_report(content, as_json(run, findings), folder)


def as_json(run: Run, findings: list[Finding]) -> dict[str, Any]:
    claims = [
        {"id": one.id, "claim": one.claim, "holds": one.holds, "measured": one.measured, "why": one.why}
        for one in findings
    ]
    return {**summary([run]), "claims": claims, "made_by": YOUTH.mark()}
