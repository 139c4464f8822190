"""A small town on the real system: a cluster, a coordinator, brokers with places, and people with the SDK.

What happens follows from a seed. People live where the seed puts them, most of them near the first broker, so that the
load is uneven until somebody evens it out.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tocsin.client import ClusterClient, Subscriber
from tocsin.lab.experiments.emergency.city import City
from tocsin.runtime.processes import ServerProcess
from tocsin.testing.network import running_network

API_TOKEN = "operators-token"
BROKER_TOKEN = "brokers-token"
VIEWER_TOKEN = "viewers-token"
KINDS = ("fire", "flood", "storm", "accident")
_HEADERS = {"Authorization": f"Bearer {API_TOKEN}"}
_MESSAGES = {
    "fire": "Smoke over {location}",
    "flood": "Water rises in {location}",
    "storm": "Roofs come off in {location}",
    "accident": "A road is blocked in {location}",
}
_SCHEMA = """
CREATE ACTIVE DATASET Reports (id STRING, etype STRING, x DOUBLE, y DOUBLE, severity INT, message STRING,
                               PRIMARY KEY (id));
CREATE FEED reports INTO Reports FROM HTTP;
CREATE CONTINUOUS CHANNEL EmergenciesNear (etype STRING, x DOUBLE, y DOUBLE, radius_m DOUBLE) AS
  SELECT r.*, distance(r.x, r.y, :x, :y) AS metres FROM Reports r
  WHERE is_new(r) AND r.etype = :etype AND within(r.x, r.y, :x, :y, :radius_m);
CREATE CONTINUOUS CHANNEL EmergenciesOfType (etype STRING) AS
  SELECT r.* FROM Reports r WHERE is_new(r) AND r.etype = :etype;
CREATE REPETITIVE CHANNEL SevereEmergencies (severity INT) PERIOD 5 SECONDS AS
  SELECT r.* FROM Reports r WHERE is_new(r) AND r.severity >= :severity;
