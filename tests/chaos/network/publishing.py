"""Publishers of the network's run: each request has an idempotency key and is tried until its outcome is known."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import httpx

from chaos.network.history import History, Published
from chaos.network.workload import Author
from chaos.process import ClusterProcess
from tocsin.client import ClusterClient, ServerError

_REQUEST_TIMEOUT_S = 30.0
#: Longer than any recovery; what is not known by then stays unknown.
_TRY_FOR_S = 180.0


class Publisher:
    def __init__(self, history: History, cluster: ClusterProcess, author: Author, name: str, pause_s: float) -> None:
        self._history = history
        self._cluster = cluster
        self._author = author
        self._chance = random.Random(name)
        self._pause_s = pause_s
        self._client = ClusterClient(cluster.url, timeout_s=_REQUEST_TIMEOUT_S)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def join(self) -> None:
        self._thread.join(_TRY_FOR_S + 2 * _REQUEST_TIMEOUT_S)
        self.close()

    def close(self) -> None:
        if not self._thread.is_alive():
            self._client.close()

    def _run(self) -> None:
        while not self._stopping.wait(self._chance.expovariate(1 / self._pause_s)):
            if self._cluster.up.wait(1.0):
                self.deliver(*self._author.next_records())

    def deliver(self, name: str, records: list[dict[str, Any]]) -> bool:
        """Whether they were acknowledged; if not, it is not known what became of them."""
        begun_s = time.monotonic()
        published = [Published(one["id"], one["topic"], one["amount"], begun_s) for one in records]
        # Before it is sent: somebody may be handed it before we are told.
        self._history.published.update((one.id, one) for one in published)
        while time.monotonic() < begun_s + _TRY_FOR_S:
            try:
                self._client.publish("events", records, key=name)
            except (httpx.TransportError, ServerError):
                self._cluster.up.wait(1.0)
                time.sleep(0.1)  # A busy or starting cluster is not asked in a tight loop.
                continue
            for one in published:
                one.is_acknowledged = True
            return True
        return False
