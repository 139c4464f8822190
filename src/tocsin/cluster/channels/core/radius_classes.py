"""Radius classes: subscriptions with similar radii share a grid, and one with a huge radius slows no other down.

A class is the cell size that a radius calls for, a power of two; with several radii, one size for each. A run
splits the subscriptions into a few groups of classes. Most groups get a grid of their own. The classes with few
subscriptions, such as the one with a radius of half the world, are put together and compared exactly, without cells. A
channel's rows are those of each subscription by itself, so the groups' rows together are the channel's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isinf, nextafter

import numpy as np
import numpy.typing as npt

from tocsin.cluster.channels.compiler.dialect import quote_name
from tocsin.cluster.channels.compiler.near import LARGEST_RADIUS, MARGIN, SMALLEST_CELL, cell_size_for
from tocsin.cluster.channels.compiler.template import number

#: A cell size for each radius parameter.
RadiusClass = tuple[float, ...]

#: For this many subscriptions times new rows, a run compares exactly: a grid would cost more.
MAX_EXACT_PAIRS = 1_000_000
#: Subscriptions that are compared exactly are copied to every core: beyond this many, that costs more than a grid.
MAX_FEW = 20_000
#: Classes share a grid while the largest cell is at most this many times the smallest: a grid costs a scan of the
#: subscriptions, and cells four times as wide hold sixteen times the candidates.
_SPAN = 4.0
#: Each grid is a branch of the query. If there would be more, more classes share.
MAX_GRIDS = 4


@dataclass(frozen=True, slots=True)
class RadiusGroup:
    """Subscriptions that are served by one branch of a run's query."""

    #: In SQL, which subscriptions these are; empty for all.
    condition: str
    #: The cell size for each radius parameter.
    cell_sizes: Mapping[str, float]
    #: The subscriptions are so few that they are compared exactly where that is possible.
    is_few: bool = False


def count_classes(radii: Sequence[npt.NDArray[np.float64]]) -> Counter[RadiusClass]:
    """How many rows each class has; `radii` are the columns of the radius parameters.

    >>> count_classes([np.array([500.0, 300.0, 1000.0])])
    Counter({(256.0,): 2, (512.0,): 1})
    """
    columns = [_cell_sizes(column) for column in radii]
    if len(columns) == 1:
        sizes, counts = np.unique(columns[0], return_counts=True)
        return Counter({(float(size),): int(count) for size, count in zip(sizes, counts, strict=True)})
    classes, counts = np.unique(np.stack(columns, axis=1), axis=0, return_counts=True)
    return Counter({tuple(map(float, one)): int(count) for one, count in zip(classes, counts, strict=True)})


def _cell_sizes(radii: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """`cell_size_for` each of many radii."""
    bounded = np.minimum(radii, LARGEST_RADIUS)
    mantissas, exponents = np.frexp(np.maximum(bounded / 2 * MARGIN, SMALLEST_CELL))
    sizes = np.ldexp(1.0, np.where(mantissas == 0.5, exponents - 1, exponents))
    return np.where(radii > LARGEST_RADIUS, inf, sizes)


def largest_radius(cell_size: float) -> float:
    """The largest number whose `cell_size_for` is at most this power of two."""
    if isinf(cell_size):
        return inf
    radius = min(2 * cell_size / MARGIN, LARGEST_RADIUS)
    while cell_size_for(radius) > cell_size:
        radius = nextafter(radius, 0)
    while radius < LARGEST_RADIUS and cell_size_for(above := nextafter(radius, inf)) <= cell_size:
        radius = above
    return radius


def radius_groups(
    parameters: Sequence[str],
    counts: Mapping[RadiusClass, int],
    new_rows: int | None,
    *,
    max_exact_pairs: int = MAX_EXACT_PAIRS,
) -> list[RadiusGroup]:
    """Split the subscriptions. `counts` gives an upper bound on the subscriptions of each class in use, `new_rows` the
    number of rows they are compared with, or None if that is not known.

    Each subscription is in exactly one group; the last group takes all that match none of the others' conditions.
    """
    in_use = sorted(one for one, count in counts.items() if count > 0) or [(SMALLEST_CELL,) * len(parameters)]
    if len(in_use) == 1:
        return [RadiusGroup("", dict(zip(parameters, in_use[0], strict=True)))]
    most = min(MAX_FEW, max_exact_pairs // max(1, new_rows)) if new_rows is not None else 0
    few = _few(in_use, counts, most)
    grids = _grids([one for one in in_use if one not in few])
    for one in sorted(few):
        # A class that fits an existing grid need not be compared with everything.
        if (grid := next((grid for grid in grids if _fits(one, grid)), None)) is not None:
            grid.append(one)
            few.remove(one)
    split = [*grids, sorted(few)] if few else grids
    conditions = [_condition(parameters, classes) for classes in split]
    if conditions:
        conditions[-1] = f"NOT ({' OR '.join(conditions[:-1])})" if len(conditions) > 1 else ""
    return [
        RadiusGroup(condition, dict(zip(parameters, _widest(classes), strict=True)), bool(few) and classes is split[-1])
        for condition, classes in zip(conditions, split, strict=True)
    ]


def _few(in_use: Sequence[RadiusClass], counts: Mapping[RadiusClass, int], most: int) -> set[RadiusClass]:
    """The smallest classes that together have at most this many subscriptions."""
    few: set[RadiusClass] = set()
    for one in sorted(in_use, key=lambda one: (counts.get(one, 0), one)):
        most -= counts.get(one, 0)
        if most < 0:
            break
        few.add(one)
    return few


def _grids(classes: Sequence[RadiusClass]) -> list[list[RadiusClass]]:
    """Classes that share a grid, widest first."""
    span = _SPAN
    while True:
        grids: list[list[RadiusClass]] = []
        for one in sorted(classes, reverse=True):
            if grids and _fits(one, grids[-1], span):
                grids[-1].append(one)
            else:
                grids.append([one])
        if len(grids) <= MAX_GRIDS:
            return grids
        span = inf if span > LARGEST_RADIUS else span * span


def _fits(one: RadiusClass, grid: Iterable[RadiusClass], span: float = _SPAN) -> bool:
    widest = _widest(grid)
    if span == inf:
        return True
    return all(size <= most and (size == most or size * span >= most) for size, most in zip(one, widest, strict=True))


def _widest(classes: Iterable[RadiusClass]) -> RadiusClass:
    return tuple(map(max, zip(*classes, strict=True)))


def _condition(parameters: Sequence[str], classes: Iterable[RadiusClass]) -> str:
    return " OR ".join(
        "(" + " AND ".join(_range(name, size) for name, size in zip(parameters, one, strict=True)) + ")"
        for one in sorted(classes)
    )


def _range(parameter: str, size: float) -> str:
    """The values whose class is this size, in SQL."""
    name = quote_name(parameter)
    if isinf(size):
        return f"{name} > {number(LARGEST_RADIUS)}"
    upper = f"{name} <= {number(largest_radius(size))}"
    return upper if size == SMALLEST_CELL else f"{name} > {number(largest_radius(size / 2))} AND {upper}"
