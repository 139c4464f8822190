"""A whole Tocsin of its own for the city: cluster, coordinator and brokers, each a process on loopback."""

from __future__ import annotations

import asyncio
import csv
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.workload import Record
from tocsin.testing.network import RunningNetwork, starting_network

#: A cluster is ready within 20 s on two cores; a busy machine gets more than four times that.
_READY_TIMEOUT_S = 90.0
LOCATIONS_FEED = "locations"


class RunFailed(Exception):
    """Something did not do what was asked of it."""


@asynccontextmanager
async def running_city(
    folder: Path, city: City, brokers: int, coordinator_settings: Mapping[str, Any], say: Callable[[str], None]
) -> AsyncIterator[RunningNetwork]:
    """Everything started and ready to serve; stopped and gone at the end."""
    say(f"starting a cluster, a coordinator and {brokers} brokers")
    roads = folder / "roads.wkt"
    roads.write_text(city.to_wkt())
    own = {"locations_feed": LOCATIONS_FEED, "drain_timeout_s": 10}
    with starting_network(
        folder,
        coordinator={**coordinator_settings, "map_roads": roads},
        brokers={name: {"location": location, **own} for name, location in broker_locations(city, brokers).items()},
        with_dashboard=True,
    ) as network:
        try:
            await asyncio.to_thread(network.wait_ready, _READY_TIMEOUT_S)
        except TimeoutError as exc:
            raise RunFailed(str(exc)) from exc
        yield network


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


def prepare(network: RunningNetwork, statements: str, shelters: Sequence[Record], locations: Sequence[Record]) -> None:
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
