"""The figures of a run (pure).

At the beginning of a run everybody arrives, and policies have no influence; *later* figures are of its second half.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from tocsin.balancing.evenness import cov_of
from tocsin.simulator.timeline import PlanRecord, Run, Sample


def later_half(run: Run) -> Sequence[Sample]:
    """The samples of the second half; if there are none, the last one."""
    return [sample for sample in run.samples if sample.time_s >= run.duration_s / 2] or run.samples[-1:]


def later_cov(run: Run) -> float:
    return _mean([sample.cov for sample in later_half(run)])


def later_mean(run: Run) -> float:
    """The mean score, in bytes per second per unit of capacity."""
    return _mean([sample.mean for sample in later_half(run)])


def later_max(run: Run) -> float:
    """The mean of the samples' highest scores: one peak is no trend."""
    return _mean([sample.max for sample in later_half(run)])


def final_cov(run: Run) -> float:
    return run.samples[-1].cov if run.samples else 0.0


def final_max(run: Run) -> float:
    return run.samples[-1].max if run.samples else 0.0


def peak_max(run: Run) -> float:
    return max((sample.max for sample in run.samples), default=0.0)


def later_total_bytes_per_s(run: Run) -> float:
    """The load of all brokers together: only sharing makes it smaller."""
    return _mean([sum(sample.loads_bytes_per_s) for sample in later_half(run)])


def carried(run: Run, over_s: float = 60.0) -> list[tuple[float, list[float]]]:
    """Counted: the bytes per second that each broker fetched and delivered in the time before each sample, for its
    capacity. Unlike scores, they don't depend on how rates are estimated, so runs with different rates can be
    compared."""
    found = []
    for last, sample in enumerate(run.samples):
        part = [one for one in run.samples[: last + 1] if one.time_s > sample.time_s - over_s + 1e-9]
        if sample.time_s < over_s:
            continue
        sums = [
            sum(one.in_bytes[broker] + one.out_bytes[broker] for one in part) / over_s / capacity
            for broker, capacity in enumerate(run.capacities)
        ]
        found.append((sample.time_s, sums))
    return found


def carried_cov(run: Run, since_s: float) -> float:
    """How uneven what the brokers carried was, on average since then."""
    return _mean([cov_of(scores) for time_s, scores in carried(run) if time_s >= since_s])


def carried_max(run: Run, since_s: float) -> float:
    """What the broker that carried most carried, on average since then."""
    return _mean([max(scores) for time_s, scores in carried(run) if time_s >= since_s])


def moves_per_person_hour(run: Run, since_s: float = 0.0) -> float:
    """Plans' moves since then, for each hour that somebody was connected."""
    before = max((one.migrations for one in run.samples if one.time_s <= since_s), default=0)
    people = _mean([sum(one.subscribers) for one in run.samples if one.time_s > since_s])
    person_hours = people * (run.duration_s - since_s) / 3600
    return (run.totals.migrations - before) / person_hours if person_hours > 0 else 0.0


def promise_kept(run: Run, since_s: float = 0.0) -> dict[str, int | float | None]:
    """The means of the covs that plans promised, and of those that were counted in the minute after each."""
    plans = [one for one in run.plans if one.time_s >= since_s and one.kept_cov is not None]
    promised = [one.promised_cov for one in plans if one.promised_cov is not None]
    kept = [one.kept_cov for one in plans if one.kept_cov is not None]
    return {
        "plans": len(plans),
        "promised_cov": _mean(promised) if promised else None,
        "kept_cov": _mean(kept) if kept else None,
    }


def round_trips(run: Run) -> dict[str, float]:
    """To their brokers at the end: half of the subscribers have none longer than the first figure, 19 of 20 than the
    second."""
    found = run.round_trips_ms
    return {f"p{share}": found[min(len(found) - 1, len(found) * share // 100)] for share in (50, 95) if found}


def shuffles(run: Run) -> list[PlanRecord]:
    return [plan for plan in run.plans if plan.stage == "shuffle"]


def balanced_after_s(run: Run, since_s: float, cov: float) -> float | None:
    """How long after `since_s` the brokers were first as even as `cov`; None if they never were."""
    evens = (one.time_s - since_s for one in run.samples if one.time_s > since_s and one.cov <= cov)
    return next(evens, None)


def names_of(runs: Sequence[Run]) -> list[str]:
    """The name of each run in tables and pictures: its label, numbered if another run has the same.

    >>> from tocsin.simulator.timeline import Totals
    >>> run = Run("s", "ldm", 0, 1, "nearest", "ldm", "", 0, 0, 0, 0, (), (), (), (), Totals(*[0] * 14))
    >>> names_of([run, run])
    ['ldm', 'ldm (2)']
    """
    names: list[str] = []
    for run in runs:
        label = run.label or run.scenario
        name, number = label, 1
        while name in names:
            number += 1
            name = f"{label} ({number})"
        names.append(name)
    return names


def summary(runs: Sequence[Run]) -> dict[str, Any]:
    """Everything about runs except their timelines, as values for JSON."""
    return {"runs": [_summary_of(name, run) for name, run in zip(names_of(runs), runs, strict=True)]}


def _summary_of(name: str, run: Run) -> dict[str, Any]:
    totals = run.totals
    return {
        "name": name,
        "scenario": run.scenario,
        "seed": run.seed,
        "duration_s": run.duration_s,
        "settings": {
            "placement": run.placement,
            "migration": run.migration,
            "shuffle": run.shuffle,
            "alpha": run.alpha,
            "beta": run.beta,
            "gamma": run.gamma,
            "theta": run.theta,
        },
        "figures": {
            "final_cov": final_cov(run),
            "later_cov": later_cov(run),
            "final_max_score": final_max(run),
            "later_max_score": later_max(run),
            "peak_max_score": peak_max(run),
            "final_mean_score": run.samples[-1].mean if run.samples else 0.0,
            "later_mean_score": later_mean(run),
            "migrations": totals.migrations,
            "plans": totals.plans,
            "moves_per_person_hour": moves_per_person_hour(run),
            "promise_kept": promise_kept(run),
            **({"round_trip_ms": round_trips(run)} if run.round_trips_ms else {}),
        },
        "brokers": [
            {
                "name": broker,
                "capacity": capacity,
                "subscribers": run.samples[-1].subscribers[number] if run.samples else 0,
                "load_bytes_per_s": run.samples[-1].loads_bytes_per_s[number] if run.samples else 0.0,
            }
            for number, (broker, capacity) in enumerate(zip(run.brokers, run.capacities, strict=True))
        ],
        "plans": [asdict(plan) for plan in run.plans],
        "totals": asdict(totals),
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0
