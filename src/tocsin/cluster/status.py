"""The state of a cluster, for people and probes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from tocsin import __version__
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.cluster import Cluster, ClusterState
from tocsin.runtime.usage import usage


def status_of(cluster: Cluster) -> dict[str, Any]:
    used = usage()
    status: dict[str, Any] = {
        "state": cluster.state,
        "version": __version__,
        "failure": cluster.failure,
        "landing": {
            "end": cluster.intake.landing.end,
            "ingested": cluster.intake.ingested_position,
            "pending_bytes": cluster.intake.pending_bytes,
        },
        "results": {
            "last_sequence": cluster.results.last_sequence,
            "earliest_sequence": cluster.results.earliest_sequence,
            "commits": cluster.results.table.sequence,
            "keys": len(cluster.results.keys),
        },
        "datasets": [
            {"name": one.dataset.name, "kind": one.dataset.kind, "commits": one.sequence} for one in cluster.store
        ],
        "feeds": [
            {
                "name": one.name,
                "dataset": one.dataset,
                "source": one.source,
                "accepted": cluster.metrics.records_so_far(one.name, "accepted"),
                "rejected": cluster.metrics.records_so_far(one.name, "rejected"),
            }
            for one in cluster.catalogue.feeds.values()
        ],
        "channels": [],
        "memory": {"driver_rss": used.own_bytes, "children_rss": used.children_bytes},
    }
    if cluster.state is ClusterState.READY:
        failed = cluster.registry.failed_counts()
        status["channels"] = [
            {"name": state.channel.name} | definition_of(state) | condition_of(cluster, state, failed)
            for state in cluster.executor.states.values()
        ]
    return status


def definition_of(state: ChannelState) -> dict[str, Any]:
    """What a channel is, and whether it is to run."""
    return {
        "kind": state.channel.kind,
        "period_s": state.channel.period_s,
        "once": None if state.channel.once is None else str(state.channel.once),
        "snapshot": state.channel.snapshot,
        "retention_s": state.channel.retention_s,
        "is_paused": state.is_paused,
        "pause_reason": state.pause_reason,
    }


def condition_of(cluster: Cluster, state: ChannelState, failed: Mapping[str, int]) -> dict[str, Any]:
    """How a channel's runs go; `failed` counts failed subscriptions by channel."""
    counted = ("rows_set_aside", "runs", "known_rows", "overruns", "last_run_s", "last_results", "last_error")
    total, last_hour = map(asdict, cluster.executor.costs.so_far(state))
    return {
        "window_lag_commits": cluster.executor.window(state).lag_commits,
        "subscriptions": len(state.subscriptions),
        "failed_subscriptions": failed.get(state.channel.name, 0),
        **{name: getattr(state, name) for name in counted},
        **total,
        **{f"last_hour_{name}": value for name, value in last_hour.items()},
    }
