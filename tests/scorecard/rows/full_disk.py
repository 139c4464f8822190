"""Row 7: the disk is full for a while: nothing is acknowledged that is not kept, and everybody goes on afterwards."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx

from scorecard.row import Effort, Outcome, Row
from tocsin.client import Subscriber, Subscription
from tocsin.testing.network import running_network

_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, topic STRING, message STRING, PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL OnTopic (topic STRING) AS
  SELECT r.id, r.topic, r.message FROM Reports r WHERE is_new(r) AND r.topic = :topic;
"""
_DISK_MB = 300
_BALLAST = "ballast"
_SETTLE_S = 60.0
_READ_ONLY = (
    "A disk that turns read-only is not tried: Linux does not remount a file system read-only while files are open for"
    " writing."
)


def _full_disk(effort: Effort) -> Outcome:
    if os.geteuid() != 0:
        return Outcome({}, ("a small disk can be mounted by root only",))
    chance = random.Random(effort.seed)
    bad: list[str] = []
    with ExitStack() as stack:
        disk = stack.enter_context(_small_disk())
        scratch = {"scratch_dir": str(disk.parent / "scratch")}
        network = stack.enter_context(running_network(disk, cluster=scratch, brokers={"broker-1": {}}, schema=_SCHEMA))
        reader = _Reader(network.coordinator.url)
        publisher = _Publisher(network.cluster.url)
        reader.start()
        if not reader.is_subscribed.wait(_SETTLE_S):
            return Outcome({}, (f"nobody could subscribe: {reader.failure}",))
        publisher.start()
        for number in range(effort["times"]):
            time.sleep(chance.uniform(0.5, 2.0))
            _fill(disk)
            time.sleep(chance.uniform(1.0, 5.0))  # How long it is full is the fault itself.
            (disk / _BALLAST).unlink(missing_ok=True)
            effort.say(f"full {number + 1} times; {len(publisher.acknowledged):,} acknowledged, {publisher.answers}")
            bad += [
                f"{server.log.name} ended with {server.process.returncode}: {server.log.read_text()[-300:]}"
                for server in network.servers.values()
                if server.process.poll() is not None
            ]
            if bad:
                break
            if not publisher.accepts_again():
                bad.append("publishing did not go on after there was room again")
                break
        publisher.stop()
        deadline_s = time.monotonic() + _SETTLE_S
        while publisher.acknowledged - reader.got.keys() and time.monotonic() < deadline_s and not bad:
            time.sleep(0.2)
        reader.stop()
    lost = publisher.acknowledged - reader.got.keys()
    bad += [f"{one} was acknowledged and not delivered" for one in sorted(lost)]
    bad += [f"{one} was delivered {count} times" for one, count in reader.got.items() if count > 1]
    figures = {"acknowledged": len(publisher.acknowledged), "delivered": len(reader.got)}
    return Outcome(
        {"times": effort["times"]}, tuple(bad), figures | {"answers": dict(publisher.answers)}, (_READ_ONLY,)
    )


@contextmanager
def _small_disk() -> Iterator[Path]:
    """A folder on a file system of its own, in memory."""
    with tempfile.TemporaryDirectory(prefix="tocsin-scorecard-") as made:
        disk = Path(made) / "disk"
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", "tmpfs", str(disk)], check=True)
        try:
            yield disk
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)


def _fill(disk: Path) -> None:
    """Until not another byte fits."""
    with suppress(OSError), (disk / _BALLAST).open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12, 1):
            with suppress(OSError):
                while True:
                    file.write(b"\0" * size)


class _Publisher(threading.Thread):
    """Publishes one record after the other; each is tried once, so that an answer tells all there is to know."""

    def __init__(self, url: str) -> None:
        super().__init__(name="publisher", daemon=True)
        self._url = url
        self._is_over = threading.Event()
        self._accepted = threading.Event()
        self.acknowledged: set[str] = set()
        self.answers: Counter[str] = Counter()

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as http:
            number = 0
            while not self._is_over.wait(0.01):
                number += 1
                record = {"id": f"r{number}", "topic": "a", "message": "x" * 500}
                try:
                    answer = http.post("/v1/feeds/reports/records", json=record)
                except httpx.TransportError as exc:
                    self.answers[type(exc).__name__] += 1
                    continue
                self.answers[str(answer.status_code)] += 1
                if answer.is_success:
                    self.acknowledged.add(f"r{number}")
                    self._accepted.set()

    def accepts_again(self) -> bool:
        self._accepted.clear()
        return self._accepted.wait(_SETTLE_S)

    def stop(self) -> None:
        self._is_over.set()
        self.join(60)


class _Reader(threading.Thread):
    """A subscriber of the SDK, in a thread of its own."""

    def __init__(self, coordinator: str) -> None:
        super().__init__(name="reader", daemon=True)
        self._coordinator = coordinator
        self._is_over = threading.Event()
        self.is_subscribed = threading.Event()
        self.got: Counter[str] = Counter()
        self.failure = ""

    def run(self) -> None:
        try:
            asyncio.run(self._follow())
        except Exception as exc:  # noqa: BLE001 - told by whoever waits for it
            self.failure = f"{type(exc).__name__}: {exc}"

    async def _follow(self) -> None:
        body = json.dumps({"name": "reader", "password": "correct horse battery"})
        headers = {"Content-Type": "application/json"}
        answer = await asyncio.to_thread(
            httpx.post, f"{self._coordinator}/v1/users", content=body, headers=headers, timeout=30
        )
        async with Subscriber(coordinator=self._coordinator, token=answer.json()["token"], device="reader") as me:
            subscription = await me.subscribe("OnTopic", topic="a")
            self.is_subscribed.set()
            taking = asyncio.create_task(self._take(subscription))
            await asyncio.to_thread(self._is_over.wait)
            taking.cancel()

    async def _take(self, subscription: Subscription) -> None:
        async for notification in subscription:
            self.got[notification.payload["id"]] += 1

    def stop(self) -> None:
        self._is_over.set()
        self.join(30)


FULL_DISK = Row(
    7,
    "The disk is full for a while",
    "refused, recovers, 0 acknowledged lost",
    full={"times": 20},
    brief={"times": 2},
    run=_full_disk,
)