"""


@dataclass
class Town:
    cluster: ClusterClient
    cluster_url: str
    coordinator: ServerProcess
    city: City
    rng: Random
    people: People
    brokers: dict[str, ServerProcess] = field(default_factory=dict)
    _reports: int = 0
    _reporting: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return self.coordinator.url

    def ask(self, path: str) -> Any:
        return httpx.get(f"{self.url}{path}", headers=_HEADERS).raise_for_status().json()

    def change(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return httpx.request(method, f"{self.url}{path}", json=body, headers=_HEADERS).raise_for_status().json()

    def publish(self, count: int) -> list[dict[str, Any]]:
        """Reports from all over the town; returns them once they are in the table."""
        with self._reporting:
            reports = [self._report() for _ in range(count)]
        answer = self.cluster.publish("reports", reports, wait_commit=True)
        assert answer["accepted"] == count, answer
        return reports

    @contextmanager
    def busy(self, reports_per_s: int) -> Iterator[None]:
        """Things happen all the time, and people walk about."""
        is_over = threading.Event()

        def live() -> None:
            while not is_over.wait(1.0):
                self.publish(reports_per_s)
                self.people.walk(30)

        thread = threading.Thread(target=live, name="town")
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _report(self) -> dict[str, Any]:
        self._reports += 1
        district = self.rng.choice(self.city.districts)
        kind = self.rng.choices(KINDS, (5, 3, 2, 4))[0]
        return {
            "id": f"r{self._reports}",
            "etype": kind,
            "x": round(min(self.city.width_m, max(0, self.rng.gauss(district.centre.x, 600))), 1),
            "y": round(min(self.city.height_m, max(0, self.rng.gauss(district.centre.y, 600))), 1),
            "severity": self.rng.randint(1, 5),
            "message": _MESSAGES[kind].format(location=district.name),
        }


class People:
    """Subscribers in a thread of their own, with an event loop of its own."""

    def __init__(self, coordinator_url: str, rng: Random) -> None:
        self._url = coordinator_url
        self._rng = rng
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="people")
        self._thread.start()
        self._stack = AsyncExitStack()
        self._reading: list[asyncio.Task[None]] = []
        self._there: list[tuple[Subscriber, list[float]]] = []
        self.received = 0

    def arrive(self, locations: Sequence[tuple[float, float]]) -> None:
        """One person at each of these places; returns when all of them are subscribed."""
        first = len(self._there)
        self._run(self._all_arrive([(f"p{first + number}", location) for number, location in enumerate(locations)]))

    def brokers(self) -> dict[str, str]:
        return {one.name: one.broker for one, _ in self._there}

    def walk(self, step_m: float) -> None:
        """Everybody goes a little way and tells so."""
        for subscriber, location in self._there:
            location[0] += self._rng.uniform(-step_m, step_m)
            location[1] += self._rng.uniform(-step_m, step_m)
            self._loop.call_soon_threadsafe(subscriber.tell_location, *location)

    def close(self) -> None:
        self._run(self._leave())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> None:
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.result(120)

    async def _all_arrive(self, people: Sequence[tuple[str, tuple[float, float]]]) -> None:
        async with httpx.AsyncClient(base_url=self._url, headers=_HEADERS, timeout=60) as http:
            for start in range(0, len(people), 20):
                await asyncio.gather(*(self._arrives(http, *one) for one in people[start : start + 20]))

    async def _arrives(self, http: httpx.AsyncClient, name: str, location: tuple[float, float]) -> None:
        token = (await http.post("/v1/users", json={"name": name})).raise_for_status().json()["token"]
        subscriber = Subscriber(coordinator=self._url, token=token, device="phone", location=location)
        await self._stack.enter_async_context(subscriber)
        kind = self._rng.choice(KINDS)
        # Wishes are rounded, so that neighbours share them.
        near = {"x": round(location[0], -3), "y": round(location[1], -3), "radius_m": 2500.0}
        await subscriber.subscribe("EmergenciesNear", {"etype": kind, **near})
        if self._rng.random() < 0.4:
            await subscriber.subscribe("EmergenciesOfType", etype=self._rng.choice(KINDS))
        if self._rng.random() < 0.2:
            await subscriber.subscribe("SevereEmergencies", severity=self._rng.choice([4, 5]))
        self._there.append((subscriber, list(location)))
        self._reading.append(asyncio.create_task(self._read(subscriber)))

    async def _read(self, subscriber: Subscriber) -> None:
        async for _ in subscriber.notifications():
            self.received += 1

    async def _leave(self) -> None:
        for task in self._reading:
            task.cancel()
        await asyncio.gather(*self._reading, return_exceptions=True)
        with suppress(Exception):
            await self._stack.aclose()


def broker_locations(city: City, count: int) -> dict[str, tuple[float, float]]:
    """Spread over the town."""
    shares = [(0.3, 0.35), (0.72, 0.3), (0.68, 0.74), (0.25, 0.78), (0.5, 0.52)][:count]
    return {
        f"broker-{number}": (round(city.width_m * x), round(city.height_m * y))
        for number, (x, y) in enumerate(shares, 1)
    }


def homes(city: City, brokers: Sequence[tuple[float, float]], count: int, rng: Random) -> list[tuple[float, float]]:
    """Where people live: half of them around the first broker."""
    found = []
    for _ in range(count):
        around = brokers[0] if rng.random() < 0.5 else rng.choice(brokers)
        near = sorted(city.crossings, key=lambda one: abs(one.x - around[0]) + abs(one.y - around[1]))
        crossing = near[min(len(near) - 1, int(rng.expovariate(1 / 90)))]
        found.append((crossing.x + rng.uniform(-60, 60), crossing.y + rng.uniform(-60, 60)))
    return found


def write_roads(city: City, file: Path) -> None:
    lines = [
        f"LINESTRING ({city.crossings[a].x:.1f} {city.crossings[a].y:.1f}, "
        f"{city.crossings[b].x:.1f} {city.crossings[b].y:.1f})"
        for a, there in enumerate(city.roads)
        for b in there
        if a < b
    ]
    file.write_text("\n".join(lines))


@contextmanager
def running_town(
    folder: Path, *, brokers: int, people: int, seed: int = 7, rates_window_s: float = 20
) -> Iterator[Town]:
    """Everything started and everybody subscribed. `nearest` placed them, so the first broker has the most."""
    city, rng = City.generate(seed), Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    roads = folder / "roads.wkt"
    write_roads(city, roads)
    with ExitStack() as stack:
        locations = broker_locations(city, brokers)
        network = stack.enter_context(
            running_network(
                folder,
                cluster={"spark_driver_memory": "1g", "warm_up_max_s": 0},
                coordinator={
                    "api_token": API_TOKEN,
                    "viewer_token": VIEWER_TOKEN,
                    "broker_token": BROKER_TOKEN,
                    "map_roads": roads,
                    "placement": "nearest",
                    "rates_window_s": rates_window_s,
                },
                brokers={
                    name: {"location": f"{x},{y}", "broker_token": BROKER_TOKEN} for name, (x, y) in locations.items()
                },
                with_dashboard=True,
                schema=_SCHEMA,
            )
        )
        client = stack.enter_context(network.cluster.client())
        crowd = People(network.coordinator.url, Random(seed))
        stack.callback(crowd.close)
        town = Town(client, network.cluster.url, network.coordinator, city, rng, crowd, network.brokers)
        crowd.arrive(homes(city, list(locations.values()), people, rng))
        yield town
