"""Network coordinates over drawn networks and drawn lies."""

from __future__ import annotations

import math
import random
from statistics import median

from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.coordinates.coordinate import DIMENSIONS, MAX_ERROR, MAX_MS, MIN_HEIGHT_MS, Coordinate, estimate_ms
from tocsin.coordinates.vivaldi import FARTHEST_MS, GRAVITY_MS, LONGEST_STEP_MS, Vivaldi
from worlds.round_trips import Network, liar_among, metric_space

#: Measurements of each process, at one a second: three and a half minutes.
_STEPS = 200


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    count=st.integers(4, 14),
    dimensions=st.integers(1, 5),
    wide_ms=st.floats(1, 400),
    tall_ms=st.floats(0, 50),
)
def test_coordinates_converge_on_metric_spaces(
    seed: int, count: int, dimensions: int, wide_ms: float, tall_ms: float
) -> None:
    """Half of the estimates are within a tenth. In a space that fits, an error of e makes a process move by at most a
    quarter of e per measurement, and some movement always remains: 2 to 4% in trials with random spaces. A tenth leaves
    room for the worst of them and is far below the third that a guess by the mean would give."""
    network = Network(metric_space(count, dimensions, wide_ms, tall_ms, random.Random(seed)), seed)
    network.run(_STEPS)
    assert median(network.errors()) < 0.1


_ms = st.floats(-MAX_MS, MAX_MS)
_coordinates = st.builds(
    Coordinate,
    st.tuples(*[_ms | st.sampled_from([0.0, MAX_MS, -MAX_MS, 1e-300])] * DIMENSIONS),
    st.floats(MIN_HEIGHT_MS, MAX_MS),
    _ms,
    st.floats(0, MAX_ERROR),
)
_round_trips = st.floats(0, MAX_MS, exclude_min=True)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), _coordinates, _round_trips), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_no_lie_makes_a_coordinate_that_is_none(lies: list[tuple[str, Coordinate, float]], times: int) -> None:
    """It stays finite, its height positive, and it stays within FARTHEST_MS of the origin."""
    vivaldi = Vivaldi(random.Random(1))
    for peer, claimed, round_trip_ms in lies * times:
        vivaldi.measured(peer, claimed, round_trip_ms)
        mine = vivaldi.coordinate
        assert all(map(math.isfinite, (*mine.vector, mine.height_ms, mine.adjustment_ms, mine.error)))
        assert mine.height_ms >= MIN_HEIGHT_MS
        assert math.hypot(*mine.vector) <= FARTHEST_MS
        assert 0 < estimate_ms(mine, claimed) < math.inf


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1 << 32), st.sampled_from(["far", "ahead", "anywhere", "slow", "tall"]))
def test_a_liar_among_ten_does_not_drag_the_others_far(seed: int, lie: str) -> None:
    """They end no farther from the origin than where gravity equals the pushes that come from the liar, a ninth of all,
    and half of their estimates among each other stay within a third."""
    network = Network(metric_space(10, 2, 150, 5, random.Random(seed)), seed, lie=liar_among(lie))
    network.run(600)
    balanced_ms = GRAVITY_MS * math.sqrt(LONGEST_STEP_MS / 9)
    assert all(math.hypot(*one.coordinate.vector) < 1.25 * balanced_ms for one in network.honest)
    assert median(network.errors()) < 1 / 3
