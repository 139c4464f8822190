"""Has people moved all the time: brokers are emptied in turn and filled again, by real plans, amid the killing."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

import httpx

from tocsin.client import CoordinatorClient, ServerError

_LOOK_EVERY_S = 0.2
_EMPTY_WITHIN_S = 8.0
_FILL_WITHIN_S = 5.0


class Mover(threading.Thread):
    """What fails because something has just been killed is tried again; what has become of everybody is seen by the
    history, not here."""

    def __init__(self, url: str, brokers: Sequence[str], seed: str) -> None:
        super().__init__(name="mover", daemon=True)
        self._url = url
        self._brokers = list(brokers)
        self._chance = random.Random(f"{seed}/mover")
        self._is_over = threading.Event()
        #: The broker that people are being moved from, and one that they go to.
        self.source, self.destination = self._brokers[0], self._brokers[1]

    def stop(self) -> None:
        """Returns when every broker is to be active again."""
        self._is_over.set()
        self.join()
        self._insist(lambda client: [client.set_state(one, "active") for one in self._brokers])

    def moves(self) -> dict[str, int]:
        """What the store says of all plans together."""
        with CoordinatorClient(self._url) as client:
            runs = client.executions(limit=10_000)
        return {name: sum(run[name] for run in runs) for name in ("moves", "done", "failed", "cancelled")}

    def run(self) -> None:
        while not self._is_over.is_set():
            self.source, self.destination = self._chance.sample(self._brokers, 2)
            self._try(self._empty)
            self._insist(lambda client: client.set_state(self.source, "active"))
            # Now the other way: it idles, and is filled.
            self.source, self.destination = self.destination, self.source
            self._try(self._fill)

    def _empty(self, client: CoordinatorClient) -> None:
        client.set_state(self.source, "draining")
        deadline_s = time.monotonic() + _EMPTY_WITHIN_S
        while time.monotonic() < deadline_s and not self._is_over.wait(_LOOK_EVERY_S):
            if not client.broker(self.source)["subscribers"]:
                return

    def _fill(self, client: CoordinatorClient) -> None:
        plan = client.make_plan(stage="shuffle", policy="gsh", shown_moves=0)["plan"]
        client.execute(plan)
        deadline_s = time.monotonic() + _FILL_WITHIN_S
        while client.execution(plan, shown_moves=0)["state"] == "running" and not self._is_over.wait(_LOOK_EVERY_S):
            if time.monotonic() > deadline_s:
                client.stop(plan)
                return

    def _try(self, what: Callable[[CoordinatorClient], object]) -> bool:
        try:
            with CoordinatorClient(self._url) as client:
                what(client)
        except (ServerError, httpx.TransportError):
            self._is_over.wait(_LOOK_EVERY_S)
            return False
        return True

    def _insist(self, what: Callable[[CoordinatorClient], object]) -> None:
        deadline_s = time.monotonic() + 60
        while not self._try(what) and time.monotonic() < deadline_s:
            time.sleep(_LOOK_EVERY_S)
