"""Which results have been removed, and removing those that are past their time.

Channels may keep their results for different times. So there are two marks in the results table: up to the first,
everything has been removed; up to the second, some has been, and `Removals` knows of which subscriptions. After it
nothing has. A caller whose position is older than the second mark is told that history is gone only if results of its
own were removed.

Whose results are removed is noted first, then the second mark is moved, and then they are removed. So whoever reads
meanwhile, or after a crash in between, is told, even if the results are still there: they are past their time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tocsin.cluster.datasets.tables import Table
from tocsin.cluster.results.latest import newest_of
from tocsin.cluster.results.removals import Removals
from tocsin.cluster.results.shares import Share, shares_of
from tocsin.errors import HistoryGone
from tocsin.model.position import commit_of, end_of

_RETAINED_APP = "retained"
_REMOVED_APP = "removed"
_WHOSE = ["subscription", "sequence"]


class ResultRetention:
    """`mark` commits application transactions to the table, without rows."""

    def __init__(self, table: Table, removals: Removals, mark: Callable[[Mapping[str, int]], object]) -> None:
        self._table = table
        self._removals = removals
        self._mark = mark
        #: How often results have been removed. Changes before they are, and after the marks: a reader who has checked
        #: the marks, and finds the same number after reading, has read everything.
        self.times_removed = 0
        #: Up to which number this process has removed the results of each share.
        self._cleared: dict[Share, int] = {}

    @property
    def earliest_sequence(self) -> int:
        """All results up to and including this sequence have been removed."""
        return self._marked(_RETAINED_APP)

    @property
    def removed_sequence(self) -> int:
        """No result after this sequence has been removed."""
        return max(self._marked(_REMOVED_APP), self.earliest_sequence)

    def _marked(self, app: str) -> int:
        number = self._table.transaction(app)
        return end_of(number) if number else 0

    def check(self, after: int) -> None:
        """Raises HistoryGone if any result after the sequence `after` has been removed."""
        if after < self.removed_sequence:
            raise _gone("results", self.removed_sequence)

    def check_subscriptions(self, positions: Mapping[int, int]) -> None:
        """Raises HistoryGone if one of these subscriptions has lost results after its position."""
        removed = self.removed_sequence
        old = {one: after for one, after in positions.items() if after < removed}
        newest = self._removals.find(list(old)) if old else {}
        for one, position in old.items():
            if position < newest.get(one, 0):
                raise _gone(f"results of subscription {one}", newest[one])

    def check_holds(self, broker: str, after: int) -> None:
        """Raises HistoryGone if a subscription that the broker holds has lost results after the sequence `after`."""
        if after < self.removed_sequence and after < (newest := self._removals.newest_held(broker)):
            raise _gone(f"results for {broker}", newest)

    def had_results(self, subscription: int) -> bool:
        """Whether results of a subscription have been removed."""
        return bool(self._removals.find([subscription]))

    def remove(self, oldest_us: int, max_bytes: int, by_channel: Mapping[str, int], last: int) -> int:
        """Remove results committed before `oldest_us`, or before the time that `by_channel` has for their channel, and
        the oldest beyond `max_bytes`, but none after the number `last`; returns how many. Nothing may be committed
        meanwhile."""
        if not self._table.size_bytes():
            return 0
        beyond = self._commits_beyond(max_bytes)
        cleared: dict[Share, int] = {}
        newest: dict[int, int] = {}
        doomed: list[tuple[Share, int, int]] = []
        count = 0
        for share, share_us in shares_of(oldest_us, by_channel).items():
            already = max(self._cleared.get(share, 0), commit_of(self.earliest_sequence))
            through = min(max(self._last_before(share, share_us, already), beyond), last)
            cleared[share] = max(already, through)
            if through > already:
                rows = self._table.read(already, through, where=share.rows, columns=_WHOSE)
                for one, sequence in newest_of(rows).items():
                    newest[one] = max(sequence, newest.get(one, 0))
                count += rows.num_rows
                doomed.append((share, already, through))
        if count:
            self._removals.note(newest)
            self._remove(doomed)
        self._cleared = cleared
        return count

    def _remove(self, doomed: Sequence[tuple[Share, int, int]]) -> None:
        """Remove the results of each share after one number and up to another."""
        last = max(commit_of(self.removed_sequence), *(through for _, _, through in doomed))
        self._mark({_REMOVED_APP: last})
        self.times_removed += 1
        for share, after, through in doomed:
            if share.predicate:
                self._table.delete_between(after, through, share.predicate)
            else:
                self._table.delete_through(through)
        first = self._table.first_number()
        self._mark({_RETAINED_APP: last if first is None else min(last, first - 1)})

    def _last_before(self, share: Share, oldest_us: int, after: int) -> int:
        """The last commit with results of a share that are older; 0 if there is none after the commit `after`."""
        column = self._table.schema.field("committed_at")
        old = ds.field(column.name) < pa.scalar(oldest_us, column.type)
        rows = self._table.read(after, where=old & share.rows, columns=["_seq"])
        return int(pc.max(rows.column("_seq")).as_py() or 0)

    def _commits_beyond(self, max_bytes: int) -> int:
        """The last of the oldest commits that together hold about as many bytes as the table has beyond `max_bytes`."""
        size_bytes = self._table.size_bytes()
        if size_bytes <= max_bytes:
            return 0
        commits = self._table.read(columns=["_seq"]).column("_seq").to_numpy()
        share = (size_bytes - max_bytes) / size_bytes
        return int(np.quantile(commits, share, method="higher")) if commits.size else 0


def _gone(what: str, newest: int) -> HistoryGone:
    """Results are removed by whole numbers, so everything after the number of the newest removed one is there."""
    earliest = end_of(commit_of(newest))
    return HistoryGone(f"{what} up to sequence {earliest} have been removed by retention", earliest=str(earliest))
