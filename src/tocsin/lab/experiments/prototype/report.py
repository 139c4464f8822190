"""The report on the live runs: the paper's figures 5 to 12, claims, and how long notifications took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tocsin.lab.experiments import report
from tocsin.lab.experiments.claim import Finding
from tocsin.lab.experiments.debs19.drawing import paper_figures
from tocsin.lab.experiments.debs19.report import PAPER_TITLE, table_of
from tocsin.lab.experiments.prototype.claims import end_cov
from tocsin.lab.experiments.prototype.measured import measured_picture
from tocsin.lab.experiments.prototype.running import LiveRun
from tocsin.lab.experiments.prototype.variants import VARIANTS, balancing_of
from tocsin.lab.experiments.report import PaperFigure, Report, Table, tally
from tocsin.lab.experiments.youth import Youth
from tocsin.simulator.figures import later_max
from tocsin.simulator.pictures import bars_picture
from tocsin.simulator.timeline_pictures import cov_picture, loads_picture, max_picture

_TITLE = "The emergency city, live"
_USED = balancing_of(next(iter(VARIANTS.values())))
_CHOSEN = (
    f"Alpha is {_USED.alpha:g} and gamma {_USED.gamma:g}; a stage is due after {_USED.hits} looks, a shuffle after"
    f" {_USED.shuffle_hits}, {_USED.every_s:g} s apart; rates are means over {_USED.rates_window_s:g} s."
    " The city has a few crowded districts, so that the skew of nearest placement is built in, not found."
    " People live, work and go on errands there, and move along its roads. Some log out for a while and come back, some"
    " exchange one subscription for another. Balancing begins after nine minutes, once everybody has subscribed."
    " What is near somebody is near nobody else, so there are more subscriptions at the cluster than the paper's 600."
)
_OURS = "prototype/nearest/group+sharing"

#: What decides in the live runs and what judges them. They take hours, so there is no probe.
YOUTH = Youth(
    (
        "balancing",
        "broker/core",
        "coordinator/load",
        "coordinator/moves",
        "lab/experiments/claim.py",
        "lab/experiments/emergency",
        "lab/experiments/prototype",
    )
)


def as_json(findings: Sequence[Finding], live: Mapping[str, LiveRun]) -> dict[str, Any]:
    first = next(iter(live.values()))
    return {
        "paper": PAPER_TITLE,
        "conditions": asdict(first.conditions),
        "claims": [asdict(finding) for finding in findings],
        "runs": {
            name: {
                "end_cov": round(end_cov(one.run), 4),
                "later_max_bytes_per_s": round(later_max(one.run)),
                "migrations": one.run.totals.migrations,
                "failed_moves": one.failed_moves,
                "overruns": one.overruns,
                "audit": one.audit.to_json(),
                "commit_to_received_s": one.commit_to_received_s,
                "movers": one.movers,
                "movers_received_s": one.movers_received_s,
                "others_received_s": one.others_received_s,
                "publish_to_received_s": one.publish_to_received_s,
            }
            for name, one in live.items()
        },
        "made_by": YOUTH.mark(),
    }


def write_report(
    findings: Sequence[Finding], live: Mapping[str, LiveRun], command: str, machine: str, folder: Path
) -> list[Path]:
    runs = {name: one.run for name, one in live.items()}
    first = next(iter(live.values()))
    scenario, totals = first.conditions.scenario, first.run.totals
    setting = (
        f"Every run is a whole system on one machine ({machine}): a Spark cluster, a coordinator, {scenario.brokers}"
        f" brokers, {scenario.people} subscribers and eight publishers, over the public APIs, for"
        f" {scenario.duration_s / 60:g} minutes at {first.conditions.speed_up:g} times the speed of life."
        f" {totals.frontend_subscriptions:,} subscriptions share {totals.backend_subscriptions:,} at the cluster;"
        f" {first.published:,} reports were published. Times and loads are by the city's clock, which begins once the"
        " channels keep their periods: a JVM that has just started does not."
    )
    paper = f"{PAPER_TITLE}, section 6.1: its prototype, on real processes of ours."
    about = (paper, f"{tally(findings)} {setting}", _CHOSEN)
    figures = [*paper_figures(runs), *_measured_figures(live), *_latency_figures(live), *_our_figures(live)]
    tables = [table_of([runs]), _latency_table(live), _audit_table(live)]
    content = Report(_TITLE, about, command, findings, figures, tables)
    return report.write_report(content, as_json(findings, live), folder)


def _measured_figures(live: Mapping[str, LiveRun]) -> list[PaperFigure]:
    """The same as figures 8 and 9, in bytes that were counted."""
    nearest = {name.removeprefix("prototype/nearest/"): one for name, one in live.items() if "/nearest/" in name}
    pictures = {
        f"measured-{number}": measured_picture(f"({number}) NR, {policy.replace('+', ' + ')}", one.run)
        for number, (policy, one) in enumerate(nearest.items(), 1)
    }
    return [PaperFigure("measured", "What each broker fetched and sent, counted", pictures)] if pictures else []


def _our_figures(live: Mapping[str, LiveRun]) -> list[PaperFigure]:
    named = {"no balancing": "prototype/nearest/off", "LDM": "prototype/nearest/ldm", "group + sharing": _OURS}
    if any(name not in live for name in named.values()):
        return []
    picked = {label: live[name].run for label, name in named.items()}
    pictures = {
        "ours-loads": loads_picture("(1) NR, group + sharing", live[_OURS].run),
        "ours-cov": cov_picture("(2) cov", picked),
        "ours-max": max_picture("(3) maximal load", picked),
    }
    return [PaperFigure("ours", "Group migration and the sharing-aware shuffle, live", pictures)]


def _latency_figures(live: Mapping[str, LiveRun]) -> list[PaperFigure]:
    pictures = {}
    nearest = {name.removeprefix("prototype/nearest/"): one for name, one in live.items() if "/nearest/" in name}
    delivery = {
        label: {quantile: one.commit_to_received_s[quantile] for quantile in ("p50", "p95", "p99")}
        for label, one in nearest.items()
        if one.commit_to_received_s
    }
    if delivery:
        pictures["latency-delivery"] = bars_picture("(1) from commit to subscriber, NR", delivery, "seconds")
    if nearest:
        label, one = next(iter(nearest.items()))
        channels = {
            name.removeprefix("Emergencies"): {quantile: delays[quantile] for quantile in ("p50", "p95")}
            for name, delays in one.publish_to_received_s.items()
            if delays is not None
        }
        short = {f"({number})": bars for number, bars in enumerate(channels.values(), 1)}
        pictures["latency-channels"] = bars_picture(
            f"(2) from publisher to subscriber, by channel, {label}", short, "seconds"
        )
    return [PaperFigure("latency", "How long notifications take", pictures)] if pictures else []


def _latency_table(live: Mapping[str, LiveRun]) -> Table:
    """In seconds of ours; a channel's period, shortened by the speed-up, is most of it."""
    channels = list(next(iter(live.values())).publish_to_received_s)
    columns = ["run", "commit to subscriber p50 / p99, s"]
    columns += [f"{channel.removeprefix('Emergencies')} p50 / p99, s" for channel in channels]
    rows = [
        [
            name,
            _text(one.commit_to_received_s),
            *(_text(one.publish_to_received_s[channel]) for channel in channels),
        ]
        for name, one in live.items()
    ]
    return Table("From publisher to subscriber, in seconds of our clock", columns, rows)


def _audit_table(live: Mapping[str, LiveRun]) -> Table:
    columns = ["run", "expected", "lost", "doubled", "reordered", "misdelivered", "ended", "overruns", "failed moves"]
    rows = [
        [name, *(f"{count:,}" for count in (*one.audit.to_json().values(), one.overruns, one.failed_moves))]
        for name, one in live.items()
    ]
    return Table("What everybody was handed, against the cluster's results", columns, rows)


def _text(delays: dict[str, float] | None) -> str:
    return "–" if delays is None else f"{delays['p50']:.2f} / {delays['p99']:.2f}"
