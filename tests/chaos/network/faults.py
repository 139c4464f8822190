"""Faults that end no process: it is paused, cut off, or its clock is wrong, and after a while all is well again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from chaos.network.links import Link, LinkState, Relays
from chaos.network.nodes import Server
from chaos.network.plans import BROKERS, CLUSTER, COORDINATOR, How, Kill
from chaos.process import ClusterProcess
from tocsin.runtime.ports import free_port

#: By how much a wall clock is wrong at most.
_MAX_SHIFT_S = 3600


class Surroundings:
    """What stands between the processes of a run: a relay on each way to and from a broker, and everybody's clock."""

    def __init__(self, folder: Path, seed: str, cluster_port: int) -> None:
        self._chance = random.Random(f"{seed}/surroundings")
        self._relays = Relays()
        self._folder = folder
        self.coordinator_port = free_port()
        self.broker_ports = {name: free_port() for name in BROKERS}
        #: By broker: the way to the cluster, to the coordinator, and from its subscribers.
        self.links: dict[str, tuple[Link, Link, Link]] = {
            name: (
                self._relays.link_to(cluster_port),
                self._relays.link_to(self.coordinator_port),
                self._relays.link_to(self.broker_ports[name]),
            )
            for name in BROKERS
        }
        for name in (*BROKERS, COORDINATOR, CLUSTER):
            self.clock(name).write_text("0")

    def clock(self, name: str) -> Path:
        """The file that says by how many seconds somebody's clock is off."""
        return self._folder / f"{name}.clock"

    def module(self, name: str) -> list[str]:
        """What to run instead of `tocsin`."""
        return ["chaos.shifted", str(self.clock(name))]

    def close(self) -> None:
        self._relays.close()

    def inflict(self, fault: Kill, processes: Mapping[str, Server | ClusterProcess]) -> str:
        """Do it, wait, undo it; returns what was done."""
        target = fault.targets[0]
        begin, end, what = self._way(fault.how, target, processes[target])
        begin()
        try:
            time.sleep(fault.down_s)  # How long it lasts is the fault itself.
        finally:
            end()
        return f"{what} for {fault.down_s:.1f} s"

    def _way(
        self, how: How, target: str, process: Server | ClusterProcess
    ) -> tuple[Callable[[], None], Callable[[], None], str]:
        if how is How.PAUSE:
            return process.pause, process.resume, f"{target} paused"
        if how is How.PARTITION:
            links = self._chance.sample(self.links[target], self._chance.randint(1, 3))
            state = self._chance.choice((LinkState.FROZEN, LinkState.CUT))

            def put(wanted: LinkState) -> None:
                for link in links:
                    link.set(wanted)

            return lambda: put(state), lambda: put(LinkState.OPEN), f"{len(links)} links of {target} {state}"
        if how is How.CLOCK:
            shift_s = self._chance.randint(-_MAX_SHIFT_S, _MAX_SHIFT_S)
            file = self.clock(target)
            return (
                lambda: _write(file, shift_s),
                lambda: _write(file, 0),
                f"the clock of {target} off by {shift_s} s",
            )
        raise AssertionError(f"{how} ends a process")


def _write(file: Path, shift_s: int) -> None:
    file.write_text(str(shift_s))
