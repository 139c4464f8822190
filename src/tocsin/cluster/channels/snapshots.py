"""Snapshots: telling new subscribers of a channel WITH SNAPSHOT what holds, at the border between two windows.

A snapshot is a run whose window begins at zero and ends at the channel's bound. It is committed together with the
number of the last request that it serves, while no window is run. So the results of every window lie before it or
after it as a whole, and what it shows is what the windows before it covered: there is no gap, and nothing comes twice.
A process that dies in between repeats it, at whatever bound there is then.

All who wait are served by one run. If that is too large or fails, the subscriptions are halved, until one that can't
have a snapshot is left: the end of its snapshot says why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import structlog

from tocsin.cluster.channels.core.snapshot_rows import snapshot_outputs
from tocsin.cluster.channels.runs import RunFailed, RunTooLarge, SnapshotPart, output_of
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.results.backend_subscriptions import SubscriptionRegistry
from tocsin.cluster.results.snapshot_requests import SnapshotRequest
from tocsin.cluster.results.store import Committed, ResultStore

log = structlog.get_logger(__name__)

#: Requests that one run serves at most; others follow.
_MOST_AT_ONCE = 20_000

Hidden = Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class Snapshots:
    """`lock` is held while subscriptions change: whoever has a request is among the channel's subscriptions once it is
    free. `run` finds what holds. `set_aside` has the rows of watched datasets that the channel can't be run for: those
    that fail with every subscription, or with any. `commit` makes outputs durable with the number of the last request
    that they serve.

    Windows wait meanwhile, so after `patience_s` what fails is not halved any more."""

    registry: SubscriptionRegistry
    lock: AbstractContextManager[object]
    results: ResultStore
    most_rows: int
    run: Callable[[ChannelState, Mapping[str, int], SnapshotPart], pa.Table]
    set_aside: Callable[[ChannelState, Mapping[str, int], bool], Hidden]
    commit: Callable[[ChannelState, Sequence[pa.Table], int], Committed]
    now_s: Callable[[], float]
    patience_s: float

    def serve(self, state: ChannelState) -> bool:
        """Serve those who wait by now; returns whether there may be more. Who comes meanwhile is served after the next
        window, which must not wait for ever. The caller keeps runs from beginning, and no window is begun in parts."""
        name = state.channel.name
        requests, until_s = self._waiting(name), self.now_s() + self.patience_s
        todo: list[tuple[list[SnapshotRequest], Hidden]] = [(requests, {})] if requests else []
        while todo:
            block, hidden = todo.pop()
            # In the order of their numbers, the first half on top.
            todo += reversed(self._try(state, block, hidden, until_s))
        if requests:
            self.registry.forget_snapshot_requests(name, self.results.snapshots_served(name))
        return len(requests) == _MOST_AT_ONCE

    def without_newcomers(self, state: ChannelState, rows: pa.Table) -> pa.Table:
        """A window's rows without those of subscriptions that wait for their first snapshot: it will have what they
        say, if that still holds. Call it after the run: who comes later is not in `rows`."""
        if not state.channel.snapshot or not rows.num_rows:
            return rows
        name = state.channel.name
        requests = self.registry.snapshot_requests(name, self.results.snapshots_served(name))
        new = [one.subscription for one in requests if one.is_first]
        if not new:
            return rows
        return rows.filter(pc.invert(pc.is_in(rows.column("subscription"), value_set=pa.array(new, pa.int64()))))

    def _waiting(self, channel: str) -> list[SnapshotRequest]:
        with self.lock:
            return self.registry.snapshot_requests(channel, self.results.snapshots_served(channel), _MOST_AT_ONCE)

    def _try(
        self, state: ChannelState, block: list[SnapshotRequest], hidden: Hidden, until_s: float
    ) -> list[tuple[list[SnapshotRequest], Hidden]]:
        """Run and commit a block; returns the blocks to try instead if it can't be run."""
        through = border(self.results, state)
        ids = sorted({one.subscription for one in block} - state.failed)
        try:
            found = self._run(state, through, ids, hidden)
        except (RunFailed, RunTooLarge) as exc:
            log.warning("a snapshot failed; trying smaller parts", channel=state.channel.name, reason=str(exc))
            if self.now_s() > until_s:
                self._give_up(state, block, ids, exc)
                return []
            if not hidden and isinstance(exc, RunFailed) and (known := self.set_aside(state, through, False)):
                return [(block, known)]
            if len(ids) > 1:
                middle = len(block) // 2
                return [(block[:middle], hidden), (block[middle:], hidden)]
            self._alone(state, block, hidden, exc)
        else:
            self._commit(state, block, ids, found)
        return []

    def _run(self, state: ChannelState, through: Mapping[str, int], ids: Sequence[int], hidden: Hidden) -> pa.Table:
        if not ids:
            return output_of(state.compiled).empty_table()
        return self.run(state, through, SnapshotPart(ids, hidden))

    def _alone(self, state: ChannelState, block: list[SnapshotRequest], hidden: Hidden, exc: Exception) -> None:
        """One subscription can't be run: try with fewer results, or without all rows that were ever set aside."""
        through = border(self.results, state)
        one, most_rows, reason = block[0].subscription, None, ""
        if isinstance(exc, RunTooLarge):
            most_rows = self.most_rows + 1
        else:
            hidden, reason = self.set_aside(state, through, True), "records that failed for others are left out"
        try:
            found = self.run(state, through, SnapshotPart([one], hidden, most_rows))
        except (RunFailed, RunTooLarge) as failure:
            self._give_up(state, block, [one], failure)
        else:
            self._commit(state, block, [one], found, reason)

    def _give_up(self, state: ChannelState, block: list[SnapshotRequest], ids: Sequence[int], exc: Exception) -> None:
        nothing = output_of(state.compiled).empty_table()
        self._commit(state, block, ids, nothing, f"there is no snapshot: {exc}")

    def _commit(
        self, state: ChannelState, block: list[SnapshotRequest], ids: Sequence[int], found: pa.Table, reason: str = ""
    ) -> None:
        # Of a channel that has become one WITH EXITS nothing in a snapshot is held, and nobody hears of its end.
        is_keyed = state.compiled.exits is None
        first = {one.subscription for one in block if one.is_first and is_keyed}
        outputs = snapshot_outputs(found, ids, first, most_rows=self.most_rows, reason=reason)
        self.commit(state, outputs, block[-1].number)


def border(results: ResultStore, state: ChannelState) -> dict[str, int]:
    """The commits of the watched datasets up to which the channel's windows reach: a snapshot covers the same."""
    return {name: results.bound(state.channel.name, name) or 0 for name in state.compiled.windows}
