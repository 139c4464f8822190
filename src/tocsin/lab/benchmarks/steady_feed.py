"""Records at an even pace, each topic in its turn, while something else is measured."""

from __future__ import annotations

import itertools
import json
import threading
import time
from types import TracebackType
from typing import Self

import httpx

from tocsin.testing.network import ClusterProcess

CHANNEL = "OnTopic"
SCHEMA = f"""
CREATE ACTIVE DATASET Reports (id STRING, number BIGINT, topic STRING, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL {CHANNEL} (topic STRING) AS
  SELECT r.id, r.number, r.topic, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
"""
_MESSAGE_BYTES = 280


class SteadyFeed:
    """Each topic gets a record each `every_s`, some topics at a time, from when the block begins until `stop`.

    Each request makes Spark run a batch, and those are what costs.
    """

    def __init__(self, cluster: ClusterProcess, topics: int, every_s: float, requests: int = 4) -> None:
        self._cluster = cluster
        names = [f"topic{number:03d}" for number in range(topics)]
        self._parts = [names[number::requests] for number in range(requests)]
        self._pause_s = every_s / requests
        self._published: list[str] = []
        self._is_over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self._is_over.set()
        self._thread.join()

    def stop(self) -> list[str]:
        """Publish no more; returns the topic of each record, by its number."""
        self._is_over.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        return self._published

    def _run(self) -> None:
        due_s = time.monotonic()
        headers = {"Content-Type": "application/x-ndjson"}
        try:
            with httpx.Client(base_url=self._cluster.url, timeout=30) as http:
                for part in itertools.cycle(self._parts):
                    if self._is_over.wait(max(0.0, due_s - time.monotonic())):
                        return
                    due_s += self._pause_s
                    first = len(self._published)
                    lines = [json.dumps(_record(first + at, topic)) for at, topic in enumerate(part)]
                    http.post("/v1/feeds/reports/records", content="\n".join(lines), headers=headers).raise_for_status()
                    self._published += part
        except httpx.HTTPError as exc:
            self._failure = exc


def _record(number: int, topic: str) -> dict[str, object]:
    return {"id": f"r{number}", "number": number, "topic": topic, "message": "x" * _MESSAGE_BYTES}
