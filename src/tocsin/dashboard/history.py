"""The history that charts show: bounded, in memory (pure).

Half an hour second by second, a day minute by minute. A minute's value is the mean of its seconds, or the highest for
figures whose highest value matters.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Figures of the whole network.
OVERALL = ("cov", "measured_cov", "max", "mean", "p50_s", "p95_s", "p99_s", "hit_rate", "rate", "subscribers")
_HIGHEST = frozenset({"max", "p50_s", "p95_s", "p99_s"})
#: Figures of each broker: bytes per second as measured and by the load model, and numbers of subscribers.
PER_BROKER = ("in", "out", "model_in", "model_out", "connections", "subscribers")

FINE_SLOTS = 1800
COARSE_SLOTS = 1440
_FINE_PER_COARSE = 60
#: No history is kept for more brokers than this: a hundred take 8 MB.
_MAX_BROKERS = 200
#: No chart can show more points than this.
MAX_POINTS = 900

_Values = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of the network at one moment; None if there is no figure."""

    at_s: float
    overall: Sequence[float | None]
    brokers: Mapping[str, Sequence[float | None]]


class _Ring:
    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.count = 0
        self.times_s = np.full(slots, np.nan)
        self.overall: _Values = np.full((slots, len(OVERALL)), np.nan, np.float32)
        self.brokers: dict[str, _Values] = {}

    def add(self, at_s: float, overall: _Values, brokers: Mapping[str, _Values]) -> None:
        slot = self.count % self.slots
        self.times_s[slot] = at_s
        self.overall[slot] = overall
        for name in brokers:
            if name not in self.brokers and len(self.brokers) < _MAX_BROKERS:
                self.brokers[name] = np.full((self.slots, len(PER_BROKER)), np.nan, np.float32)
        for name, values in self.brokers.items():
            values[slot] = brokers.get(name, np.nan)
        self.count += 1
        if slot == self.slots - 1:
            self.brokers = {name: values for name, values in self.brokers.items() if not np.isnan(values).all()}

    def order(self, since_s: float) -> NDArray[np.intp]:
        """The slots in use since then, oldest first."""
        first = max(0, self.count - self.slots)
        slots = np.arange(first, self.count) % self.slots
        return slots[self.times_s[slots] >= since_s]


class History:
    def __init__(self) -> None:
        self._fine = _Ring(FINE_SLOTS)
        self._coarse = _Ring(COARSE_SLOTS)

    def add(self, sample: Sample) -> None:
        """Call it once a second."""
        brokers = {name: _row(values) for name, values in sample.brokers.items()}
        self._fine.add(sample.at_s, _row(sample.overall), brokers)
        if self._fine.count % _FINE_PER_COARSE == 0:
            self._roll_up()

    def read(self, since_s: float, points: int = MAX_POINTS) -> dict[str, Any]:
        """The history since then, with at most so many points: `times_s`, and for each figure as many values."""
        fine = self._fine
        # As long as no second was overwritten, seconds have all that minutes have.
        has_forgotten = fine.count > fine.slots
        ring = self._coarse if has_forgotten and since_s < fine.times_s[fine.count % fine.slots] - 1 else fine
        slots = ring.order(since_s)
        step = max(1, -(-len(slots) // points))
        groups = [slots[start : start + step] for start in range(0, len(slots), step)]
        return {
            "times_s": [round(float(ring.times_s[group[-1]]), 3) for group in groups],
            "overall": _columns(OVERALL, ring.overall, groups),
            "brokers": {name: _columns(PER_BROKER, values, groups) for name, values in sorted(ring.brokers.items())},
        }

    def _roll_up(self) -> None:
        fine = self._fine
        slots = np.arange(fine.count - _FINE_PER_COARSE, fine.count) % fine.slots
        overall = _mean(fine.overall[slots])
        for column, name in enumerate(OVERALL):
            if name in _HIGHEST and not np.isnan(fine.overall[slots, column]).all():
                overall[column] = np.nanmax(fine.overall[slots, column])
        brokers = {name: _mean(values[slots]) for name, values in fine.brokers.items()}
        self._coarse.add(float(fine.times_s[slots[-1]]), overall, brokers)


def _row(values: Sequence[float | None]) -> _Values:
    return np.array([np.nan if one is None else one for one in values], np.float32)


def _mean(rows: _Values) -> _Values:
    with warnings.catch_warnings():
        # A column without any value has no mean, as intended.
        warnings.simplefilter("ignore", RuntimeWarning)
        mean: _Values = np.nanmean(rows, axis=0)
    return mean


def _columns(names: Sequence[str], values: _Values, groups: Sequence[NDArray[np.intp]]) -> dict[str, list[float]]:
    if not groups:
        return {name: [] for name in names}
    together = np.array([values[group[0]] if len(group) == 1 else _mean(values[group]) for group in groups])
    return {name: _short(together[:, column]).tolist() for column, name in enumerate(names)}


def _short(values: _Values) -> NDArray[np.float64]:
    """Rounded to four digits, more than a chart shows. NaN stays NaN, which is null in JSON."""
    wide = values.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.where(wide == 0, 0, np.floor(np.log10(np.abs(wide))))
        scale = 10.0 ** np.nan_to_num(3 - digits)
        short: NDArray[np.float64] = np.round(wide * scale) / scale
    return short
