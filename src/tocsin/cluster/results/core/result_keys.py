"""Result keys that `ONCE PER` remembers: which rows of a run are results, and which keys were results already (pure).

A key is a subscription and a digest of 16 bytes, made of the values of `ONCE PER`. Remembered keys lie in sorted runs,
as in a log-structured merge: each commit adds a small run, and small runs are merged into larger ones. A look-up goes
through all runs with all keys of a commit at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

KEY_BYTES = 16
#: Bytes that one remembered key takes up in a run.
ENTRY_BYTES = 32
#: Runs below this are merged when a run is added, which takes 10 ms. Larger ones are merged in the background.
SMALL_RUN = 1 << 16
#: Runs of this size are merged no more, so that merging never holds more than some 300 MB. A look-up in ten million
#: keys goes through five of them.
LARGE_RUN = 1 << 21
#: A run is merged with all smaller ones if together they have at least half as many keys.
_RATIO = 2

#: Spreads subscriptions, whose ids follow each other, over all numbers: 2**64 over the golden ratio.
_ODD = np.uint64(0x9E3779B97F4A7C15)
#: For a key that was no result.
NEVER_US = np.iinfo(np.int64).min

Numbers = npt.NDArray[np.int64]
Halves = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class KeyRun:
    """Keys in ascending order, without repetition, and when each was a result. A key is three numbers: `spread` of the
    digest's first half, its second half, and the subscription."""

    first: Halves
    second: Halves
    subscriptions: Numbers
    result_us: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def find(self, first: Halves, second: Halves, subscriptions: Numbers) -> tuple[Indices, Indices]:
        """Which of these keys are here, and where."""
        hits, found_at = [np.empty(0, np.intp)], [np.empty(0, np.intp)]
        at = np.searchsorted(self.first, first)
        todo = np.arange(len(first))
        # More than one step only for different keys with the same first number, which are rare.
        while len(todo):
            is_inside = at < len(self)
            todo, at = todo[is_inside], at[is_inside]
            is_same = self.first[at] == first[todo]
            todo, at = todo[is_same], at[is_same]
            is_hit = (self.second[at] == second[todo]) & (self.subscriptions[at] == subscriptions[todo])
            hits.append(todo[is_hit])
            found_at.append(at[is_hit])
            todo, at = todo[~is_hit], at[~is_hit] + 1
        return np.concatenate(hits), np.concatenate(found_at)

    def where(self, is_kept: Mask) -> KeyRun:
        return KeyRun(*(column[is_kept] for column in self.columns))

    @property
    def columns(self) -> tuple[Any, ...]:
        return self.first, self.second, self.subscriptions, self.result_us


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """Which rows are results, in the order of the rows, and their keys, to be remembered once they are committed."""

    is_result: Mask
    run: KeyRun


def spread(first: Halves, subscriptions: Numbers) -> Halves:
    """Numbers to sort by that differ, even if all subscriptions have the same digest. With the subscription, each tells
    the half that it was made of."""
    found: Halves = first + subscriptions.astype(np.uint64) * _ODD
    return found


def unspread(first: Halves, subscriptions: Numbers) -> Halves:
    """The halves of digests that `spread` has made these numbers of."""
    found: Halves = first - subscriptions.astype(np.uint64) * _ODD
    return found


def halves_of(keys: bytes | memoryview) -> tuple[Halves, Halves]:
    """Keys that lie one after the other, as two columns of numbers.

    >>> first, second = halves_of(bytes(range(32)))
    >>> [hex(one) for one in first], len(second)
    (['0x706050403020100', '0x1716151413121110'], 2)
    """
    pairs = np.frombuffer(keys, dtype="<u8").reshape(-1, 2)
    return np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])


