"""A network for benchmarks, with one user, of whom all subscribers are devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import msgspec

from tocsin.protocol.subscribers import Placement
from tocsin.testing.network import RunningNetwork, running_network

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


def place(
    network: RunningNetwork, token: str, devices: Sequence[str], at: Mapping[str, tuple[float, float]] | None = None
) -> dict[str, list[str]]:
    """The devices by the broker that the coordinator places each at, being where they are."""
    headers = {"Authorization": f"Bearer {token}"}
    by_broker: dict[str, list[str]] = {}
    with httpx.Client(base_url=network.coordinator.url, headers=headers) as http:
        for device in devices:
            where = {} if at is None else {"location": at[device]}
            response = http.post("/v1/placements", json={"device": device, **where}).raise_for_status()
            placement = msgspec.json.decode(response.content, type=Placement)
            known = network.brokers[placement.broker]
            if urlsplit(placement.url).port != known.port:
                raise RuntimeError(f"{device} was sent to {placement.url}; {placement.broker} is at {known.url}")
            by_broker.setdefault(placement.broker, []).append(device)
    return by_broker


@contextmanager
def running_benchmark(
    folder: Path,
    brokers: int,
    schema: str,
    coordinator_settings: Mapping[str, Any] | None = None,
    locations: Sequence[str] = (),
) -> Iterator[tuple[RunningNetwork, str]]:
    """Everything ready, `schema` carried out, and the user's token. Brokers stand at `locations`, if there are any."""
    settings = {
        f"bench-{number + 1}": BROKER_SETTINGS | ({"location": locations[number]} if locations else {})
        for number in range(brokers)
    }
    with running_network(folder, coordinator=coordinator_settings, brokers=settings, schema=schema) as network:
        yield network, network.register([_USER])[_USER]
