"""WITH EXITS at the results: which rows of a run are results, and which held keys have ended.

A key is *held* from a result until its exit. Both are rows of the results table, so what is held changes with them and
with the window's bound; it can be made anew from tables at any time, like all keys that are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.results.core.held_keys import HeldKeys, Keys, Touched, split_touched
from tocsin.cluster.results.core.result_keys import NEVER_US, KeyRun, Mask, Numbers, newest, spread
from tocsin.cluster.results.digests import bytes_of, digests_of, halves_of_digests, keys_of

#: In place of a row; an exit tells nothing but its key.
EXIT_PAYLOAD = "{}"
#: A channel's rows as they are committed; `held` is false for an exit.
_ROWS = pa.schema([("subscription", pa.int64()), ("payload", pa.string()), ("key", pa.binary()), ("held", pa.bool_())])
#: Of the rows of the results table, and of the table of keys.
_STORED = pa.schema(
    [
        ("subscription", pa.int64()),
        ("sequence", pa.int64()),
        ("channel", pa.string()),
        ("key", pa.binary()),
        ("committed_at", pa.timestamp("us", tz="UTC")),
        ("held", pa.bool_()),
    ]
)


@dataclass(frozen=True, slots=True)
class Exits:
    """What a run has found out about keys that were results before."""

    #: Rows (subscription, key) of what may have ended; a null stands for any. None: anything may have.
    touched: pa.Table | None
    #: Rows (subscription, key) of what still holds, among what is touched.
    holding: pa.Table
    #: Which subscriptions the run was for, and are at work.
    is_checked: Callable[[Numbers], Mask]


class HeldByChannel:
    """The held keys of all channels WITH EXITS."""

    def __init__(self) -> None:
        self._held: dict[str, HeldKeys] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def of(self, channel: str) -> HeldKeys:
        return self._held.setdefault(channel.lower(), HeldKeys())

    def learn(self, tables: Iterable[pa.Table]) -> None:
        """Take in stored rows that are newer than everything before. Their order is that of their sequences."""
        rows = _joined(tables)
        for channel in pc.unique(rows.column("channel")).to_pylist():
            mine = rows.filter(pc.equal(rows.column("channel"), channel))
            at_us = np.where(
                mine.column("held").to_numpy(), mine.column("committed_at").cast(pa.int64()).to_numpy(), NEVER_US
            )
            run = run_of(mine, at_us)
            self.of(channel).add(newest([run], mine.column("sequence").to_numpy()))

    def filter(self, is_kept: Callable[[KeyRun], Mask]) -> None:
        for held in self._held.values():
            held.filter(is_kept)

    def result_us(self) -> list[Numbers]:
        """When held keys were last a result."""
        return [held.everything().result_us for held in self._held.values()]

    def subscriptions(self, channel: str) -> Numbers:
        """The subscriptions of a channel that have held keys, sorted."""
        return np.unique(self.of(channel).everything().subscriptions)

    def choose(
        self, channel: str, output: pa.Table, now_us: int, within_us: int | None, exits: Exits
    ) -> tuple[pa.Table, KeyRun]:
        """The rows to commit, and the run to `add` once they are: exits first, since a key may come anew."""
        held = self.of(channel)
        ended = held.exits(_touched(exits.touched), lambda: keys_of(exits.holding), exits.is_checked)
        digests, first, second = digests_of(output.column("key"))
        subscriptions = output.column("subscription").to_numpy()
        chosen = held.choose(spread(first, subscriptions), second, subscriptions, now_us, within_us)
        results = pa.table(
            [output.column("subscription"), output.column("payload"), digests, pa.repeat(True, output.num_rows)],
            schema=_ROWS,
        ).filter(pa.array(chosen.is_result))
        return pa.concat_tables([_exit_rows(ended), results]), newest([ended.run(NEVER_US), chosen.run])


def run_of(rows: pa.Table, result_us: Numbers) -> KeyRun:
    """The keys of stored rows, in the order of the rows."""
    first, second = halves_of_digests(rows.column("key").combine_chunks())
    subscriptions = rows.column("subscription").to_numpy()
    return KeyRun(spread(first, subscriptions), second, subscriptions, result_us)


def still_held(tables: Sequence[pa.Table]) -> Numbers:
    """The sequences of the stored results that no later stored row repeats or ends, sorted."""
    rows = _joined(tables)
    sequences = rows.column("sequence").to_numpy()
    # The sequence in place of the time, and its sign for an exit.
    signed = np.where(rows.column("held").to_numpy(), sequences, -sequences)
    found = newest([run_of(rows, signed)], sequences).result_us
    return np.sort(found[found > 0])


def _joined(tables: Iterable[pa.Table]) -> pa.Table:
    """The rows that have to do with exits."""
    parts = (table.select(_STORED.names).cast(_STORED) for table in tables)
    return pa.concat_tables([_STORED.empty_table(), *(part.filter(part.column("held").is_valid()) for part in parts)])


def _touched(rows: pa.Table | None) -> Touched | None:
    if rows is None:
        return None
    has_subscription = rows.column("subscription").is_valid().to_numpy()
    has_key = rows.column("key").is_valid().to_numpy()
    filled = rows.set_column(0, "subscription", rows.column("subscription").fill_null(0))
    filled = filled.set_column(1, "key", filled.column("key").fill_null(""))
    return split_touched(keys_of(filled), has_subscription, has_key)


def _exit_rows(ended: Keys) -> pa.Table:
    columns = [
        pa.array(ended.subscriptions),
        pa.repeat(pa.scalar(EXIT_PAYLOAD), len(ended)),
        bytes_of(ended),
        pa.repeat(pa.scalar(False), len(ended)),
    ]
    return pa.table(columns, schema=_ROWS)
