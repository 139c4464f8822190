"""The publishers: one for each type of emergency, who get about the city and report what they come by."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

from tocsin.client import AsyncPublisher
from tocsin.lab.experiments.emergency.tally import Tally
from tocsin.lab.experiments.emergency.workload import EMERGENCY_TYPES, Record

#: Reports that have come due are sent this often, each publisher's in a request of its own.
_TICK_S = 0.5
#: Requests that may be under way: with more, publishers wait, as they would in life.
_MOST_UNDER_WAY = 64


class Publishers:
    def __init__(self, cluster_url: str, reports: Iterator[Record], tally: Tally) -> None:
        self._cluster_url = cluster_url
        self._reports = reports
        self._tally = tally
        self._room = asyncio.Semaphore(_MOST_UNDER_WAY)

    async def run(self, due: Callable[[], int | None]) -> None:
        """Publish until `due`, which counts all reports that should have been sent by now, says None."""
        async with AsyncExitStack() as stack, asyncio.TaskGroup() as requests:
            publishers = {
                etype: await stack.enter_async_context(AsyncPublisher(self._cluster_url, "reports"))
                for etype in EMERGENCY_TYPES
            }
            sent = 0
            while (wanted := due()) is not None:
                batches: dict[str, list[Record]] = defaultdict(list)
                for _ in range(wanted - sent):
                    report = next(self._reports)
                    batches[report["etype"]].append(report)
                sent = max(sent, wanted)
                for etype, batch in batches.items():
                    await self._room.acquire()
                    requests.create_task(self._publish(publishers[etype], batch))
                await asyncio.sleep(_TICK_S)

    async def _publish(self, publisher: AsyncPublisher, batch: list[Record]) -> None:
        now = time.monotonic()
        self._tally.sent_at.update({report["id"]: now for report in batch})
        self._tally.published += len(batch)
        try:
            receipt = await publisher.publish_all(batch, wait_commit=True)
        finally:
            self._room.release()
        self._tally.accepted += receipt["accepted"]
        self._tally.rejected += receipt["rejected"]
