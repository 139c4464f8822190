"""The paper's figures, of our runs: the same kinds of pictures under the same numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tocsin.lab.experiments.claim import Runs
from tocsin.lab.experiments.debs19.variants import (
    ALPHAS,
    BETAS_MB,
    COMMUNITIES,
    PAPER,
    PROTOTYPE,
    alpha_name,
    beta_name,
)
from tocsin.lab.experiments.report import PaperFigure
from tocsin.simulator.figures import later_cov, later_max, later_total_bytes_per_s
from tocsin.simulator.pictures import Line, bars_picture, byte_unit, lines_picture
from tocsin.simulator.timeline import Run
from tocsin.simulator.timeline_pictures import (
    cov_picture,
    loads_picture,
    max_picture,
    migrations_picture,
    subscribers_picture,
)

_SHORT = {"random": "RND", "round-robin": "RR", "nearest": "NR"}


def paper_figures(runs: Runs) -> list[PaperFigure]:
    """Those whose runs are all there."""
    drawn = [
        _loads("5", "random placement, with migration", "random", ("off", "ldm", "sdm"), runs),
        _bars("6", "random placement, with migration", "random", ("off", "ldm", "sdm"), runs),
        _loads("7", "round robin placement, with migration", "round-robin", ("off", "ldm", "sdm"), runs),
        _loads("8", "nearest placement, with migration", "nearest", ("off", "ldm", "sdm"), runs),
        _loads("9", "nearest placement, with a shuffle", "nearest", ("ldm+gsh", "sdm+gsh"), runs),
        _lines("10", "nearest placement, with migration", "nearest", ("off", "ldm", "sdm"), runs),
        _lines("11", "nearest placement, with a shuffle", "nearest", ("off", "ldm", "ldm+gsh", "sdm+gsh"), runs),
        _migrations_by_placement(runs),
        _skew(runs),
        _sensitivity(runs),
        _ours(runs),
    ]
    return [figure for figure in drawn if figure is not None]


def _picked(
    runs: Runs, preset: str, placement: str, policies: Sequence[str], differs: str = ""
) -> dict[str, Run] | None:
    """Runs by how they are told apart in a picture; None if one is not there."""
    names = {policy: f"{preset}/{placement}/{policy}{differs}" for policy in policies}
    if any(name not in runs for name in names.values()):
        return None
    return {policy.replace("+", " + "): runs[name] for policy, name in names.items()}


def _loads(number: str, when: str, placement: str, policies: Sequence[str], runs: Runs) -> PaperFigure | None:
    picked = _picked(runs, PROTOTYPE, placement, policies)
    if picked is None:
        return None
    pictures = {
        f"figure-{number}-{nth}": loads_picture(f"({nth}) {_SHORT[placement]}, {name}", run)
        for nth, (name, run) in enumerate(picked.items(), 1)
    }
    return PaperFigure(number, f"Load of each broker: {when}", pictures)


def _bars(number: str, when: str, placement: str, policies: Sequence[str], runs: Runs) -> PaperFigure | None:
    picked = _picked(runs, PROTOTYPE, placement, policies)
    if picked is None:
        return None
    factor, unit = byte_unit(max(later_max(run) for run in picked.values()))
    values = {
        f"maximal load, {unit}/s": {name: {"": later_max(run) / factor} for name, run in picked.items()},
        "cov of loads": {name: {"": later_cov(run)} for name, run in picked.items()},
        "migrations": {name: {"": float(run.totals.migrations)} for name, run in picked.items()},
    }
    pictures = {
        f"figure-{number}-{nth}": bars_picture(f"({nth}) {label.split(',')[0]}", groups, label)
        for nth, (label, groups) in enumerate(values.items(), 1)
    }
    return PaperFigure(number, f"Maximal load, cov and migrations: {when}", pictures)


def _lines(number: str, when: str, placement: str, policies: Sequence[str], runs: Runs) -> PaperFigure | None:
    picked = _picked(runs, PROTOTYPE, placement, policies)
    if picked is None:
        return None
    pictures = {
        f"figure-{number}-1": max_picture("(1) maximal load", picked),
        f"figure-{number}-2": cov_picture("(2) cov", picked),
        f"figure-{number}-3": migrations_picture("(3) migrations", picked),
    }
    return PaperFigure(number, f"Maximal load, cov and migrations: {when}", pictures)


def _migrations_by_placement(runs: Runs) -> PaperFigure | None:
    pictures = {}
    for number, policy in enumerate(("ldm", "sdm"), 1):
        names = {short: f"{PROTOTYPE}/{placement}/{policy}" for placement, short in _SHORT.items()}
        if any(name not in runs for name in names.values()):
            return None
        moved = {short: {"": float(runs[name].totals.migrations)} for short, name in names.items()}
        pictures[f"figure-12-{number}"] = bars_picture(f"({number}) {policy}", moved, "migrations")
    return PaperFigure("12", "Migrations after each placement", pictures)


def _skew(runs: Runs) -> PaperFigure | None:
    picked = _picked(runs, PAPER, "nearest", ("off", "ldm", "gsh"))
    if picked is None:
        return None
    pictures = {}
    for number, (name, run) in enumerate(picked.items(), 1):
        pictures[f"figure-13-{number}-subscribers"] = subscribers_picture(f"({number}) NR, {name}: subscribers", run)
        pictures[f"figure-13-{number}-loads"] = loads_picture(f"({number}) NR, {name}: loads", run)
    return PaperFigure("13", "Subscribers and load of each broker: nearest placement, simulated", pictures)


def _sensitivity(runs: Runs) -> PaperFigure | None:
    alphas = {alpha: runs[alpha_name(alpha)] for alpha in ALPHAS if alpha_name(alpha) in runs}
    betas = {beta: runs[beta_name(beta)] for beta in BETAS_MB if beta_name(beta) in runs}
    if len(alphas) < 2 or len(betas) < 2:
        return None
    moved = "migrations"
    pictures = {
        "figure-14-1-alpha": _against(
            "(1) cov by α", "α", "cov of loads", {x: later_cov(run) for x, run in alphas.items()}
        ),
        "figure-14-2-alpha": _against(
            "(2) migrations by α", "α", moved, {x: run.totals.migrations for x, run in alphas.items()}
        ),
        "figure-14-1-beta": _against(
            "(1) cov by β", "β, MB/s", "cov of loads", {x: later_cov(run) for x, run in betas.items()}
        ),
        "figure-14-2-beta": _against(
            "(2) migrations by β", "β, MB/s", moved, {x: run.totals.migrations for x, run in betas.items()}
        ),
        "figure-14-covs": cov_picture("cov over time by α", {f"α {alpha:g}": run for alpha, run in alphas.items()}),
    }
    return PaperFigure("14", "How the thresholds act on load-based migration", pictures)


def _against(title: str, x_label: str, y_label: str, points: Mapping[float, float]) -> str:
    return lines_picture(title, [Line("", list(points), list(points.values()))], x_label, y_label)


def _ours(runs: Runs) -> PaperFigure | None:
    policies = ("ldm", "gsh", "ldm+gsh", "group", "sharing", "group+sharing")
    picked = _picked(runs, PAPER, "nearest", policies, "/a tenth")
    if picked is None:
        return None
    moved = {name: {"": float(run.totals.migrations)} for name, run in picked.items()}
    pictures = {
        "ours-1": cov_picture("(1) cov", picked),
        "ours-2": max_picture("(2) maximal load", picked),
        "ours-3": bars_picture("(3) migrations", moved, "migrations"),
    }
    totals: dict[str, dict[str, float]] = {}
    for preset, differs in ((PAPER, "/a tenth"), (PROTOTYPE, ""), (COMMUNITIES, "/a tenth")):
        found = _picked(runs, preset, "nearest", ("ldm", "group", "gsh", "sharing"), differs)
        if found is not None:
            loads = {name: later_total_bytes_per_s(run) for name, run in found.items()}
            totals[preset] = {name: load / max(1.0, loads["ldm"]) for name, load in loads.items()}
    if totals:
        pictures["ours-4"] = bars_picture("(4) load of all brokers together", totals, "of that with ldm")
    return PaperFigure("ours", "Group migration and the sharing-aware shuffle beside the paper's policies", pictures)
