"""Which brokers are within reach of which subscribers: round trips of at most so many milliseconds (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from tocsin.coordinates.coordinate import DIMENSIONS, Coordinate
from tocsin.coordinates.located import Located

#: Subscribers that are looked at together, so that little memory is needed beside the result.
_AT_ONCE = 4096
#: No limit: a subscriber may be at any broker.
EVERYWHERE: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)


def within_reach(
    reach_ms: float | None,
    brokers: Sequence[str],
    subscribers: Sequence[str],
    owners: NDArray[np.int32],
    located_of: Callable[[str], Located | None],
    coordinates: Mapping[str, Coordinate],
) -> NDArray[np.bool_]:
    """For each subscriber, whether each broker is within reach: by its own measurement, else as estimated. A broker to
    which neither is known is within reach, and so is the one where it is: to stay is always allowed."""
    if reach_ms is None:
        return EVERYWHERE
    found = np.ones((len(subscribers), len(brokers)), np.bool_)
    placed = np.array([number for number, one in enumerate(brokers) if one in coordinates], np.int64)
    numbers = {name: number for number, name in enumerate(brokers)}
    there = _rows([coordinates[brokers[number]] for number in placed])
    known = ((number, one) for number, name in enumerate(subscribers) if (one := located_of(name)) is not None)
    while chunk := list(islice(known, _AT_ONCE)):
        rows = np.array([number for number, _ in chunk])
        if len(placed):
            here = _rows([one.coordinate for _, one in chunk])
            found[np.ix_(rows, placed)] = _estimates(here, there) <= reach_ms
        for row, one in chunk:
            for broker, round_trip_ms in one.round_trips_ms.items():
                if (number := numbers.get(broker)) is not None:
                    found[row, number] = round_trip_ms <= reach_ms
    found[np.arange(len(subscribers)), owners] = True
    return found


def _rows(coordinates: Sequence[Coordinate]) -> NDArray[np.float64]:
    """Vector, height and adjustment of each."""
    rows = [(*one.vector, one.height_ms, one.adjustment_ms) for one in coordinates]
    return np.array(rows, np.float64).reshape(len(rows), DIMENSIONS + 2)


def _estimates(here: NDArray[np.float64], there: NDArray[np.float64]) -> NDArray[np.float64]:
    """As `estimate_ms`, for each pair."""
    apart = np.linalg.norm(here[:, None, :DIMENSIONS] - there[None, :, :DIMENSIONS], axis=2)
    plain = apart + here[:, None, DIMENSIONS] + there[None, :, DIMENSIONS]
    adjusted: NDArray[np.float64] = plain + here[:, None, DIMENSIONS + 1] + there[None, :, DIMENSIONS + 1]
    return np.where(adjusted > 0, adjusted, plain)
