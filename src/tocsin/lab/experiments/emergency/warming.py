"""Before the city's clock begins: reports and locations flow until the channels keep their periods.

A JVM that has just started interprets what it will soon have compiled, so the first runs of channels take ten times as
long as all others. They say nothing about the city, nor about how many times faster than life the machine can run it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tocsin.client import AsyncPublisher, ClusterClient
from tocsin.lab.experiments.emergency.network import LOCATIONS_FEED
from tocsin.lab.experiments.emergency.people import LOCATIONS_EVERY_S
from tocsin.lab.experiments.emergency.publishing import Publishers
from tocsin.lab.experiments.emergency.tally import Tally
from tocsin.lab.experiments.emergency.workload import Record

#: So often in a row has every channel to keep its period.
STEADY_RUNS = 4
_LOOK_EVERY_S = 0.5


class Steadiness:
    """Whether every channel has kept its period several times in a row.

    >>> steadiness = Steadiness()
    >>> steadiness.look([{"name": "C", "runs": 1, "overruns": 1}])
    False
    >>> steadiness.look([{"name": "C", "runs": 1 + STEADY_RUNS, "overruns": 1}])
    True
    """

    def __init__(self) -> None:
        #: By channel: its runs when it was first seen to have so many overruns.
        self._since: dict[str, tuple[int, int]] = {}

    def look(self, channels: Sequence[Mapping[str, Any]]) -> bool:
        for one in channels:
            known = self._since.get(one["name"])
            if known is None or known[1] != one["overruns"]:
                self._since[one["name"]] = (one["runs"], one["overruns"])
        return all(one["runs"] - self._since[one["name"]][0] >= STEADY_RUNS for one in channels)


async def warm_up(
    cluster_url: str, reports: Iterator[Record], reports_per_s: float, locations: Sequence[Record], most_s: float
) -> bool:
    """Returns when all channels are steady, or after `most_s`; tells whether they are."""
    begun_s = time.monotonic()
    is_over = False

    def due() -> int | None:
        return None if is_over else int((time.monotonic() - begun_s) * reports_per_s)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(Publishers(cluster_url, reports, Tally()).run(due))
        telling = tasks.create_task(_tell(cluster_url, locations))
        is_steady = await _steady(cluster_url, begun_s + most_s)
        is_over = True
        telling.cancel()
    return is_steady


async def _steady(cluster_url: str, until_s: float) -> bool:
    steadiness = Steadiness()
    with ClusterClient(cluster_url) as client:
        while time.monotonic() < until_s:
            if steadiness.look((await asyncio.to_thread(client.status))["channels"]):
                return True
            await asyncio.sleep(_LOOK_EVERY_S)
    return False


async def _tell(cluster_url: str, locations: Sequence[Record]) -> None:
    async with AsyncPublisher(cluster_url, LOCATIONS_FEED) as publisher:
        while True:
            await publisher.publish_all(locations, wait_commit=True)
            await asyncio.sleep(LOCATIONS_EVERY_S)
