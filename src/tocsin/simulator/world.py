"""The whole network in one process: brokers' and coordinator's machines, a cluster and subscribers, without a clock."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Literal, assert_never

import numpy as np

from tocsin.balancing.placement import PlacementPolicy
from tocsin.coordinator.load.plan import Plan
from tocsin.errors import InvalidValue
from tocsin.protocol.coordination import BrokerState
from tocsin.protocol.ports import Delivery
from tocsin.simulator.chance import Dice
from tocsin.simulator.clients import Clients
from tocsin.simulator.cluster import Cluster
from tocsin.simulator.combinations import placements
from tocsin.simulator.coordination import Coordination
from tocsin.simulator.deliveries import Deliveries, SingleDeliveries, SummedDeliveries
from tocsin.simulator.faults import faults
from tocsin.simulator.kernel import Kernel
from tocsin.simulator.nodes import BrokerNode
from tocsin.simulator.round_trips import SimulatedRoundTrips
from tocsin.simulator.scenario import Scenario
from tocsin.simulator.tally import Tally
from tocsin.simulator.timeline import Run, Sample, Totals
from tocsin.simulator.workload import Floats, Moments, draw

Mode = Literal["summed", "single"]


def simulate(
    scenario: Scenario,
    *,
    seed: int | None = None,
    mode: Mode = "summed",
    progress: Callable[[float], None] | None = None,
    more_placements: Mapping[str, PlacementPolicy] | None = None,
    on_plan: Callable[[Plan], None] = lambda _: None,
) -> Run:
    """Run a scenario. The same scenario and seed give an equal run, in either mode: see `deliveries`.

    `progress` gets the part of the time that has passed, now and then; `on_plan` gets each plan that is carried out.
    `more_placements` are placements of experiments.
    """
    for path, fault in faults(scenario, more_placements):
        raise InvalidValue(f"{'.'.join(map(str, path))} {fault}")
    with _no_collections():
        world = World(scenario, scenario.seed if seed is None else seed, mode, more_placements)
        world.coordination.on_plan = on_plan
        world.run(progress or (lambda _: None))
        return world.result()


@contextmanager
def _no_collections() -> Iterator[None]:
    """Millions of small objects live as long as the run: looking through them for garbage is in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        # This makes all of them old. The next allocation would look through them if they were young.
        gc.freeze()
        gc.unfreeze()
        if was_enabled:
            gc.enable()


