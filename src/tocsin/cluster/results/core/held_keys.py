"""The keys of one channel WITH EXITS that are *held*: they were results, and no exit has followed (pure).

A key lies in sorted runs, as those of other channels do. Here the runs are in order of age, and of equal keys the
newest counts: a result, or an exit that ends it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from tocsin.cluster.results.core.result_keys import (
    NEVER_US,
    Halves,
    KeyIndex,
    KeyRun,
    Mask,
    Numbers,
    newest,
    spread,
    unspread,
)

#: A run is merged with the one before it if it has at least half as many keys.
_RATIO = 2


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """Digests, in two halves, and the subscription of each."""

    first: Halves
    second: Halves
    subscriptions: Numbers

    def __len__(self) -> int:
        return len(self.first)

    def where(self, is_kept: Mask) -> Keys:
        return Keys(self.first[is_kept], self.second[is_kept], self.subscriptions[is_kept])

    def run(self, result_us: int = 0) -> KeyRun:
        """As a run, in which keys can be found."""
        at_us = np.full(len(self), result_us, np.int64)
        return newest([KeyRun(spread(self.first, self.subscriptions), self.second, self.subscriptions, at_us)])


def no_keys() -> Keys:
    return Keys(np.empty(0, np.uint64), np.empty(0, np.uint64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True, eq=False)
class Touched:
    """Which held keys may have ended: all of some subscriptions, some of all subscriptions, and single ones."""

    subscriptions: Numbers = field(default_factory=lambda: np.empty(0, np.int64))
    #: Without a subscription, which is 0.
    digests: Keys = field(default_factory=no_keys)
    keys: Keys = field(default_factory=no_keys)


class HeldKeys(KeyIndex):
    """`runs` are in order of age, the newest last. A run's `result_us` is NEVER_US for an exit."""

    def result_us(self, first: Halves, second: Halves, subscriptions: Numbers) -> Numbers:
        found = np.full(len(first), NEVER_US, np.int64)
        # The newest last, so that it overwrites what was before it.
        for run in self.runs:
            hit, at = run.find(first, second, subscriptions)
            found[hit] = run.result_us[at]
        return found

    def add(self, run: KeyRun) -> None:
        """Results, or exits, that are newer than all before."""
        if not len(run):
            return
        runs = [*self.runs, run]
        while len(runs) > 1 and _RATIO * len(runs[-1]) >= len(runs[-2]):
            runs[-2:] = [newest(runs[-2:])]
        self.runs = tuple(runs)
        if len(runs) == 1:
            self.filter(lambda one: one.result_us != NEVER_US)

    def filter(self, is_kept: Callable[[KeyRun], Mask]) -> None:
        """Forget some keys. It must be all runs that forget a key, or none; exits may be left out of the oldest."""
        runs = [run.where(is_kept(run)) for run in self.runs]
        self.runs = tuple(run for run in runs if len(run))

    def everything(self) -> KeyRun:
        """All held keys."""
        if not self.runs:
            return no_keys().run()
        run = newest(self.runs)
        return run.where(run.result_us != NEVER_US)

    def exits(
        self, touched: Touched | None, holding: Callable[[], Keys], is_checked: Callable[[Numbers], Mask]
    ) -> Keys:
        """The held keys that are touched, or any if that is not known, and do not hold; of checked subscriptions."""
        run = self.everything() if touched is None else self._touched(touched)
        if not len(run):
            return no_keys()
        still, _ = holding().run().find(run.first, run.second, run.subscriptions)
        has_ended = np.ones(len(run), bool)
        has_ended[still] = False
        run = run.where(has_ended)
        run = run.where(is_checked(run.subscriptions))
        return Keys(unspread(run.first, run.subscriptions), run.second, run.subscriptions)

    def _touched(self, touched: Touched) -> KeyRun:
        found = [touched.keys.run(), *(run.where(self._is_touched(run, touched)) for run in self.runs)]
        run = newest(found)
        # Some were found in a run whose entry is out of date, and single keys need not be held at all.
        return run.where(self.result_us(run.first, run.second, run.subscriptions) != NEVER_US)

    @staticmethod
    def _is_touched(run: KeyRun, touched: Touched) -> Mask:
        is_touched: Mask = np.isin(run.subscriptions, touched.subscriptions)
        if len(touched.digests):
            first = unspread(run.first, run.subscriptions)
            # Looking up all of them takes longer than leaving out most of them first.
            (likely,) = np.isin(first, touched.digests.first).nonzero()
            nobody = np.zeros(len(likely), np.int64)
            hit, _ = touched.digests.run().find(first[likely], run.second[likely], nobody)
            is_touched[likely[hit]] = True
        return is_touched


def split_touched(keys: Keys, has_subscription: Mask, has_key: Mask) -> Touched | None:
    """What changed rows have touched. None if one of them has touched everything."""
    if (~has_subscription & ~has_key).any():
        return None
    alone = keys.where(~has_subscription & has_key)
    return Touched(
        np.unique(keys.subscriptions[has_subscription & ~has_key]),
        Keys(alone.first, alone.second, np.zeros(len(alone), np.int64)),
        keys.where(has_subscription & has_key),
    )
