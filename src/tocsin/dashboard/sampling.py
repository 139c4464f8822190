"""The network's current state, for the page and for its history. Reads from the coordinator and changes nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import fmean
from typing import Any

from tocsin.balancing.evenness import compared, cov_of
from tocsin.coordinator.load.deliveries import Deliveries
from tocsin.coordinator.moves.table import PlanRun
from tocsin.coordinator.node import CoordinatorNode
from tocsin.coordinator.registry.machine import BrokerReport
from tocsin.dashboard.history import OVERALL, PER_BROKER, Sample
from tocsin.protocol.coordination import BrokerState

#: Latencies are those of the last seconds: long enough to have some, short enough to see a change. Catching up is
#: rarer, so the cache's hit rate is over a minute.
_LATENCIES_WITHIN_S = 10
_CACHE_WITHIN_S = 60
#: Measured loads are means over this many samples, one each second.
_MEASURED_OVER = 10


class MeasuredLoads:
    """Measured loads come in bursts, one for each run of a channel, so their evenness is computed from means."""

    def __init__(self) -> None:
        self._recent: dict[str, deque[float]] = {}

    def add(self, seen: dict[str, Any]) -> None:
        """Call it once a second."""
        brokers = {one["name"]: one["in"] + one["out"] for one in seen["brokers"]}
        self._recent = {name: self._recent.get(name, deque(maxlen=_MEASURED_OVER)) for name in brokers}
        for name, load in brokers.items():
            self._recent[name].append(load)

    def cov(self, brokers: Iterable[dict[str, Any]]) -> float:
        """The cov of these brokers' scores, as measured."""
        present = list(brokers)
        means = [fmean(self._recent.get(one["name"]) or (one["in"] + one["out"],)) for one in present]
        scores = [mean / one["capacity"] for mean, one in zip(means, present, strict=True)]
        return cov_of(compared(scores, [one["state"] == BrokerState.ACTIVE for one in present]))


def look(node: CoordinatorNode, measured_loads: MeasuredLoads) -> dict[str, Any]:
    """Everything that changes by itself, for one page."""
    now_s, state = node.now_s(), node.state
    balance, brokers = state.balance(), [_broker(one) for one in state.brokers(now_s)]
    present = [one for one in brokers if one["name"] in balance.brokers]
    is_there = bool(present)
    deliveries = state.deliveries(now_s, _LATENCIES_WITHIN_S)
    return {
        "at_s": node.clock.now_us() / 1e6,
        "overall": {
            "cov": balance.cov if is_there else None,
            "measured_cov": measured_loads.cov(present) if is_there else None,
            "max": balance.max if is_there else None,
            "mean": balance.mean if is_there else None,
            **_times(deliveries),
            "hit_rate": state.deliveries(now_s, _CACHE_WITHIN_S).cache_hit_rate,
            "rate": deliveries.notifications / _LATENCIES_WITHIN_S,
            "subscribers": state.subscriber_count,
        },
        "brokers": brokers,
        "balancing": node.balancer.settings.listed(),
        "verdict": node.balancer.verdict,
        "under_way": state.execution.under_way,
        "chance_cov": state.outlook.chance,
        "promise_kept": node.balancer.promises.summary(),
        "moves_per_person_hour": state.moves_per_person_hour(now_s),
        "runs": [_run(one) for one in state.execution.runs],
        "placement": state.policy,
        "mass_outage": state.mass_outage,
        "audited": node.audited,
    }


def sample_of(seen: dict[str, Any]) -> Sample:
    return Sample(
        seen["at_s"],
        [seen["overall"][name] for name in OVERALL],
        {one["name"]: [one[name] for name in PER_BROKER] for one in seen["brokers"]},
    )


def _broker(report: BrokerReport) -> dict[str, Any]:
    record, traffic = report.record, report.traffic
    return {
        "name": record.name,
        "state": report.state,
        "url": record.url,
        "location": record.location,
        "capacity": record.capacity,
        "connections": traffic.connections,
        "subscribers": report.subscribers,
        "in": traffic.bytes_in_per_s,
        "out": traffic.bytes_out_per_s,
        "model_in": report.load.incoming,
        "model_out": report.load.outgoing,
        "cpu_cores": traffic.cpu_cores,
        "silent_s": round(report.silent_s, 1),
        **_times(report.deliveries),
    }


def _times(deliveries: Deliveries) -> dict[str, float | None]:
    return {
        "p50_s": deliveries.p50_s,
        "p95_s": deliveries.p95_s,
        "p99_s": deliveries.p99_s,
        "hit_rate": deliveries.cache_hit_rate,
    }


def _run(run: PlanRun) -> dict[str, Any]:
    names = ("plan", "state", "stage", "policy", "reason", "by", "moves", "done", "failed", "cancelled")
    return {name: getattr(run, name) for name in names}
