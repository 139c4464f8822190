"""Runs made by hand: what a simulation would have left behind, without simulating anything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tocsin.simulator.timeline import PlanRecord, Run, Sample, Totals

NO_TOTALS = Totals(
    control_messages=0,
    placements=0,
    logins=0,
    logouts=0,
    subscribes=0,
    unsubscribes=0,
    frontend_subscriptions=0,
    backend_subscriptions=0,
    deliveries=0,
    out_bytes=0.0,
    in_bytes=0.0,
    migrations=0,
    plans=0,
    failures=0,
)


def made_plan(time_s: float = 60.0, *, stage: str = "migration", policy: str = "ldm", moves: int = 5) -> PlanRecord:
    return PlanRecord(
        time_s=time_s,
        stage=stage,
        policy=policy,
        reason="cov 0.400 is above 0.15 for 3 looks",
        moves=moves,
        cov_before=0.4,
        cov_after=0.1,
        max_before=9e6,
        max_after=5e6,
        gap=1.02,
    )


def made_run(
    loads: Sequence[Sequence[float]],
    *,
    label: str = "made by hand",
    step_s: float = 60.0,
    subscribers: Sequence[int] | None = None,
    plans: Sequence[PlanRecord] = (),
    totals: Totals = NO_TOTALS,
    placement: str = "nearest",
    migration: str = "",
    shuffle: str = "",
    alpha: float = 0.15,
    beta: float = 0.0,
) -> Run:
    """A run with `loads`, in bytes per second: one row for each sample, one column for each broker. What plans moved
    has moved by the next sample."""
    brokers = len(loads[0])
    samples = tuple(
        Sample(
            time_s=number * step_s,
            subscribers=tuple(subscribers or [10] * brokers),
            loads_bytes_per_s=tuple(row),
            scores=tuple(row),
            in_bytes=tuple(one * step_s / 3 for one in row),
            out_bytes=tuple(one * step_s * 2 / 3 for one in row),
            deliveries=(7,) * brokers,
            migrations=sum(plan.moves for plan in plans if plan.time_s < number * step_s),
        )
        for number, row in enumerate(loads)
    )
    return Run(
        scenario="made",
        label=label,
        seed=0,
        duration_s=samples[-1].time_s,
        placement=placement,
        migration=migration,
        shuffle=shuffle,
        alpha=alpha,
        beta=beta,
        gamma=0.5,
        theta=0.0,
        brokers=tuple(f"broker-{number}" for number in range(brokers)),
        capacities=(1.0,) * brokers,
        samples=samples,
        plans=tuple(plans),
        totals=replace(totals, migrations=sum(plan.moves for plan in plans), plans=len(plans)),
    )
