"""A whole Tocsin of its own for the city: cluster, coordinator and brokers, each a process on loopback."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tocsin.client import ClusterClient
from tocsin.client.shell.http import ServerError
from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.workload import Record
from tocsin.testing.processes import ClusterProcess, ServerProcess, running_broker, running_cluster, running_coordinator

#: A cluster is ready within 20 s on two cores; a busy machine gets more than four times that.
_READY_TIMEOUT_S = 90.0
LOCATIONS_FEED = "locations"


class RunFailed(Exception):
    """Something did not do what was asked of it."""


@dataclass(frozen=True, slots=True)
class CityNetwork:
    cluster: ClusterProcess
    coordinator: ServerProcess
    brokers: Mapping[str, ServerProcess]

    async def register(self, users: Sequence[str]) -> dict[str, str]:
        """Their tokens. An operator vouches for them: four hundred passwords would take a minute to hash."""
        tokens = {}
        async with httpx.AsyncClient(base_url=self.coordinator.url, timeout=30, trust_env=False) as http:
            for user in users:
                answer = await http.post("/v1/users", json={"name": user})
                answer.raise_for_status()
                tokens[user] = str(answer.json()["token"])
        return tokens


@asynccontextmanager
async def running_network(
    folder: Path, city: City, brokers: int, coordinator_settings: Mapping[str, Any], say: Callable[[str], None]
) -> AsyncIterator[CityNetwork]:
    """Everything started and ready to serve; stopped and gone at the end."""
    say(f"starting a cluster, a coordinator and {brokers} brokers")
    async with AsyncExitStack() as stack:
        cluster = stack.enter_context(running_cluster(folder / "cluster"))
        settings = {**coordinator_settings, **_dashboard_settings(folder, city, cluster)}
        coordinator = stack.enter_context(running_coordinator(folder / "coordinator", settings))

        async def start(name: str, location: str) -> ServerProcess:
            told = {"location": location, "locations_feed": LOCATIONS_FEED, "drain_timeout_s": 10}
            return await _entered(stack, running_broker(name, folder / name, cluster.url, coordinator.url, told))

        # Brokers wait for the cluster by themselves, so all can start at once.
        locations = broker_locations(city, brokers)
        running = await asyncio.gather(*(start(name, location) for name, location in locations.items()))
        await asyncio.to_thread(_wait_ready, cluster)
        yield CityNetwork(cluster, coordinator, dict(zip(locations, running, strict=True)))


async def _entered(stack: AsyncExitStack, starting: AbstractContextManager[ServerProcess]) -> ServerProcess:
    """Entered in a thread, to be left with `stack`: also when we are told to stop meanwhile, for it may have begun."""
    # No task: who ends a loop cancels its tasks, and a thread goes on all the same.
    entering = asyncio.get_running_loop().run_in_executor(None, starting.__enter__)
    try:
        return await asyncio.shield(entering)
    finally:
        await asyncio.wait([entering])
        if entering.exception() is None:
            stack.push(starting)


def _dashboard_settings(folder: Path, city: City, cluster: ClusterProcess) -> dict[str, str]:
    """What the dashboard needs to show the cluster, and the city's roads."""
    roads = folder / "roads.wkt"
    roads.write_text(city.to_wkt())
    return {"cluster_url": cluster.url, "map_roads": str(roads)}


def broker_locations(city: City, count: int) -> dict[str, str]:
    """Spread over the city, row by row, so that each has a part that it is nearest to.

    >>> broker_locations(City.generate(1), 2)
    {'broker-1': '2500,4000', 'broker-2': '7500,4000'}
    """
    rows = max(1, round((count * city.height_m / city.width_m) ** 0.5))
    locations = []
    for row in range(rows):
        in_row = count // rows + (row < count % rows)
        y = city.height_m * (row + 0.5) / rows
        locations += [f"{city.width_m * (column + 0.5) / in_row:.0f},{y:.0f}" for column in range(in_row)]
    return {f"broker-{number}": location for number, location in enumerate(locations, 1)}


def prepare(network: CityNetwork, statements: str, shelters: Sequence[Record], locations: Sequence[Record]) -> None:
    """The application's datasets, feeds and channels, its shelters, and where everybody is."""
    imports = network.cluster.log.parent / "data" / "imports"
    imports.mkdir(parents=True, exist_ok=True)
    with (imports / "shelters.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(shelters[0]))
        writer.writeheader()
        writer.writerows(shelters)
    with network.cluster.client() as client:
        client.sql(statements)
        client.sql("LOAD DATASET Shelters FROM 'shelters.csv'")
        client.publish(LOCATIONS_FEED, locations, wait_commit=True)


def _wait_ready(cluster: ClusterProcess) -> None:
    with ClusterClient(cluster.url) as client:
        try:
            client.wait_ready(_READY_TIMEOUT_S)
        except (TimeoutError, ServerError, httpx.HTTPError) as exc:
            lines = cluster.log.read_text(errors="replace").splitlines()[-20:]
            raise RunFailed("the cluster was not ready: " + "\n".join([str(exc), *lines])) from exc
