"""Builds the services behind the page."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from tocsin.coordinator.node import CoordinatorNode
from tocsin.dashboard.cluster_watch import ClusterWatch
from tocsin.dashboard.locations import Locations
from tocsin.dashboard.recorder import Recorder
from tocsin.dashboard.roads import read_roads
from tocsin.dashboard.trial import Trials
from tocsin.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Services:
    recorder: Recorder
    locations: Locations
    trials: Trials
    #: None if the coordinator's settings name no cluster.
    cluster: ClusterWatch | None
    #: The roads as JSON; empty if there are none.
    roads: bytes

    @staticmethod
    def of(node: CoordinatorNode) -> Services:
        settings = node.settings
        cluster = (
            ClusterWatch(settings.cluster_url, settings.cluster_token, node.clock) if settings.cluster_url else None
        )
        roads = _roads(settings.map_roads) if settings.map_roads else b""
        return Services(Recorder(node), Locations(node), Trials(node), cluster, roads)


def _roads(file: str) -> bytes:
    try:
        return msgspec.json.encode(read_roads(Path(file).read_text()))
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"setting map_roads: {file} can't be read: {exc}") from exc
    except InvalidValue as exc:
        raise InvalidValue(f"setting map_roads: {file}: {exc}") from exc