class World:
    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        mode: Mode = "summed",
        more_placements: Mapping[str, PlacementPolicy] | None = None,
    ) -> None:
        self.scenario = scenario
        self._seed = seed
        self.kernel = Kernel()
        self.tally = Tally()
        self.workload = workload = draw(scenario, seed)
        self.cluster = Cluster(workload, scenario.fluctuation, seed)
        self.deliveries = self._deliveries(mode)
        single = self.deliveries if isinstance(self.deliveries, SingleDeliveries) else None
        known = {**placements(), **(more_placements or {})}
        self.coordination = Coordination(scenario, self.kernel, self.cluster, self.tally, seed, known)
        self.coordination.counted = lambda: (self.cluster.in_bytes, self.deliveries.bytes)
        self.clients = Clients(
            self.kernel,
            scenario.network,
            workload,
            self.cluster,
            self.deliveries,
            self.tally,
            Dice(seed, "clients"),
        )
        self.nodes = [
            BrokerNode(
                number,
                broker,
                scenario,
                self.kernel,
                self.cluster,
                self.coordination,
                self.clients,
                single,
                self.tally,
                seed,
            )
            for number, broker in enumerate(workload.brokers)
        ]
        self.clients.reach(self.nodes)
        self._round_trips = SimulatedRoundTrips(scenario.sites, workload.subscribers, seed) if scenario.sites else None
        self.clients.round_trips = self._round_trips
        for node in self.nodes:
            node.round_trips, node.others = self._round_trips, {one.name: one for one in self.nodes}
        self.clients.placements = self.coordination
        if single is not None:
            single.pull = self._pull
        self._samples: list[Sample] = []
        self._counted = [np.zeros(len(self.nodes), np.int64) for _ in range(3)]
        self._schedule()

    def run(self, progress: Callable[[float], None]) -> None:
        scenario = self.scenario
        count = int(scenario.duration_s / scenario.sample_every_s + 1e-9)
        times_s = [scenario.sample_every_s * number for number in range(1, count + 1)]
        for time_s in times_s:
            self.kernel.run(time_s)
            self._samples.append(self._sample())
            progress(time_s / scenario.duration_s)
        self.kernel.run(scenario.duration_s)

    def result(self) -> Run:
        scenario, balancing = self.scenario, self.scenario.balancing
        return Run(
            scenario=scenario.name,
            label=label(balancing.placement, balancing.migration, balancing.shuffle),
            seed=self._seed,
            duration_s=scenario.duration_s,
            placement=balancing.placement,
            migration=balancing.migration,
            shuffle=balancing.shuffle,
            alpha=balancing.alpha,
            beta=balancing.beta,
            gamma=balancing.gamma,
            theta=balancing.theta,
            brokers=tuple(node.name for node in self.nodes),
            capacities=tuple(one.capacity for one in self.workload.brokers),
            samples=tuple(self._samples),
            plans=tuple(self.coordination.plans),
            totals=self._totals(),
            round_trips_ms=self._round_trips_ms(),
        )

    # Events

    def _schedule(self) -> None:
        """Schedule everything that is known before the run begins."""
        kernel, scenario, workload = self.kernel, self.scenario, self.workload
        for node in self.nodes:
            node.start()
        self.coordination.start()
        for number, channel in enumerate(workload.channels):
            kernel.at(channel.period_s, self._run_channel, number)
        for failure in sorted(scenario.failures, key=lambda one: (one.at_s, one.broker)):
            node = self.nodes[scenario.broker_names.index(failure.broker)]
            kernel.at(failure.at_s, node.fail)
            if failure.back_after_s is not None:
                kernel.at(failure.at_s + failure.back_after_s, node.start)
        clients, changes = self.clients, workload.changes
        self._follow_moments(workload.logins, clients.log_in)
        self._follow_moments(workload.logouts, clients.log_out)
        self._follow_moments(workload.subscribing, clients.subscribe)
        self._follow(
            changes.times_s,
            lambda at: clients.exchange(
                int(changes.subscribers[at]), float(changes.slots[at]), int(changes.wanted[at])
            ),
        )

    def _follow_moments(self, moments: Moments, action: Callable[[int], None]) -> None:
        self._follow(moments.times_s, lambda at: action(int(moments.subscribers[at])))

    def _follow(self, times_s: Floats, action: Callable[[int], None], at: int = 0) -> None:
        """Schedule the moments of an array one at a time: a million would make the queue large."""
        if at < len(times_s):
            self.kernel.at(float(times_s[at]), self._followed, times_s, action, at)

    def _followed(self, times_s: Floats, action: Callable[[int], None], at: int) -> None:
        action(at)
        self._follow(times_s, action, at + 1)

    def _pull(self, deliveries: Sequence[Delivery]) -> None:
        for node in self.nodes:
            node.pull(deliveries)

    def _run_channel(self, number: int) -> None:
        is_up = np.array([node.is_up for node in self.nodes])
        run = self.cluster.run(number, self.kernel.now_s, is_up)
        self.deliveries.run(run)
        self.coordination.observe(run)
        self.kernel.after(self.workload.channels[number].period_s, self._run_channel, number)

    # Records

    def _sample(self) -> Sample:
        reports = {one.record.name: one for one in self.coordination.broker_reports()}
        ordered = [reports[node.name] for node in self.nodes]
        loads = [0.0 if one.state is BrokerState.DEAD else one.load.total for one in ordered]
        counted = [self.cluster.in_bytes, self.deliveries.bytes, self.deliveries.counts]
        in_bytes, out_bytes, deliveries = (now - before for now, before in zip(counted, self._counted, strict=True))
        self._counted = [one.copy() for one in counted]
        return Sample(
            time_s=self.kernel.now_s,
            subscribers=tuple(node.state.connections if node.is_up else 0 for node in self.nodes),
            loads_bytes_per_s=tuple(loads),
            scores=tuple(load / one.record.capacity for load, one in zip(loads, ordered, strict=True)),
            in_bytes=tuple(map(float, in_bytes)),
            out_bytes=tuple(map(float, out_bytes)),
            deliveries=tuple(map(int, deliveries)),
            migrations=self.tally.migrations,
            alive=tuple(one.state is not BrokerState.DEAD for one in ordered),
        )

    def _round_trips_ms(self) -> tuple[float, ...]:
        if self._round_trips is None:
            return ()
        return tuple(sorted(self._round_trips.of(*pair) for pair in self.clients.connected()))

    def _totals(self) -> Totals:
        tally = self.tally
        return Totals(
            control_messages=tally.messages,
            placements=tally.placements,
            logins=tally.logins,
            logouts=tally.logouts,
            subscribes=tally.subscribes,
            unsubscribes=tally.unsubscribes,
            frontend_subscriptions=sum(node.state.frontends for node in self.nodes if node.is_up),
            backend_subscriptions=int(np.count_nonzero(self.cluster.ids)),
            deliveries=int(self.deliveries.counts.sum()),
            out_bytes=float(self.deliveries.bytes.sum()),
            in_bytes=float(self.cluster.in_bytes.sum()),
            migrations=tally.migrations,
            plans=tally.plans,
            failures=tally.failures,
        )

    def _deliveries(self, mode: Mode) -> Deliveries:
        brokers, slots = len(self.workload.brokers), len(self.workload.holds)
        match mode:
            case "summed":
                return SummedDeliveries(self.cluster, brokers, slots)
            case "single":
                return SingleDeliveries(self.cluster, brokers, slots)
            case _:
                assert_never(mode)


def label(placement: str, migration: str, shuffle: str) -> str:
    """
    >>> label("nearest", "ldm", "gsh"), label("random", "", "")
    ('nearest/ldm+gsh', 'random/none')
    """
    return f"{placement}/{'+'.join(one for one in (migration, shuffle) if one) or 'none'}"
