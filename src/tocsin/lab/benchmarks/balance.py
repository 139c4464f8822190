"""How good plans are, beside the lower bound and the paper's policies; and how long they take, at three sizes."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tocsin.balancing.assignment import AssignmentView
from tocsin.balancing.bounds import lower_bound, optimum
from tocsin.balancing.load_table import LoadTable
from tocsin.balancing.migration import POLICIES as MIGRATIONS
from tocsin.balancing.proposal import Goal
from tocsin.balancing.shuffle import POLICIES as SHUFFLES
from tocsin.coordinator.load.compiling import compile_loops
from tocsin.coordinator.load.plan import Plan, make_plan, verify
from tocsin.coordinator.load.stages import Stage
from tocsin.errors import ClusterFailure
from tocsin.lab.benchmarks.balance_networks import communities, uniform, zipf
from tocsin.lab.benchmarks.measuring import progress
from tocsin.runtime.usage import peak_rss_mb

#: How even migration makes the scores before its quality is measured: as the shuffles do.
_EVEN = Goal(cov_at_most=0.02)
#: The key in the report, and the policy.
_POLICIES = {
    "gsh": "gsh",
    "ldm": "ldm",
    "sdm": "sdm",
    "group": "group",
    "sharing": "sharing",
    "sharing_extra": "sharing-hypergraph",
}
#: Each with 6,561 assignments.
_SMALL_NETWORKS = 100
NetworkMaker = Callable[..., AssignmentView]
_NETWORKS: dict[str, NetworkMaker] = {
    "zipf10": partial(zipf, subscribers=20_000, subscriptions=5_000, brokers=10, each=8),
    "communities10": partial(communities, subscribers=20_000, subscriptions=5_000, brokers=10, each=8),
    "communities40": partial(communities, subscribers=20_000, subscriptions=5_000, brokers=40, each=8),
}
#: As many as in the paper's simulation.
_PAPER = {"subscribers": 10_000, "subscriptions": 1_000, "brokers": 10, "each": 20}


def run(seed: int, largest: int) -> dict[str, Any]:
    progress.print("compiling")
    compile_loops()
    return {
        "benchmark": "balance",
        "quality": {name: _quality(name, network(seed)) for name, network in _NETWORKS.items()},
        "optimum": _optimum(seed),
        "paper": _paper(seed),
        "growth": _growth(seed, largest),
        "million": _million(seed, largest),
    }


def _quality(name: str, view: AssignmentView) -> dict[str, Any]:
    """The highest score over the lower bound, by policy; and what it takes."""
    bound = lower_bound(view)
    report: dict[str, Any] = {"before": round(LoadTable.of(view).max_score / bound, 3)}
    moves: dict[str, int] = {}
    times: dict[str, float] = {}
    for key, policy in _POLICIES.items():
        plan, took_s = _timed(policy, view, _EVEN)
        if faults := verify(view, plan):
            raise ClusterFailure(f"{policy} made a plan that can't be carried out: {faults[0]}")
        report[key], moves[key], times[key] = round(plan.gap, 3), plan.move_count, round(took_s, 3)
        progress.print(f"{name}: {policy} {report[key]}")
    return report | {"ratio_of_sharing_to_gsh": round(report["sharing"] / report["gsh"], 3), "moves": moves, "s": times}


def _optimum(seed: int) -> dict[str, float]:
    """The highest score over the true optimum, on networks small enough to try every assignment."""
    ratios: dict[str, list[float]] = {"gsh": [], "sharing": [], "lower_bound": []}
    for number in range(_SMALL_NETWORKS):
        view = uniform(seed + number, subscribers=8, subscriptions=6, brokers=3, each=2)
        best = optimum(view)
        for policy in ("gsh", "sharing"):
            ratios[policy].append(_plan(policy, view, Goal()).after.max / best)
        ratios["lower_bound"].append(lower_bound(view) / best)
    progress.print(f"optimum: {_SMALL_NETWORKS} small networks tried in full")
    report: dict[str, float] = {"networks": _SMALL_NETWORKS}
    for name, seen in ratios.items():
        report[f"{name}_mean"] = round(sum(seen) / len(seen), 3)
        report[f"{name}_worst"] = round(min(seen) if name == "lower_bound" else max(seen), 3)
    return report


def _paper(seed: int) -> dict[str, float]:
    """Seconds for each policy to plan."""
    view = uniform(seed, **_PAPER)
    return {f"{key}_s": _time(policy, view) for key, policy in _POLICIES.items()}


def _growth(seed: int, largest: int) -> list[dict[str, float]]:
    """Ten times the subscribers each time, with 20 subscriptions each: it should take about ten times as long."""
    rows = []
    size = 10_000
    while size < largest:
        view = uniform(seed, size, max(10, size // 10), brokers=100, each=20)
        rows.append({"subscribers": size, "gsh_s": _time("gsh", view), "sharing_s": _time("sharing", view)})
        progress.print(f"growth: {rows[-1]}")
        size *= 10
    return rows


def _million(seed: int, largest: int) -> dict[str, float]:
    progress.print(f"drawing {largest:,} subscribers")
    view = uniform(seed, largest, max(10, largest // 10), brokers=100, each=20)
    report: dict[str, float] = {"subscribers": largest, "holds": len(view.holds)}
    for policy in ("gsh", "sharing"):
        plan, took_s = _timed(policy, view, Goal())
        report[f"{policy}_s"], report[policy] = round(took_s, 2), round(plan.gap, 3)
        progress.print(f"{largest:,} subscribers: {policy} {report[f'{policy}_s']} s")
    return report | {"peak_rss_mb": peak_rss_mb()}


def _time(policy: str, view: AssignmentView) -> float:
    return round(_timed(policy, view, _EVEN)[1], 3)


def _timed(policy: str, view: AssignmentView, goal: Goal) -> tuple[Plan, float]:
    begin = time.perf_counter()
    plan = _plan(policy, view, goal)
    return plan, time.perf_counter() - begin


def _plan(policy: str, view: AssignmentView, goal: Goal) -> Plan:
    """Everything that comes with a plan is part of the time: loads before and after, and the lower bound."""
    if policy in SHUFFLES:
        return make_plan(view, Stage.SHUFFLE, policy, SHUFFLES[policy](view, goal))
    return make_plan(view, Stage.MIGRATION, policy, MIGRATIONS[policy](view, goal))
