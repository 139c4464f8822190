"""The emergency city on real processes, from its publishers to its people, watched and audited.

The city's clock runs `speed_up` times as fast as ours: channels' periods, movements, interactions and the balancer's
patience shrink alike. What everybody was handed is held against the cluster's own results.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tocsin.client import ClusterClient, CoordinatorClient, Notification
from tocsin.lab.experiments.emergency.auditing import read_results
from tocsin.lab.experiments.emergency.city import City
from tocsin.lab.experiments.emergency.network import prepare, running_city
from tocsin.lab.experiments.emergency.people import People, Person
from tocsin.lab.experiments.emergency.publishing import Publishers
from tocsin.lab.experiments.emergency.scenario import CityScenario, Interaction
from tocsin.lab.experiments.emergency.schema import longest_period_s, schema_sql, subscription_of
from tocsin.lab.experiments.emergency.tally import Audit, Hold, Tally, audit, percentiles_s
from tocsin.lab.experiments.emergency.warming import warm_up
from tocsin.lab.experiments.emergency.watching import Watch
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload
from tocsin.simulator.figures import moves_per_person_hour, promise_kept
from tocsin.simulator.timeline import Run, Totals
from tocsin.testing.network import RunningNetwork

#: A broker of the cluster's that holds everything while channels warm up, and nothing once people come.
_REHEARSAL = "rehearsal"


@dataclass(frozen=True, slots=True)
class Balancing:
    """How load is kept even. Times are of the city's clock; a policy's name is "" when off."""

    placement: str = "nearest"
    migration: str = "group"
    shuffle: str = "sharing"
    alpha: float = 0.15
    gamma: float = 0.5
    hits: int = 2
    shuffle_hits: int = 1
    begins_at_s: float = 540.0
    every_s: float = 15.0
    settle_s: float = 60.0
    rest_s: float = 0.0
    #: A multiple of all periods, and long enough that single reports do not matter.
    rates_window_s: float = 120.0
    rule: str = "worthwhile"
    rates: str = "lasting"

    @property
    def is_on(self) -> bool:
        return bool(self.migration or self.shuffle)


@dataclass(frozen=True, slots=True)
class CityRun:
    """What a run leaves behind. `run` is as the simulator's are, by the city's clock."""

    run: Run
    tally: Tally
    audit: Audit
    speed_up: float
    overruns: int
    failed_moves: int

    @property
    def failures(self) -> list[str]:
        """What did not go as it should; nothing, if all did."""
        tally, found = self.tally, self.audit
        said = []
        if not 0 < tally.published == tally.accepted:
            said.append(f"{tally.accepted} of {tally.published} records were accepted")
        if tally.silent_channels:
            said.append(f"no notification came from {', '.join(tally.silent_channels)}")
        dead = {
            broker
            for sample in self.run.samples
            for broker, is_alive in zip(self.run.brokers, sample.alive, strict=True)
            if not is_alive
        }
        said += [f"{broker} fell silent without an order" for broker in sorted(dead)]
        wrong = {name: count for name, count in found.to_json().items() if name != "expected"}
        ended = wrong.pop("ended")
        said += [f"{count} notifications {name}" for name, count in wrong.items() if count]
        if ended:
            said.append(f"{ended} subscriptions ended while somebody held them")
        return said

    def to_json(self) -> dict[str, Any]:
        tally = self.tally
        return {
            "succeeded": not self.failures,
            "speed_up": self.speed_up,
            "records": {"published": tally.published, "accepted": tally.accepted, "rejected": tally.rejected},
            "notifications": tally.notifications,
            "audit": self.audit.to_json(),
            "migrations": self.run.totals.migrations,
            "moves_per_person_hour": moves_per_person_hour(self.run),
            "promise_kept": promise_kept(self.run),
            "failed_moves": self.failed_moves,
            "overruns": self.overruns,
            "commit_to_received_s": percentiles_s(tally.deliveries_s),
            "channels": {
                name: {
                    "subscriptions": one.subscriptions,
                    "notifications": one.notifications,
                    "publish_to_received_s": percentiles_s(one.delays_s),
                    "examples": one.examples,
                }
                for name, one in tally.channels.items()
            },
        }


@dataclass(eq=False)
class RunningCity:
    """One run. `heard` is told of every notification; `ending`, if given, ends it instead of the scenario's time;
    `beside` goes on meanwhile. Its clock begins when the channels keep their periods, or after `most_warm_up_s`."""

    scenario: CityScenario
    balancing: Balancing
    city: City
    workload: EmergencyWorkload
    interactions: Sequence[Interaction]
    speed_up: float
    say: Callable[[str], None]
    heard: Callable[[str, Notification], None] = lambda _user, _notification: None
    ending: asyncio.Event | None = None
    beside: Sequence[Callable[[RunningNetwork], Coroutine[Any, Any, None]]] = ()
    most_warm_up_s: float = 90.0

    def __post_init__(self) -> None:
        self._statements = schema_sql(1 / self.speed_up)
        self._tally = Tally()
        self._has_heard = asyncio.Event()
        self._begun_s = self._begun_at_s = 0.0

    async def run(self, folder: Path, on_ready: Callable[[RunningNetwork], None] = lambda _: None) -> CityRun:
        settings = {
            "placement": self.balancing.placement,
            "rates": self.balancing.rates,
            "rates_window_s": self.balancing.rates_window_s / self.speed_up,
        }
        async with running_city(folder, self.city, self.scenario.brokers, settings, self.say) as network:
            shared = await asyncio.to_thread(self._prepare, network)
            tokens = await asyncio.to_thread(network.register, self.workload.user_ids)
            wished = sum(one.action == "subscribe" for one in self.interactions)
            self.say(
                f"3 datasets, 2 feeds, 7 channels; {len(tokens)} people will hold {wished:,} subscriptions, which share"
                f" {len(shared):,}"
            )
            people = {
                name: Person(name, network.coordinator.url, token, self._tally, self._hear)
                for name, token in tokens.items()
            }
            on_ready(network)
            await self._warm_up(network)
            await asyncio.to_thread(_forget_rehearsal, network.cluster.url, shared)
            overruns_before = await asyncio.to_thread(_overruns, network.cluster.url)
            watch = Watch(network.coordinator.url, self._tally, self._now_s, self.speed_up, self.say)
            try:
                self._begun_s, self._begun_at_s = time.monotonic(), time.time()
                results = await self._live(network, People(people, self.workload, self.speed_up), watch)
                overruns = await asyncio.to_thread(_overruns, network.cluster.url) - overruns_before
                plans, failed = await watch.plans(self._time_of), await watch.failed_moves()
            finally:
                await watch.close()
        return CityRun(
            self._summed(watch, plans, len(shared)),
            self._tally,
            audit(self._tally.holds, results),
            self.speed_up,
            overruns,
            failed,
        )

    async def _live(self, network: RunningNetwork, people: People, watch: Watch) -> dict[int, list[int]]:
        """The city's course. Returns the cluster's results of what people hold in the end, by epoch."""
        publishers = Publishers(network.cluster.url, self.workload.reports(), self._tally)
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(watch.run())
            going_on = [tasks.create_task(people.move_about())]
            going_on += [tasks.create_task(work(network)) for work in (self._balance, *self.beside)]
            publishing = tasks.create_task(publishers.run(self._due))
            await people.follow(self.interactions, self._until)
            await publishing
            watching.cancel()  # What the brokers carry once nothing is published says nothing.
            await people.all_log_in()
            await self._quiet(2.0 * longest_period_s(self._statements))
            # While everybody holds what they hold: what nobody holds, the cluster forgets.
            results = await asyncio.to_thread(_results, network.cluster.url, self._tally.holds)
            for task in going_on:
                task.cancel()
            await people.all_log_out()
        return results

    async def _warm_up(self, network: RunningNetwork) -> None:
        scenario = self.scenario
        # Reports of another seed: those of the city are all to come.
        reports = EmergencyWorkload(self.city, users=0, seed=scenario.seed + 1).reports()
        reports_per_s = scenario.reports / scenario.duration_s * self.speed_up
        began_s = time.monotonic()
        is_steady = await warm_up(
            network.cluster.url, reports, reports_per_s, self.workload.locations(), self.most_warm_up_s
        )
        took = f"after {time.monotonic() - began_s:.0f} s of warming up the channels"
        self.say(f"{took} keep their periods" if is_steady else f"{took} do not all keep their periods yet")

    def _prepare(self, network: RunningNetwork) -> list[int]:
        """The application, and a rehearsal: channels warm up with all that anybody will hold. Returns what that is."""
        prepare(network, self._statements, self.workload.shelters(self.scenario.shelters), self.workload.locations())
        with ClusterClient(network.cluster.url) as client:
            client.register_broker(_REHEARSAL)
            wanted = [
                subscription_of(one.user, one.channel, one.parameters)
                for one in self.interactions
                if one.action == "subscribe"
            ]
            held = client.subscribe(_REHEARSAL, wanted)
        return sorted({int(one["id"]) for one in held})

    async def _balance(self, network: RunningNetwork) -> None:
        balancing = self.balancing
        if not balancing.is_on:
            return
        await self._until(balancing.begins_at_s)
        names = ("rule", "migration", "shuffle", "alpha", "gamma", "hits", "shuffle_hits")
        times = {name: getattr(balancing, name) / self.speed_up for name in ("every_s", "settle_s", "rest_s")}
        changes = {**{name: getattr(balancing, name) for name in names}, **times, "automatic": True, "by": "experiment"}

        def switch_on() -> None:
            with CoordinatorClient(network.coordinator.url) as client:
                client.change_balancing(**changes)

        await asyncio.to_thread(switch_on)
        self.say(f"balancing is on: {' and '.join(filter(None, (balancing.migration, balancing.shuffle)))}")

    def _due(self) -> int | None:
        """How many reports should have been sent by now; None when it is over."""
        is_over = self.ending.is_set() if self.ending else self._now_s() >= self.scenario.duration_s
        return None if is_over else int(self._now_s() * self.scenario.reports / self.scenario.duration_s)

    def _hear(self, user: str, notification: Notification) -> None:
        self._has_heard.set()
        self.heard(user, notification)

    async def _quiet(self, seconds: float) -> None:
        """Returns when nobody has heard anything for so long."""
        with contextlib.suppress(TimeoutError):
            while True:
                self._has_heard.clear()
                await asyncio.wait_for(self._has_heard.wait(), seconds)

    def _now_s(self) -> float:
        return (time.monotonic() - self._begun_s) * self.speed_up

    def _time_of(self, at_us: int) -> float:
        return (at_us / 1e6 - self._begun_at_s) * self.speed_up

    async def _until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, (at_s - self._now_s()) / self.speed_up))

    def _summed(self, watch: Watch, plans: Sequence[Any], backends: int) -> Run:
        balancing, tally, samples = self.balancing, self._tally, watch.samples
        held = [hold for hold in tally.holds if not hold.is_given_up]
        totals = Totals(
            control_messages=0,
            placements=tally.logins,
            logins=tally.logins,
            logouts=tally.logouts,
            subscribes=len(tally.holds),
            unsubscribes=len(tally.holds) - len(held),
            frontend_subscriptions=len(held),
            backend_subscriptions=backends,
            deliveries=tally.notifications,
            out_bytes=sum(sum(one.out_bytes) for one in samples),
            in_bytes=sum(sum(one.in_bytes) for one in samples),
            migrations=samples[-1].migrations,
            plans=len(plans),
            failures=0,
        )
        policies = "+".join(filter(None, (balancing.migration, balancing.shuffle))) or "off"
        return Run(
            scenario="city",
            label=f"{balancing.placement}/{policies}",
            seed=self.scenario.seed,
            duration_s=self.scenario.duration_s,
            placement=balancing.placement,
            migration=balancing.migration,
            shuffle=balancing.shuffle,
            alpha=balancing.alpha,
            beta=0.0,
            gamma=balancing.gamma,
            theta=0.0,
            brokers=watch.brokers,
            capacities=(1.0,) * len(watch.brokers),
            samples=tuple(samples),
            plans=tuple(plans),
            totals=totals,
        )


def _overruns(url: str) -> int:
    with ClusterClient(url) as client:
        return sum(one["overruns"] for one in client.status()["channels"])


def _forget_rehearsal(url: str, ids: Sequence[int]) -> None:
    with ClusterClient(url) as client:
        client.unsubscribe(_REHEARSAL, ids)


def _results(url: str, holds: Sequence[Hold]) -> dict[int, list[int]]:
    begins: dict[int, int] = {}
    for hold in holds:
        if hold.begin is not None:
            epoch, sequence = hold.begin.epoch, hold.begin.sequence
            begins[epoch] = min(sequence, begins.get(epoch, sequence))
    with httpx.Client(base_url=url, timeout=120, trust_env=False) as http:
        return read_results(http, begins).results
