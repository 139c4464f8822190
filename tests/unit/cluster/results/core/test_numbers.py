"""Numbers that are never given out again: the clock's floor, and gaps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.results.core.numbers import Gaps, id_floor, number_floor
from tocsin.model.position import MAX_EPOCH, MAX_NUMBER, end_of, sequence_of

_TIMES_US = st.integers(-(1 << 62), 1 << 62)


@given(now_us=_TIMES_US, later_us=st.integers(0, 1 << 62))
def test_floors_grow_with_the_clock_and_leave_half_of_all_numbers(now_us: int, later_us: int) -> None:
    """Also a clock that is off by millennia leaves more numbers than can ever be used."""
    for floor, highest in ((number_floor, MAX_NUMBER), (id_floor, MAX_EPOCH)):
        assert 0 <= floor(now_us) <= floor(now_us + later_us) <= highest // 2


def test_a_second_gives_room_for_more_than_a_second_can_hold() -> None:
    """100 commits, or 500,000 subscriptions, in each second since the start are all below the floor of the next."""
    now_us = 1_800_000_000_000_000
    assert number_floor(now_us + 1_000_000) - number_floor(now_us) >= 100
    assert id_floor(now_us + 1_000_000) - id_floor(now_us) >= 500_000
    assert number_floor(3_000_000_000_000_000) < MAX_NUMBER // 2  # In 2065.


@given(
    lengths=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 5)), max_size=5),
    number=st.integers(0, 60),
    row=st.integers(0, 3),
)
def test_gaps_are_what_was_skipped(lengths: list[tuple[int, int]], number: int, row: int) -> None:
    """A place is in a gap if a number was skipped there; both ends of the gap are places that are given out."""
    pairs, skipped, at = [], {}, 0
    for committed, gap in lengths:
        after = at + committed
        at = after + gap
        pairs.append((after, at))
        skipped |= dict.fromkeys(range(after + 1, at + 1), at)
    gaps = Gaps(pairs)
    assert gaps.beyond(number) == skipped.get(number, number)
    expected = None if number not in skipped else end_of(skipped[number])
    assert gaps.around(sequence_of(number, row)) == expected
    is_end = any(number == through for _, through in pairs)
    assert gaps.around(end_of(number)) == (None if is_end else expected)
