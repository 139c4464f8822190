"""Results of channel runs: durable, with positions.

A run's results and the bounds of the window they came from are one commit of the results table, so a window is either
done with all its results or not at all. If a commit of a dataset has more results than can be held at once, they come
in parts, by subscription; the bound then moves with the last part. A run that found nothing moves its bound in memory
only; the next commit or `flush` makes it durable. If the process dies in between, the window is run again and finds
nothing again.

A commit is announced only when it would survive a power cut, and a bound is durable only after the rows up to it.
Otherwise the rows would come again, from the landing log, below a bound where no run looks for them.

Rows of a channel with ONCE PER come with a key. A row whose key was a result before is left out here, before rows get
their numbers, under the lock under which they are committed. `remembered_keys` knows these keys. With exits, results
that have ended are found here too (`exits`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results.commit_event import CommitEvent
from tocsin.cluster.results.exits import Exits
from tocsin.cluster.results.latest import LatestResults
from tocsin.cluster.results.numbering import Numbering
from tocsin.cluster.results.remembered_keys import KEYED, Learned, RememberedKeys
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.retention import ResultRetention
from tocsin.errors import HistoryRewound, NotFound
from tocsin.model.position import ROWS_PER_NUMBER, commit_of, end_of, sequence_of

SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("subscription", pa.int64()),
        ("channel", pa.string()),
        ("payload", pa.string()),
        ("committed_at", pa.timestamp("us", tz="UTC")),
        #: A digest of the values of ONCE PER; null for results that have no key.
        ("key", pa.binary()),
        #: Of channels WITH EXITS: whether this is a result, after which the key is held, or an exit. Null for others.
        ("held", pa.bool_()),
        #: A value of `ResultKind`; null for results, as in tables of earlier versions.
        ("kind", pa.string()),
    ]
)
_WHOSE = ["subscription", "sequence"]
#: Bytes of payloads in one pull: server and broker hold several times as much in memory for it.
_MAX_PULL_BYTES = 16 << 20
#: Results per deletion; each deletion rewrites the files that hold them.
_FORGOTTEN_AT_ONCE = 10_000
#: How many numbers the first step of a long pull reads, and of a search for keys: a million results at most. It is
#: doubled while steps bring little, for keys up to the second figure, since the next step may bring much.
_FIRST_STRIDE = 64
_LAST_KEYS_STRIDE = 1024
_FEW_KEYS = 100_000

#: How many keys `ONCE PER` remembers, unless a setting says otherwise.
_MOST_KEYS = 100_000_000

#: (channel, dataset) → the commit of the dataset up to which the channel has run.
Bounds = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class Pulled:
    """Rows in sequence order, and the sequence up to which they are complete."""

    rows: pa.Table
    through: int


@dataclass(frozen=True, slots=True)
class Committed:
    """The (last) number of a commit, None if there was nothing to write; and by channel the rows that are results."""

    number: int | None
    rows: Mapping[str, pa.Table]


class ResultStore:
    def __init__(
        self,
        path: Path,
        removals: Removals,
        numbering: Numbering,
        *,
        recent_max_bytes: int,
        sync_datasets: Callable[[Collection[str]], None] = lambda _names: None,
        most_keys: int = _MOST_KEYS,
    ) -> None:
        """`sync_datasets` makes the commits of these datasets survive a power cut."""
        #: Pulls wait on it.
        self.committed = CommitEvent()
        self._numbering = numbering
        self._sync_datasets = sync_datasets
        self.table = Table(path, SCHEMA, recent_max_bytes=recent_max_bytes)
        self._ahead: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self.keys = RememberedKeys(path.with_name("result_keys"), self._read_keys, self._lock, most=most_keys)
        self.retention = ResultRetention(
            self.table, removals, lambda marks: self._append_to_table(SCHEMA.empty_table(), marks)
        )
        self._latest = LatestResults(self.last_sequence, self._read_kept)
        begin, self._gaps = numbering.begin(self.table.sequence)
        self.table.skip_to(begin)

    @property
    def tables(self) -> tuple[Table, Table]:
        return self.table, self.keys.table

    def load_keys(self) -> None:
        """Bring the keys of results into memory now, rather than when the first run needs them."""
        with self._lock:
            self.keys.load(self.table.next_number() - 1)

    @property
    def last_sequence(self) -> int:
        """The highest sequence that an announced result can have."""
        return end_of(self.table.durable)

    @property
    def earliest_sequence(self) -> int:
        """Retention has removed all results up to and including this sequence."""
        return self.retention.earliest_sequence

    def bound(self, channel: str, dataset: str) -> int | None:
        """How far `channel` has run over `dataset`; None if it never did."""
        with self._lock:
            ahead = self._ahead.get((channel, dataset))
        committed = self.table.transaction(_window_app(channel, dataset))
        # A commit that seemed to fail may have moved it further than the bound in memory.
        return committed if ahead is None else max(ahead, committed or 0)

    def part_done(self, channel: str, dataset: str, commit: int) -> int:
        """The subscription up to which the results of this commit of the dataset are there already; 0 if none are."""
        if self.table.transaction(_part_app(channel, dataset, "commit")) != commit:
            return 0
        return self.table.transaction(_part_app(channel, dataset, "subscription")) or 0

    def commit_part(
        self,
        channel: str,
        output: pa.Table,
        part: tuple[str, int, int],
        now_us: int,
        within_us: Mapping[str, int] = MappingProxyType({}),
        exits: Mapping[str, Exits] = MappingProxyType({}),
    ) -> Committed:
        """Make the results of a part durable: `part` names the dataset, its commit, and the last subscription."""
        dataset, commit, subscription = part
        marks = {
            _part_app(channel, dataset, "commit"): commit,
            _part_app(channel, dataset, "subscription"): subscription,
        }
        return self.commit([(channel, output)], {}, now_us, marks, [dataset], within_us, exits)

    def snapshots_served(self, channel: str) -> int:
        """The highest number of a request for a snapshot that is served."""
        return self.table.transaction(_snapshot_app(channel)) or 0

    def commit_snapshots(
        self,
        channel: str,
        outputs: Iterable[pa.Table],
        through: int,
        now_us: int,
        within_us: Mapping[str, int] = MappingProxyType({}),
    ) -> Committed:
        """Make snapshots durable, with the number of the last request that they serve. Each begins after the results of
        every window so far, and ends before those of all others. Tables that have a `kind` keep their order; keys of
        rows that have some are remembered."""
        served, outputs = {_snapshot_app(channel): through}, list(outputs)
        if any(one.num_rows for one in outputs):
            return self.commit([(channel, one) for one in outputs], {}, now_us, served, (), within_us)
        with self._lock:
            number = self._append(SCHEMA.empty_table(), {}, served)
        self.table.sync()
        return Committed(number, {})

    def tell_failed(self, channel: str, reasons: Mapping[int, str], now_us: int) -> int | None:
        """Put into the history of each subscription, once, why it has failed: the reason replaces the payload, as a
        JSON string, which no payload is."""
        unwritten = {one: reason for one, reason in reasons.items() if not self.table.transaction(_failed_app(one))}
        payloads = {one: json.dumps(reason) for one, reason in unwritten.items()}
        return self._tell(channel, payloads, now_us, {_failed_app(one): 1 for one in unwritten})

    def forget(self, ids: Sequence[int], text: str) -> int:
        """Remove all results of these subscriptions, and those whose payload holds `text`; returns how many."""
        is_named = pc.match_substring(ds.field("payload").cast(pa.string()), text)
        where = is_named | ds.field("subscription").isin(pa.array(ids, pa.int64()))
        found: list[int] = self.table.read(where=where, columns=["sequence"]).column("sequence").to_pylist()
        chunks = [found[start : start + _FORGOTTEN_AT_ONCE] for start in range(0, len(found), _FORGOTTEN_AT_ONCE)]
        # Keys first: if the process dies in between, the results are still there to find them by.
        self.keys.forget(ids, chunks)
        with self._lock:
            for chunk in chunks:
                self.table.delete(f"sequence IN ({', '.join(map(str, chunk))})")
            if found:
                self.table.sync()
            self.keys.load_again(self.table.sequence)
            return len(found)

    def tell_ended(
        self, channel: str, ids: Sequence[int], reason: str, now_us: int, code: str = NotFound.code
    ) -> int | None:
        """Put into the history of these subscriptions, once, why they have ended for good: the reason replaces the
        payload, as a JSON list of two strings with the error's code, which no payload is."""
        # An ended subscription never begins again, so the last id tells this end from all others.
        transaction = f"ended-{max(ids)}"
        if self.table.transaction(transaction):
            return None
        return self._tell(channel, dict.fromkeys(ids, json.dumps([reason, code])), now_us, {transaction: 1})

    def _tell(self, channel: str, payloads: Mapping[int, str], now_us: int, marks: Mapping[str, int]) -> int | None:
        columns = [pa.array(list(payloads), pa.int64()), pa.array(list(payloads.values()), pa.string())]
        output = pa.table(columns, names=["subscription", "payload"])
        return self.commit([(channel, output)], {}, now_us, marks).number

    def has_results(self, subscription: int) -> bool:
        """Whether a subscription ever had a result."""
        behind = self._latest.behind({subscription: self.earliest_sequence})
        return bool(behind) or self.retention.had_results(subscription)

    def commit(
        self,
        outputs: Iterable[tuple[str, pa.Table]],
        bounds: Bounds,
        now_us: int,
        marks: Mapping[str, int] | None = None,
        datasets: Iterable[str] = (),
        within_us: Mapping[str, int] = MappingProxyType({}),
        exits: Mapping[str, Exits] = MappingProxyType({}),
    ) -> Committed:
        """Make the results of one or several channels durable, together with their windows' bounds and with `marks`,
        other application transactions, which refer to these `datasets`.

        `outputs` are pairs of channel and rows (subscription, payload). All of them are one commit, however many there
        are. If rows have a `key` too, those are left out whose key was a result before: ever, or within the time that
        `within_us` has for the channel. For a channel WITH EXITS, `exits` has what the run has found out; keys that
        have ended become exits.
        """
        with self._lock:
            learned: list[Learned] = []
            chosen = [
                (channel, self._choose(channel, output, now_us, within_us.get(channel), exits.get(channel), learned))
                for channel, output in outputs
            ]
            rows = pa.concat_tables([SCHEMA.empty_table(), *(_labelled(channel, output) for channel, output in chosen)])
            if rows.num_rows == 0:
                self._ahead.update(bounds)
                return Committed(None, dict(chosen))
            first = sequence_of(self.table.next_number(), 0)
            rows = rows.set_column(0, "sequence", pa.array(np.arange(first, first + rows.num_rows)))
            rows = rows.set_column(
                4, SCHEMA.field(4), pa.repeat(pa.scalar(now_us, SCHEMA.field(4).type), rows.num_rows)
            )
            number = self._append(rows, bounds, marks, datasets, learned)
        # Without the lock, so that commits at the same time share a sync.
        self.table.sync()
        self.committed.announce()
        return Committed(number, dict(chosen))

    def _choose(
        self,
        channel: str,
        output: pa.Table,
        now_us: int,
        within_us: int | None,
        exits: Exits | None,
        learned: list[Learned],
    ) -> pa.Table:
        """The rows that are results, and exits; adds their keys to `learned`."""
        if "key" not in output.column_names:
            return output
        self.keys.load(self.table.next_number() - 1)
        rows, keys = self.keys.choose(channel, output, now_us, within_us, exits)
        learned.append(keys)
        return rows

    def subscriptions_that_hold(self, channel: str) -> npt.NDArray[np.int64]:
        """The subscriptions of a channel WITH EXITS that have results without an exit, sorted."""
        with self._lock:
            self.keys.load(self.table.next_number() - 1)
            return self.keys.subscriptions_that_hold(channel)

    def set_bounds(self, bounds: Bounds) -> None:
        """Make bounds durable without results: where a new channel begins."""
        with self._lock:
            self._append(SCHEMA.empty_table(), bounds)
        self.table.sync()

    def flush(self) -> None:
        """Make the bounds of windows without results durable."""
        with self._lock:
            if not self._ahead:
                return
            self._append(SCHEMA.empty_table(), {})
        self.table.sync()

    def _append(
        self,
        rows: pa.Table,
        bounds: Bounds,
        marks: Mapping[str, int] | None = None,
        datasets: Iterable[str] = (),
        learned: Sequence[Learned] = (),
    ) -> int:
        everything = {**self._ahead, **bounds}
        # Bounds must never be ahead of the commits they refer to: rows that come again would count as run over.
        self._sync_datasets({dataset for _, dataset in everything} | set(datasets))
        self._latest.note(rows)
        transactions = {_window_app(*key): through for key, through in everything.items()}
        number = self._append_to_table(rows, {**transactions, **(marks or {})}, learned)
        self._ahead.clear()
        return number

    def _append_to_table(self, rows: pa.Table, transactions: Mapping[str, int], learned: Sequence[Learned] = ()) -> int:
        next_number = self.table.next_number()
        # A commit that seemed to fail, and has happened all the same, is known from here on.
        self.keys.catch_up(next_number - 1)
        self._numbering.reserve(next_number + rows.num_rows // ROWS_PER_NUMBER)
        number = self.table.append(rows, transactions, rows_per_number=ROWS_PER_NUMBER)
        self.keys.add(learned, number)
        return number

    def _read_keys(self, after: int, through: int) -> Iterator[tuple[int, pa.Table]]:
        stride = _FIRST_STRIDE
        while after < through:
            reached = min(self._gaps.beyond(after + stride), through)
            rows = self.table.read(after, reached, where=ds.field("key").is_valid(), columns=KEYED)
            yield reached, rows
            after = reached
            stride = min(2 * stride, _LAST_KEYS_STRIDE) if rows.num_rows < _FEW_KEYS else _FIRST_STRIDE

    def _read_kept(self) -> tuple[int, pa.Table]:
        earliest = self.earliest_sequence
        return earliest, self.table.read(commit_of(earliest), columns=_WHOSE)

    def pull_subscriptions(self, positions: Mapping[int, int], *, limit_rows: int) -> Pulled:
        """Results of these subscriptions, each after its own position, oldest first, until about `limit_rows`.

        Raises HistoryGone when requested results have been removed, HistoryRewound for positions of a history that is
        gone.
        """
        for position in positions.values():
            self.check_not_rewound(position)
        keep = only(list(positions))
        while True:
            # In this order: results removed or committed meanwhile must lie beyond this range.
            times_removed, through = self.retention.times_removed, self.last_sequence
            self.retention.check_subscriptions(positions)
            starts = {one: max(after, self.earliest_sequence) for one, after in positions.items()}
            behind = self._latest.behind(starts)
            if self.retention.times_removed != times_removed:
                continue  # Retention ran meanwhile: results that it removed may not have been counted.
            if not behind:
                return Pulled(SCHEMA.empty_table(), max(through, min(starts.values())))
            return self.pull(
                min(behind.values()),
                limit_rows=limit_rows,
                keep=partial(_after_each, starts, keep),
                check=lambda _after: self.retention.check_subscriptions(positions),
            )

    def pull(
        self,
        after: int,
        *,
        limit_rows: int,
        keep: Callable[[pa.Table], pa.Table],
        check: Callable[[int], None] | None = None,
    ) -> Pulled:
        """Results after sequence `after` that `keep` keeps, oldest first, until about `limit_rows`.

        `check` raises HistoryGone if results that `keep` would keep have been removed after a sequence; without it,
        every removed result counts. Raises HistoryRewound for a cursor of a history that is gone.
        """
        self.check_not_rewound(after)
        while True:
            times_removed = self.retention.times_removed
            (check or self.retention.check)(after)
            pulled = self._pull(max(after, self.earliest_sequence), times_removed, limit_rows, keep)
            if pulled is not None:
                return Pulled(pulled.rows, max(pulled.through, after))

    def _pull(
        self, after: int, times_removed: int, limit_rows: int, keep: Callable[[pa.Table], pa.Table]
    ) -> Pulled | None:
        """None if retention has removed results meanwhile, so that some may be missing: it has removed some more often
        than `times_removed`."""
        last = self.table.durable
        position = after
        stride = _FIRST_STRIDE
        if self.retention.times_removed != times_removed:
            return None  # `after` may lie behind what has been removed since the marks were checked.
        pulled: list[pa.Table] = []
        count = size_bytes = 0
        while (begin := commit_of(position + 1)) <= last and count < limit_rows:
            through = self._gaps.beyond(min(last, begin + stride))
            rows = self.table.read(begin - 1, through)
            if self.retention.times_removed != times_removed:
                if pulled:
                    break
                return None
            # The most selective filter first: each step copies the remaining rows.
            rows = keep(rows) if rows.num_rows else rows
            rows = rows.filter(pc.greater(rows.column("sequence"), position)).sort_by("sequence")
            fitting = _fitting(rows, limit_rows - count, _MAX_PULL_BYTES - size_bytes)
            fitting = fitting if count else max(1, fitting)
            if fitting < rows.num_rows:
                if fitting:
                    rows = rows.slice(0, fitting)
                    position = rows.column("sequence")[-1].as_py()
                    pulled.append(rows)
                break
            pulled.append(rows)
            count += rows.num_rows
            size_bytes += rows.nbytes
            position = end_of(through)
            stride *= 2
        rows = pa.concat_tables([SCHEMA.empty_table(), *(part.select(SCHEMA.names) for part in pulled)])
        return Pulled(rows, position)

    def check_not_rewound(self, after: int) -> None:
        """Raises HistoryRewound for a sequence that this history does not have, or not yet."""
        last, end_of_gap = self.last_sequence, self._gaps.around(after)
        if after > last or end_of_gap is not None:
            raise HistoryRewound(
                f"sequence {after} is of a history that is gone: the cluster was started from older data",
                earliest=str(last if end_of_gap is None else max(end_of_gap, self.earliest_sequence)),
            )

    def retain(self, oldest_us: int, max_bytes: int, by_channel: Mapping[str, int] = MappingProxyType({})) -> int:
        """Remove results committed before `oldest_us`, or before the time that `by_channel` has for their channel, and
        the oldest beyond `max_bytes`; returns how many."""
        # Results whose keys are remembered in memory only must stay: the next process reads the keys from them.
        self.keys.store(self.table.durable)
        with self._lock:
            count = self.retention.remove(oldest_us, max_bytes, by_channel, self.keys.stored_through)
            if count:
                self._latest.forget(self.earliest_sequence)
            return count


def only(ids: Sequence[int]) -> Callable[[pa.Table], pa.Table]:
    """A `keep` for `pull`: the results of these subscriptions."""
    wanted = pa.array(sorted(set(ids)), pa.int64())
    return lambda rows: rows.filter(pc.is_in(rows.column("subscription"), value_set=wanted))


def _after_each(positions: Mapping[int, int], keep: Callable[[pa.Table], pa.Table], rows: pa.Table) -> pa.Table:
    rows = keep(rows)
    if len(set(positions.values())) == 1:
        return rows
    pairs = zip(rows.column("subscription").to_pylist(), rows.column("sequence").to_pylist(), strict=True)
    return rows.filter(pa.array([sequence > positions[one] for one, sequence in pairs], pa.bool_()))


def _labelled(channel: str, output: pa.Table) -> pa.Table:
    count = output.num_rows
    columns = [
        pa.nulls(count, pa.int64()),
        output.column("subscription").cast(pa.int64()),
        pa.repeat(pa.scalar(channel, pa.string()), count),
        output.column("payload").cast(pa.string()),
        pa.nulls(count, SCHEMA.field("committed_at").type),
        output.column("key") if "key" in output.column_names else pa.nulls(count, pa.binary()),
        output.column("held") if "held" in output.column_names else pa.nulls(count, pa.bool_()),
        output.column("kind") if "kind" in output.column_names else pa.nulls(count, pa.string()),
    ]
    return pa.table(columns, schema=SCHEMA)


def _fitting(rows: pa.Table, limit_rows: int, limit_bytes: int) -> int:
    """How many of the first rows are within both limits."""
    if rows.nbytes <= limit_bytes:
        return int(min(rows.num_rows, limit_rows))
    ends = np.cumsum(pc.binary_length(rows.column("payload")).to_numpy())
    return min(int(np.searchsorted(ends, limit_bytes, side="right")), limit_rows)


def _part_app(channel: str, dataset: str, of: str) -> str:
    return f"part/{channel.lower()}/{dataset.lower()}/{of}"


def _snapshot_app(channel: str) -> str:
    return f"snapshot/{channel.lower()}"


def _failed_app(subscription: int) -> str:
    return f"failed/{subscription}"


def removals_of(dataset: str) -> str:
    """In place of a dataset's name, for the bound of its removals. No dataset has such a name."""
    return f"{dataset}/removals"


def _window_app(channel: str, dataset: str) -> str:
    return f"window/{channel.lower()}/{dataset.lower()}"
