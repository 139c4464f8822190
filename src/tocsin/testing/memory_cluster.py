"""A data cluster in memory: exact, and small enough to be read. It finds results when a test calls `run`."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tocsin.errors import FilledOtherwise, NotFound, TocsinError, WrongEntries
from tocsin.model.position import position_text, reached
from tocsin.model.results import PHASE_AFTER, ResultKind
from tocsin.protocol.ports import BackendHold, ClusterPort, Delivery
from tocsin.protocol.subscription_keys import SubscriptionKey


class MemoryCluster:
    """Backend subscriptions, the brokers that hold them, and all results. `filled` has channels with the parameters
    that are filled in for subscribers; if `channels` is given, there are no others; `with_snapshot` has those that are
    WITH SNAPSHOT."""

    def __init__(
        self,
        filled: Mapping[str, Mapping[str, str]] | None = None,
        channels: Collection[str] | None = None,
        with_snapshot: Collection[str] = (),
    ) -> None:
        self._filled = dict(filled or {})
        self._channels = channels
        self._with_snapshot = with_snapshot
        self._last_id = 0
        self._ids: dict[SubscriptionKey, int] = {}
        self.keys: dict[int, SubscriptionKey] = {}
        self._holders: dict[int, set[str]] = {}
        self.sequence = 0
        #: Subscription and sequence, oldest first.
        self.results: list[tuple[int, int]] = []
        #: Of those that are no plain results.
        self.kinds: dict[int, ResultKind] = {}
        #: Subscriptions that wait for a snapshot.
        self._waiting_for_snapshot: dict[int, None] = {}
        self._waiting: set[asyncio.Future[None]] = set()

    def link(self, broker: str) -> ClusterPort:
        """A broker's link to this cluster."""
        return MemoryClusterLink(self, broker)

    def run(self) -> None:
        """A run of all channels: one result for every subscription."""
        self.sequence += 1
        for one in self._ids.values():
            self._add(one)
        self._announce()

    def serve_snapshots(self) -> None:
        """A snapshot for every subscription that waits for one: up to two rows between its beginning and its end."""
        if not self._waiting_for_snapshot:
            return
        self.sequence += 1
        for one in self._waiting_for_snapshot:
            rows = [ResultKind.SNAPSHOT] * (self.sequence % 3)
            for kind in (ResultKind.SNAPSHOT_BEGIN, *rows, ResultKind.SNAPSHOT_END):
                self._add(one, kind)
        self._waiting_for_snapshot.clear()
        self._announce()

    def _add(self, one: int, kind: ResultKind = ResultKind.RESULT) -> None:
        self.sequence += 1
        self.results.append((one, self.sequence))
        if kind is not ResultKind.RESULT:
            self.kinds[self.sequence] = kind

    def _announce(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    # Requests of brokers

    def refusals(self, keys: Sequence[SubscriptionKey]) -> dict[int, TocsinError]:
        """The indexes of keys that can't be held, with reasons."""
        wrong: dict[int, TocsinError] = {}
        for at, key in enumerate(keys):
            filled = self._filled.get(key.channel, {})
            if self._channels is not None and key.channel not in self._channels:
                wrong[at] = NotFound(f"there is no channel {key.channel}")
            elif key.filled != tuple(sorted(filled)):
                wrong[at] = FilledOtherwise("other parameters are filled in", filled)
        return wrong

    def acquire(self, broker: str, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        if wrong := self.refusals(keys):
            raise WrongEntries(f"{len(wrong)} are wrong", wrong)
        for key in keys:
            if key not in self._ids:
                self._last_id += 1
                self._ids[key] = self._last_id
                self.keys[self._last_id] = key
                self._holders[self._last_id] = set()
                if key.channel in self._with_snapshot:
                    self._waiting_for_snapshot[self._last_id] = None
            self._holders[self._ids[key]].add(broker)
        return [self._hold(self._ids[key]) for key in keys]

    def request_snapshots(self, broker: str, ids: Sequence[int]) -> None:
        self._waiting_for_snapshot.update((one, None) for one in ids if broker in self._holders.get(one, ()))

    def release(self, broker: str, ids: Sequence[int]) -> None:
        if missing := [one for one in ids if broker not in self._holders.get(one, ())]:
            raise NotFound(f"{broker} does not hold subscription {missing[0]}")
        for one in ids:
            self._holders[one].discard(broker)
            if not self._holders[one]:
                del self._holders[one], self._ids[self.keys.pop(one)]
                self._waiting_for_snapshot.pop(one, None)

    def held(self, broker: str) -> list[BackendHold]:
        return [self._hold(one) for one in self._held_by(broker)]

    def pull(self, broker: str, after: int) -> tuple[list[Delivery], int]:
        held = self._held_by(broker)
        return self._select(dict.fromkeys(held, after)), max(after, self.sequence)

    def history(self, after: Mapping[int, int], limit: int) -> tuple[list[Delivery], int]:
        found = self._select(after)
        if len(found) > limit:
            return found[:limit], found[limit - 1].sequence
        return found, max(self.sequence, *after.values())

    async def wait(self, after: int, wait_s: float) -> None:
        """Wait until there is a result after a cursor, or the time is up."""
        if self.sequence <= after:
            future = asyncio.get_running_loop().create_future()
            self._waiting.add(future)
            await asyncio.wait([future], timeout=wait_s)
            self._waiting.discard(future)

    def _held_by(self, broker: str) -> list[int]:
        return [one for one, holders in self._holders.items() if broker in holders]

    def _select(self, after: Mapping[int, int]) -> list[Delivery]:
        return [
            self._delivery(one, sequence) for one, sequence in self.results if one in after and sequence > after[one]
        ]

    def _delivery(self, one: int, sequence: int) -> Delivery:
        kind = self.kinds.get(sequence, ResultKind.RESULT)
        wire = position_text(one, reached(sequence, PHASE_AFTER[kind])).encode()
        return Delivery(one, sequence, wire, kind=kind)

    def _hold(self, one: int) -> BackendHold:
        key = self.keys[one]
        filled = self._filled.get(key.channel, {})
        return BackendHold(
            one,
            key.channel,
            key.parameter_values(),
            key.permission,
            self.sequence,
            filled=filled,
            snapshot=key.channel in self._with_snapshot,
        )


@dataclass(eq=False)
class MemoryClusterLink:
    run: ClassVar[str] = "in memory"

    cluster: MemoryCluster
    broker: str
    #: By feed.
    published: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)

    async def register(self) -> int:
        return self.cluster.sequence

    async def held(self) -> list[BackendHold]:
        return self.cluster.held(self.broker)

    async def acquire(self, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        return self.cluster.acquire(self.broker, keys)

    async def request_snapshots(self, ids: Sequence[int]) -> None:
        self.cluster.request_snapshots(self.broker, ids)

    async def release(self, ids: Sequence[int]) -> None:
        self.cluster.release(self.broker, ids)

    async def pull(self, after: int, wait_s: float) -> tuple[list[Delivery], int, int]:
        await self.cluster.wait(after, wait_s)
        found, through = self.cluster.pull(self.broker, after)
        return found, through, sum(len(one.wire) for one in found)

    async def history(self, after: Mapping[int, int]) -> tuple[list[Delivery], int]:
        return self.cluster.history(after, 1_000)

    async def publish(self, feed: str, records: Sequence[Mapping[str, Any]]) -> None:
        self.published.setdefault(feed, []).extend(records)

    async def close(self) -> None:
        pass
