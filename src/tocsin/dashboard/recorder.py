"""Samples the network once a second and keeps the history; answers pages with the last sample."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import structlog

from tocsin.coordinator.node import CoordinatorNode
from tocsin.dashboard.history import History
from tocsin.dashboard.sampling import MeasuredLoads, look, sample_of

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
#: Pages that ask within so short a time get the same answer, encoded once.
_FRESH_S = 0.2


class Recorder:
    def __init__(self, node: CoordinatorNode) -> None:
        self._node = node
        self.history = History()
        self._measured = MeasuredLoads()
        self._seen = b""
        self._seen_s = float("-inf")

    def now(self) -> bytes:
        """The state of the network, as JSON."""
        if self._node.now_s() - self._seen_s > _FRESH_S:
            self._look()
        return self._seen

    async def run(self) -> None:
        """Record until cancelled. A second that was missed is missing in the history too."""
        loop = asyncio.get_running_loop()
        due_s = loop.time()
        while True:
            try:
                seen = self._look()
                self._measured.add(seen)
                self.history.add(sample_of(seen))
            except Exception as exc:
                # One failed sample must not end the charts.
                log.error("the dashboard could not look at the network", exc_info=exc)
            due_s = max(due_s + _EVERY_S, loop.time())
            await asyncio.sleep(due_s - loop.time())

    def _look(self) -> dict[str, Any]:
        seen = look(self._node, self._measured)
        self._seen, self._seen_s = msgspec.json.encode(seen), self._node.now_s()
        return seen
