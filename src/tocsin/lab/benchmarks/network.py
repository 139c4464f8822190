"""A whole network for benchmarks: cluster, coordinator and brokers, each a real process, and a user of theirs."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from tocsin.protocol.subscribers import Placement
from tocsin.testing.processes import (
    ClusterProcess,
    ServerProcess,
    running_broker,
    running_cluster,
    running_coordinator,
)

#: All subscribers are devices of one user, so that the limits that keep one user from taking too much are in the way.
BROKER_SETTINGS = {
    "max_connections_per_user": 1_000_000,
    "max_subscriptions_per_user": 1_000_000,
    "max_sessions_per_user": 1_000_000,
    "max_connections": 100_000,
    "max_strangers": 100_000,
    "max_strangers_per_address": 100_000,
}
_USER = "bench"


@dataclass(frozen=True, slots=True)
class RunningNetwork:
    cluster: ClusterProcess
    coordinator: ServerProcess
    brokers: Mapping[str, ServerProcess]
    token: str

    def place(
        self, devices: Sequence[str], at: Mapping[str, tuple[float, float]] | None = None
    ) -> dict[str, list[str]]:
        """The devices by the broker that the coordinator places each at, being where they are."""
        headers = {"Authorization": f"Bearer {self.token}"}
        by_broker: dict[str, list[str]] = {}
        with httpx.Client(base_url=self.coordinator.url, headers=headers) as http:
            for device in devices:
                where = {} if at is None else {"location": at[device]}
                response = http.post("/v1/placements", json={"device": device, **where})
                response.raise_for_status()
                placement = msgspec.json.decode(response.content, type=Placement)
                known = self.brokers[placement.broker]
                if urlsplit(placement.url).port != known.port:
                    raise RuntimeError(f"{device} was sent to {placement.url}; {placement.broker} is at {known.url}")
                by_broker.setdefault(placement.broker, []).append(device)
        return by_broker

    @contextmanager
    def running_broker(self, name: str, folder: Path) -> Iterator[ServerProcess]:
        """One more broker, beside those that the network has."""
        with running_broker(name, folder / name, self.cluster.url, self.coordinator.url, BROKER_SETTINGS) as server:
            yield server


@contextmanager
def running_network(
    folder: Path,
    brokers: int,
    schema: str,
    coordinator_settings: Mapping[str, Any] | None = None,
    locations: Sequence[str] = (),
) -> Iterator[RunningNetwork]:
    """Everything ready, `schema` carried out. Brokers stand at these locations, if there are any."""
    with ExitStack() as stack:
        cluster = stack.enter_context(running_cluster(folder / "cluster"))
        coordinator = stack.enter_context(running_coordinator(folder / "coordinator", coordinator_settings))
        with cluster.client() as client:
            client.wait_ready()
            client.sql(schema)
        by_name = {}
        for number in range(brokers):
            name = f"bench-{number + 1}"
            settings = BROKER_SETTINGS | ({"location": locations[number]} if locations else {})
            server = running_broker(name, folder / name, cluster.url, coordinator.url, settings)
            by_name[name] = stack.enter_context(server)
        registered = httpx.post(
            f"{coordinator.url}/v1/users", json={"name": _USER, "password": secrets.token_urlsafe()}
        )
        registered.raise_for_status()
        yield RunningNetwork(cluster, coordinator, by_name, registered.json()["token"])
