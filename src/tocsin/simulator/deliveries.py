"""Counting what brokers deliver: summed up run by run, or message by message.

Both count the same. When deliveries are summed, the brokers' machines are told of no results: how many connected
subscribers hold what is known from the machines' own answers, a run is a product of that with the results' sizes, and
whoever comes back is owed what has come since. Message by message, the machines are told of every pull, and deliver and
catch up as they do over sockets.

To agree to the byte, brokers pull at the very moment of a run, history is fetched without delay, and nothing is
acknowledged: subscribers bring their positions along whenever they connect, and acknowledgements would only add to what
brokers report. What a broker fetches from history for those who come back is not counted as incoming: how much that is
depends on its cache.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tocsin.model.position import Position
from tocsin.protocol.ports import Delivery
from tocsin.simulator.cluster import ChannelRun, Cluster

Wide = NDArray[np.int64]


class Deliveries(Protocol):
    """A slot is one subscriber's place for a subscription: see `Workload.holds`."""

    #: By broker, since the beginning.
    counts: Wide
    bytes: Wide

    def position(self, slot: int) -> int:
        """The sequence up to which this slot's subscriber has everything."""
        ...

    def join(self, broker: int, slot: int, backend: int, *, carried_on: bool, position: str) -> None:
        """From now on the slot's subscriber is sent what comes, and if it is `carried_on`, what it has missed."""
        ...

    def leave(self, broker: int, slots: NDArray[np.int64], backends: NDArray[np.int32]) -> None:
        """Their subscriber has gone, or does not want them any more."""
        ...

    def run(self, run: ChannelRun) -> None: ...


class SummedDeliveries:
    def __init__(self, cluster: Cluster, brokers: int, slots: int) -> None:
        self._cluster = cluster
        self.counts: Wide = np.zeros(brokers, np.int64)
        self.bytes: Wide = np.zeros(brokers, np.int64)
        #: How many of each broker's connected subscribers hold each backend subscription.
        self.holders: NDArray[np.int32] = np.zeros((brokers, len(cluster.counts)), np.int32)
        #: What had come when the slot's subscriber left.
        self._counts_left: Wide = np.zeros(slots, np.int64)
        self._bytes_left: Wide = np.zeros(slots, np.int64)

    def position(self, slot: int) -> int:  # noqa: ARG002 - nobody has got anywhere
        return 0

    def join(self, broker: int, slot: int, backend: int, *, carried_on: bool, position: str) -> None:  # noqa: ARG002
        self.holders[broker, backend] += 1
        if carried_on:
            self.counts[broker] += self._cluster.counts[backend] - self._counts_left[slot]
            self.bytes[broker] += self._cluster.bytes[backend] - self._bytes_left[slot]

    def leave(self, broker: int, slots: NDArray[np.int64], backends: NDArray[np.int32]) -> None:
        self.holders[broker, backends] -= 1
        self._counts_left[slots] = self._cluster.counts[backends]
        self._bytes_left[slots] = self._cluster.bytes[backends]

    def run(self, run: ChannelRun) -> None:
        holders = self.holders[:, run.first : run.last]
        self.counts += holders.sum(axis=1)
        self.bytes += holders @ run.sizes_bytes


class SingleDeliveries:
    """`pull` hands a broker its results; whatever its machine then delivers is told to `delivered`."""

    def __init__(self, cluster: Cluster, brokers: int, slots: int) -> None:
        self._cluster = cluster
        self.counts: Wide = np.zeros(brokers, np.int64)
        self.bytes: Wide = np.zeros(brokers, np.int64)
        self._positions: Wide = np.zeros(slots, np.int64)
        self._history: list[Delivery] = []
        self.pull: Callable[[Sequence[Delivery]], None] = lambda _: None

    def position(self, slot: int) -> int:
        return int(self._positions[slot])

    def join(self, broker: int, slot: int, backend: int, *, carried_on: bool, position: str) -> None:  # noqa: ARG002
        if not carried_on:
            self._positions[slot] = Position.parse(position).sequence

    def leave(self, broker: int, slots: NDArray[np.int64], backends: NDArray[np.int32]) -> None:
        """The machine has been told."""

    def run(self, run: ChannelRun) -> None:
        found = []
        for backend, size_bytes in zip(range(run.first, run.last), run.sizes_bytes.tolist(), strict=True):
            self._cluster.sequence += 1
            if subscription := int(self._cluster.ids[backend]):
                wire = f"{subscription}-{self._cluster.sequence} ".encode().ljust(size_bytes)
                found.append(Delivery(subscription, self._cluster.sequence, wire))
        self._history += found
        self.pull(found)

    def history(self, after: dict[int, int]) -> list[Delivery]:
        """The results of these subscriptions, each after its sequence."""
        return [one for one in self._history if one.sequence > after.get(one.subscription, self._cluster.sequence)]

    def delivered(self, broker: int, slot: int, sequence: int, size_bytes: int) -> None:
        """A broker that has just begun again may repeat what it finds in an old report: subscribers drop repeats."""
        if sequence > self._positions[slot]:
            self._positions[slot] = sequence
            self.counts[broker] += 1
            self.bytes[broker] += size_bytes
