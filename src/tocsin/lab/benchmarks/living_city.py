"""A living city in the simulator: the paper's rule beside ours, in the same cities.

People walk and drive, all subscriptions are near somebody, so that their rates are bursts. The load of brokers is
counted, not modelled: both rules estimate rates in their own way, and either would judge itself by its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean
from typing import Any

from tocsin.lab.benchmarks.measuring import progress
from tocsin.simulator.figures import carried_cov, carried_max, moves_per_person_hour, promise_kept
from tocsin.simulator.reading import load
from tocsin.simulator.timeline import Run
from tocsin.simulator.world import simulate

#: `alpha` and `least_worth` were chosen by runs with the seeds 1 to 5; those from 11 to 15 were looked at on the way.
#: These were not.
REPORTED_SEEDS = tuple(range(21, 31))
#: Everybody has come by then, has subscribed, and has been part of several windows.
_SINCE_S = 900.0
#: As in the preset `paper`: a plan whenever cov is above alpha, by the averages of the last window.
PAPERS_RULE: Mapping[str, str] = {
    "balancing.rule": "plain",
    "balancing.rates": "window",
    "balancing.migration": "ldm",
    "balancing.shuffle": "gsh",
    "balancing.alpha": "0.15",
    "balancing.hits": "1",
    "balancing.shuffle_hits": "1",
    "balancing.settle_s": "0",
    "balancing.rest_s": "0",
    "balancing.idle_below": "0",
    "balancing.every_s": "30",
}


def run(seeds: tuple[int, ...] = REPORTED_SEEDS, changes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Figures are means over the seeds. Those of ours are at the top, those of the paper's rule below `paper`."""
    variants: dict[str, Mapping[str, str]] = {"ours": {}, "paper": PAPERS_RULE}
    figures: dict[str, list[dict[str, Any]]] = {name: [] for name in variants}
    people = brokers = 0
    for seed in seeds:
        for name, settings in variants.items():
            scenario = load("living-city", {**(changes or {}), **settings})
            people, brokers = scenario.subscribers.count, len(scenario.broker_names)
            found = _figures(simulate(scenario, seed=seed))
            figures[name].append(found)
            progress.print(f"seed {seed}, {name}: cov {found['cov']:.3f}, {found['moves_per_person_hour']:.3f} moves")
    ours, paper = (_summed(found) for found in figures.values())
    return {
        "people": people,
        "brokers": brokers,
        "seeds": list(seeds),
        **ours,
        "paper": paper,
        "moves_ratio_to_paper": _ratio(ours["moves_per_person_hour"], paper["moves_per_person_hour"]),
        "max_load_ratio_to_paper": _ratio(ours["max_load"], paper["max_load"]),
        "by_seed": {
            str(seed): {name: _rounded(found[at]) for name, found in figures.items()} for at, seed in enumerate(seeds)
        },
    }


def _figures(run: Run) -> dict[str, Any]:
    kept = promise_kept(run, _SINCE_S)
    return {
        "cov": carried_cov(run, _SINCE_S),
        "max_load": carried_max(run, _SINCE_S),
        "moves_per_person_hour": moves_per_person_hour(run, _SINCE_S),
        "moves_while_arriving": max(one.migrations for one in run.samples if one.time_s <= _SINCE_S),
        "plans": kept["plans"],
        "promised_cov": kept["promised_cov"],
        "kept_cov": kept["kept_cov"],
    }


def _rounded(figures: dict[str, Any]) -> dict[str, Any]:
    return {key: value if value is None else round(value, 4) for key, value in figures.items()}


def _summed(found: list[dict[str, Any]]) -> dict[str, Any]:
    def mean(name: str) -> float | None:
        """Of those that there are: a run without plans keeps no promise."""
        known = [one[name] for one in found if one[name] is not None]
        return round(fmean(known), 4) if known else None

    return {
        "cov_mean": mean("cov"),
        "max_load": mean("max_load"),
        "moves_per_person_hour": mean("moves_per_person_hour"),
        "moves_while_arriving": mean("moves_while_arriving"),
        "plans": mean("plans"),
        "promise_kept": {"promised_cov": mean("promised_cov"), "kept_cov": mean("kept_cov")},
    }


def _ratio(one: float | None, other: float | None) -> float | None:
    return round(one / other, 4) if one is not None and other else None
