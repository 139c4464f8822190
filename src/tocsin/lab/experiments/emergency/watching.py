"""What an operator would see of a run: the brokers' loads over time, and the plans that were carried out."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from tocsin.lab.experiments.emergency.tally import Tally
from tocsin.simulator.timeline import PlanRecord, Sample

_EVERY_S = 1.0


@dataclass(eq=False)
class Watch:
    """Asks the coordinator once a second, and says what is being moved. `now_s` is the city's clock, which runs
    `speed_up` times as fast as ours; loads are for a second of it, so that runs of different speed can be compared."""

    coordinator_url: str
    tally: Tally
    now_s: Callable[[], float]
    speed_up: float
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._http = httpx.AsyncClient(base_url=self.coordinator_url, timeout=30, trust_env=False)
        self._said: set[str] = set()
        self.samples: list[Sample] = []
        self.brokers: tuple[str, ...] = ()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self.look()

    async def look(self) -> None:
        brokers = (await self._get("/v1/brokers"))["brokers"]
        runs = await self._runs()
        for run in reversed(runs):
            self._announce(run)
        self.brokers = tuple(one["name"] for one in brokers)
        deliveries, self.tally.by_broker = self.tally.by_broker, Counter()
        loads = tuple(one["loads"]["total"] / self.speed_up for one in brokers)
        self.samples.append(
            Sample(
                self.now_s(),
                tuple(one["connections"] for one in brokers),
                loads,
                tuple(load / one["capacity"] for load, one in zip(loads, brokers, strict=True)),
                tuple(one["bytes_in_per_s"] * _EVERY_S for one in brokers),
                tuple(one["bytes_out_per_s"] * _EVERY_S for one in brokers),
                tuple(deliveries[name] for name in self.brokers),
                sum(run["done"] for run in runs),
                tuple(one["state"] != "dead" for one in brokers),
            )
        )

    def _announce(self, run: dict[str, Any]) -> None:
        if run["plan"] in self._said:
            return
        self._said.add(run["plan"])
        before, after = run["expected"]["before"]["cov"], run["expected"]["after"]["cov"]
        self.say(
            f"{run['stage']} by {run['policy']}: {run['moves']} moves planned, cov {before:.2f} → {after:.2f} expected"
        )

    async def plans(self, time_of: Callable[[int], float]) -> list[PlanRecord]:
        """Oldest first; `time_of` gives the city's clock for a time since 1970 in µs."""
        return [_plan(run, time_of(run["begun_at_us"]), self.speed_up) for run in reversed(await self._runs())]

    async def failed_moves(self) -> int:
        return sum(run["failed"] for run in await self._runs())

    async def close(self) -> None:
        await self._http.aclose()

    async def _runs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self._get("/v1/executions"))["executions"]
        return found

    async def _get(self, path: str) -> Any:
        answer = await self._http.get(path)
        answer.raise_for_status()
        return answer.json()


def _plan(run: dict[str, Any], time_s: float, speed_up: float) -> PlanRecord:
    expected = run["expected"]
    before, after = expected["before"], expected["after"]
    bound = expected["lower_bound"]
    return PlanRecord(
        time_s,
        run["stage"],
        run["policy"],
        run["reason"],
        run["done"],
        before["cov"],
        after["cov"],
        before["max"] / speed_up,
        after["max"] / speed_up,
        after["max"] / bound if bound else 1.0,
        run["promised_cov"],
        run["kept_cov"],
    )
