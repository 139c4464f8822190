"""How subscriptions are split by their radii."""

from __future__ import annotations

from math import inf, nextafter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.compiler.near import LARGEST_RADIUS, SMALLEST_CELL, cell_size_for
from tocsin.cluster.channels.core.radius_classes import (
    MAX_GRIDS,
    RadiusClass,
    RadiusGroup,
    count_classes,
    largest_radius,
    radius_groups,
)

SIZES = [SMALLEST_CELL, 1.0, 2.0, 256.0, 512.0, 2.0**20, 2.0**40, 2.0**1000, inf]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=50))
def test_classes_are_counted_as_single_radii_are_classed(radii: list[float]) -> None:
    """Many at once or one by one, a radius has the same cell size."""
    counts = count_classes([np.array(radii)])
    assert sorted(counts.elements()) == sorted((cell_size_for(radius),) for radius in radii)


@pytest.mark.parametrize("size", SIZES[:-1])
def test_a_class_ends_exactly_at_its_largest_radius(size: float) -> None:
    """A condition in SQL and the count of a class are about the same subscriptions."""
    assert cell_size_for(largest_radius(size)) <= size < cell_size_for(nextafter(largest_radius(size), inf))


def test_like_radii_share_one_grid_without_a_condition() -> None:
    """The ordinary case is one branch, the same as ever."""
    assert radius_groups(["r"], {(256.0,): 1_000_000}, 60) == [RadiusGroup("", {"r": 256.0})]
    assert radius_groups(["r"], {(256.0,): 500_000, (512.0,): 500_000}, 60) == [RadiusGroup("", {"r": 512.0})]
    assert radius_groups([], {}, 60) == [RadiusGroup("", {})]
    assert radius_groups(["r"], {}, 60) == [RadiusGroup("", {"r": SMALLEST_CELL})]


def test_one_huge_radius_leaves_the_grid_of_the_others_as_it_is() -> None:
    """It is compared exactly, and takes whatever is not of the others' classes."""
    grid, few = radius_groups(["r"], {(256.0,): 50_000, (inf,): 1}, 60)
    assert grid.cell_sizes == {"r": 256.0}
    assert not grid.is_few
    assert few.is_few
    assert few.condition == f"NOT ({grid.condition})"
    assert radius_groups(["r"], {(256.0,): 50_000, (inf,): 0}, 60) == [RadiusGroup("", {"r": 256.0})]


def test_few_with_any_radii_are_one_branch() -> None:
    """A small channel is not split at all."""
    assert radius_groups(["r"], {(256.0,): 100, (2.0**30,): 5}, 60) == [RadiusGroup("", {"r": 2.0**30}, is_few=True)]


def test_without_a_window_all_get_a_grid() -> None:
    """How many rows an exact comparison would take is not known then."""
    assert not any(group.is_few for group in radius_groups(["r"], {(256.0,): 50_000, (inf,): 1}, None))


@given(
    st.integers(1, 2).flatmap(
        lambda width: st.dictionaries(
            st.tuples(*[st.sampled_from(SIZES)] * width), st.sampled_from([0, 1, 1000, 10**7]), min_size=1
        )
    ),
    st.sampled_from([0, 60, 10**6, None]),
)
def test_each_class_is_in_one_group_whose_cells_are_wide_enough(
    counts: dict[RadiusClass, int], new_rows: int | None
) -> None:
    """So nobody is served twice or not at all, and no pair is missed; the branches are few."""
    parameters = ["a", "b"][: len(next(iter(counts)))]
    groups = radius_groups(parameters, counts, new_rows)
    assert len(groups) <= MAX_GRIDS + 1
    for one, count in counts.items():
        values = {name: largest_radius(size) for name, size in zip(parameters, one, strict=True)}
        values = {name: min(value, 1.7e308) for name, value in values.items()}
        mine = [group for group in groups if holds(group.condition, values)]
        assert len(mine) == 1
        if count > 0:
            assert all(mine[0].cell_sizes[name] >= size for name, size in zip(parameters, one, strict=True))


def holds(condition: str, values: dict[str, float]) -> bool:
    """The SQL read as Python."""
    text = condition.replace("`", "").replace("AND", "and").replace("OR", "or").replace("NOT", "not").replace("D", "")
    return not text or bool(eval(text, {}, values))


def test_the_largest_radius_of_all_is_the_border_of_the_last_class() -> None:
    """Beyond it every point is in one cell."""
    assert cell_size_for(LARGEST_RADIUS) < inf
    assert cell_size_for(nextafter(LARGEST_RADIUS, inf)) == inf
