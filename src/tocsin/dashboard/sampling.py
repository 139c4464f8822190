"""How the network stands now, for the page and for its history. Looks at the coordinator and changes nothing."""

from __future__ import annotations

from typing import Any

from tocsin.coordinator.deliveries import Deliveries
from tocsin.coordinator.execution import PlanRun
from tocsin.coordinator.node import CoordinatorNode
from tocsin.coordinator.state import BrokerReport
from tocsin.dashboard.history import OVERALL, PER_BROKER, Sample

#: Latencies are those of the last seconds: long enough to have some, short enough to see a change. Catching up is
#: rarer, so that the cache is judged by a minute.
_LATENCIES_WITHIN_S = 10
_CACHE_WITHIN_S = 60


def look(node: CoordinatorNode) -> dict[str, Any]:
    """Everything that changes by itself, for one page."""
    now_s, state = node.now_s(), node.state
    balance, measured = state.balance(), state.measured()
    is_there = bool(balance.brokers)
    deliveries = state.deliveries(now_s, _LATENCIES_WITHIN_S)
    return {
        "at_s": node.clock.now_us() / 1e6,
        "overall": {
            "cov": balance.cov if is_there else None,
            "measured_cov": measured.cov if is_there else None,
            "max": balance.max if is_there else None,
            "mean": balance.mean if is_there else None,
            **_times(deliveries),
            "hit_rate": state.deliveries(now_s, _CACHE_WITHIN_S).cache_hit_rate,
            "rate": deliveries.notifications / _LATENCIES_WITHIN_S,
            "subscribers": state.subscriber_count,
        },
        "brokers": [_broker(one) for one in state.brokers(now_s)],
        "balancing": node.balancer.settings.listed(),
        "verdict": node.balancer.verdict,
        "under_way": state.execution.under_way,
        "runs": [_run(one) for one in state.execution.runs],
        "placement": state.policy,
        "mass_silence": state.mass_silence,
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
        "place": record.place,
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