class KeyIndex:
    """The remembered keys. `runs` is replaced as a whole, so that a reader without a lock sees one state of it."""

    def __init__(self, runs: Iterable[KeyRun] = ()) -> None:
        self.runs: tuple[KeyRun, ...] = tuple(run for run in runs if len(run))

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def choose(
        self, first: Halves, second: Halves, subscriptions: Numbers, now_us: int, within_us: int | None
    ) -> Chosen:
        """The rows whose key was no result before, or not within the last `within_us`. Of rows with equal keys it is
        the first."""
        order = _order(first, second, subscriptions)
        a, b, whose = first[order], second[order], subscriptions[order]
        is_first = np.ones(len(a), bool)
        is_first[1:] = ~_repeats(a, b, whose)
        order, a, b, whose = order[is_first], a[is_first], b[is_first], whose[is_first]
        known_us = self.result_us(a, b, whose)
        is_new = known_us == NEVER_US
        if within_us is not None:
            # Not now_us - known_us, which could overflow.
            is_new |= known_us <= now_us - within_us
        order = order[is_new]
        is_result = np.zeros(len(first), bool)
        is_result[order] = True
        now = np.full(len(order), now_us, np.int64)
        return Chosen(is_result, KeyRun(a[is_new], b[is_new], whose[is_new], now))

    def result_us(self, first: Halves, second: Halves, subscriptions: Numbers) -> Numbers:
        """When each key was last a result. The keys are sorted, which makes looking up twice as fast."""
        found = np.full(len(first), NEVER_US, np.int64)
        for run in self.runs:
            hit, at = run.find(first, second, subscriptions)
            found[hit] = np.maximum(found[hit], run.result_us[at])
        return found

    def add(self, run: KeyRun) -> None:
        """Remember keys; they may be remembered already."""
        if not len(run):
            return
        self.runs = (*self.runs, run)
        while small := self.due(SMALL_RUN):
            self.replace(small, merged(small))

    def due(self, below: int = LARGE_RUN) -> tuple[KeyRun, ...]:
        """The runs to merge next, of those with fewer keys than `below`; none if they are few enough."""
        runs = sorted((run for run in self.runs if len(run) < below), key=len)
        count = size = 0
        for number, run in enumerate(runs):
            if size >= below:
                break
            if number and len(run) <= _RATIO * size:
                count = number + 1
            size += len(run)
        return tuple(runs[:count])

    def replace(self, runs: Sequence[KeyRun], by: KeyRun) -> None:
        """Put a run in place of others, which it was made of."""
        gone = set(map(id, runs))
        kept = tuple(run for run in self.runs if id(run) not in gone)
        self.runs = (*kept, by) if len(by) else kept


def merged(runs: Sequence[KeyRun]) -> KeyRun:
    """One run of the keys of all; the last time counts at which a key was a result."""
    columns = zip(*(run.columns for run in runs), strict=True)
    first, second, subscriptions, result_us = (np.concatenate(column) for column in columns)
    return _last_of_equal(KeyRun(first, second, subscriptions, result_us), result_us)


def newest(runs: Sequence[KeyRun], *number: Numbers) -> KeyRun:
    """One run of the keys of all; of equal keys, that with the highest number counts, or else that of the last run."""
    columns = zip(*(run.columns for run in runs), strict=True)
    return _last_of_equal(KeyRun(*map(np.concatenate, columns)), *number)


def _last_of_equal(rows: KeyRun, *then: Numbers) -> KeyRun:
    """The rows in order, of equal keys the last one alone."""
    order = _order(rows.first, rows.second, rows.subscriptions, *then)
    run = KeyRun(*(column[order] for column in rows.columns))
    is_last = np.ones(len(run), bool)
    is_last[:-1] = ~_repeats(run.first, run.second, run.subscriptions)
    return run if is_last.all() else run.where(is_last)


def _order(first: Halves, second: Halves, subscriptions: Numbers, *then: Numbers) -> npt.NDArray[np.intp]:
    """The order by all columns; equal rows stay in order. Sorting by one column is several times as fast, and is enough
    unless some of its numbers are equal."""
    order = np.argsort(first, kind="stable")
    by_first = first[order]
    if (by_first[1:] != by_first[:-1]).all():
        return order
    return np.lexsort((*reversed(then), subscriptions, second, first))


def _repeats(first: Halves, second: Halves, subscriptions: Numbers) -> Mask:
    """For all sorted keys but the first: whether each is equal to the one before it."""
    is_repeat: Mask = (first[1:] == first[:-1]) & (second[1:] == second[:-1])
    is_repeat &= subscriptions[1:] == subscriptions[:-1]
    return is_repeat
