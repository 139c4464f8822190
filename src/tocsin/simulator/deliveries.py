"""Counts the brokers' deliveries: summed up run by run, or message by message.

Both give the same counts. When deliveries are summed, the brokers' machines get no results. The machines' own answers
tell how many connected subscribers hold each subscription; a run multiplies that by the results' sizes, and a
subscriber who comes back is owed all results since it left. Message by message, the machines get every pull, deliver
and catch up as they do over sockets, and sessions drop repeats.

A result counts if a broker sends it over a connection and it comes after the position that was asked for there. Two
brokers send the same to a moving subscriber for a moment, and both count it: that is the cost of make-before-break.

To agree to the byte, brokers pull at the very moment of a run, history is fetched without delay, and nothing is
acknowledged to brokers: subscribers bring their positions whenever they connect, and acknowledgements would only
enlarge the brokers' reports. History that a broker fetches for returning subscribers is not counted as incoming: its
size depends on the broker's cache.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tocsin.model.position import Position
from tocsin.protocol.ports import Delivery
from tocsin.simulator.cluster import ChannelRun, Cluster

Wide = NDArray[np.int64]


#: A point in a slot's history. Only the deliveries that made it can read it.
Mark = tuple[int, int]


class Deliveries(Protocol):
    """A slot is one subscriber's room for a subscription: see `Workload.holds`."""

    #: By broker, since the beginning.
    counts: Wide
    bytes: Wide

    def position(self, slot: int) -> int:
        """The sequence up to which this slot's subscriber has everything."""
        ...

    def mark(self, slot: int, backend: int) -> Mark:
        """The point that the slot's subscriber, who is live, has reached."""
        ...

    def join(
        self, broker: int, connection: int, slot: int, backend: int, position: str, after: Mark | None, carried_on: bool
    ) -> None:
        """From now on the slot's subscriber gets results after `position`, and if it is `carried_on`, those since the
        mark `after`, or since it left."""
        ...

    def leave(self, broker: int, connection: int, slot: int, backend: int) -> None:
        """The connection is gone, or the subscriber has given this up."""
        ...

    def run(self, run: ChannelRun) -> None: ...


class SummedDeliveries:
    def __init__(self, cluster: Cluster, brokers: int, slots: int) -> None:
        self._cluster = cluster
        self.counts: Wide = np.zeros(brokers, np.int64)
        self.bytes: Wide = np.zeros(brokers, np.int64)
        #: How many of each broker's connected subscribers hold each backend subscription.
        self.holders: NDArray[np.int32] = np.zeros((brokers, len(cluster.counts)), np.int32)
        # To read and change single numbers, views take a fifth of the arrays' time.
        self._holders = self.holders.reshape(-1).data
        self._backends = len(cluster.counts)
        self._counts = self.counts.data
        self._bytes = self.bytes.data
        self._counts_now = cluster.counts.data
        self._bytes_now = cluster.bytes.data
        #: The results so far when the slot's subscriber left.
        self._counts_left = array("q", bytes(8 * slots))
        self._bytes_left = array("q", bytes(8 * slots))

    def position(self, slot: int) -> int:  # noqa: ARG002 - nobody has got anywhere
        return 0

    def mark(self, slot: int, backend: int) -> Mark:  # noqa: ARG002
        return self._counts_now[backend], self._bytes_now[backend]

    def join(
        self,
        broker: int,
        connection: int,  # noqa: ARG002
        slot: int,
        backend: int,
        position: str,  # noqa: ARG002
        after: Mark | None,
        carried_on: bool,
    ) -> None:
        self._holders[broker * self._backends + backend] += 1
        if carried_on:
            count, size_bytes = after or (self._counts_left[slot], self._bytes_left[slot])
            self._counts[broker] += self._counts_now[backend] - count
            self._bytes[broker] += self._bytes_now[backend] - size_bytes

    def leave(self, broker: int, connection: int, slot: int, backend: int) -> None:  # noqa: ARG002
        self._holders[broker * self._backends + backend] -= 1
        self._counts_left[slot] = self._counts_now[backend]
        self._bytes_left[slot] = self._bytes_now[backend]

    def run(self, run: ChannelRun) -> None:
        holders = self.holders[:, run.first : run.last]
        self.counts += holders @ (run.sizes_bytes > 0).astype(np.int64)
        self.bytes += holders @ run.sizes_bytes


class SingleDeliveries:
    """`pull` hands a broker its results; each delivery of its machine is then given to `delivered`."""

    def __init__(self, cluster: Cluster, brokers: int, slots: int) -> None:
        self._cluster = cluster
        self.counts: Wide = np.zeros(brokers, np.int64)
        self.bytes: Wide = np.zeros(brokers, np.int64)
        self._positions: Wide = np.zeros(slots, np.int64)
        #: By connection and slot: the sequence up to which everything was sent, or nothing was asked for.
        self._sent: dict[tuple[int, int], int] = {}
        self._history: list[Delivery] = []
        self.pull: Callable[[Sequence[Delivery]], None] = lambda _: None

    def position(self, slot: int) -> int:
        return int(self._positions[slot])

    def mark(self, slot: int, backend: int) -> Mark:  # noqa: ARG002
        return self.position(slot), 0

    def join(
        self,
        broker: int,  # noqa: ARG002
        connection: int,
        slot: int,
        backend: int,
        position: str,
        after: Mark | None,
        carried_on: bool,
    ) -> None:
        if not carried_on:
            self._positions[slot] = Position.parse(position).sequence
        sent, _ = after if carried_on and after else self.mark(slot, backend)
        self._sent[connection, slot] = sent

    def leave(self, broker: int, connection: int, slot: int, backend: int) -> None:  # noqa: ARG002
        del self._sent[connection, slot]

    def run(self, run: ChannelRun) -> None:
        found = []
        for backend, size_bytes in zip(range(run.first, run.last), run.sizes_bytes.tolist(), strict=True):
            if not size_bytes:
                continue
            self._cluster.sequence += 1
            if subscription := int(self._cluster.ids[backend]):
                wire = f"{subscription}-{self._cluster.sequence} ".encode().ljust(size_bytes)
                found.append(Delivery(subscription, self._cluster.sequence, wire))
        self._history += found
        self.pull(found)

    def history(self, after: dict[int, int]) -> list[Delivery]:
        """The results of these subscriptions, each after its sequence."""
        return [one for one in self._history if one.sequence > after.get(one.subscription, self._cluster.sequence)]

    def delivered(self, broker: int, connection: int, slot: int, sequence: int, size_bytes: int) -> None:
        """A broker that has just begun again may repeat results because of an old report: they do not count."""
        if sequence > self._sent[connection, slot]:
            self._sent[connection, slot] = sequence
            self._positions[slot] = max(self._positions[slot], sequence)
            self.counts[broker] += 1
            self.bytes[broker] += size_bytes
