"""Held keys: those with a result that no exit has followed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.results.core.held_keys import HeldKeys, Keys, Touched, no_keys, split_touched
from tocsin.cluster.results.core.result_keys import NEVER_US, newest

Pair = tuple[int, int]
#: A subscription and a digest. Digests with the same first half are different keys.
_PAIRS = st.tuples(st.integers(1, 4), st.integers(0, 5))


def keys(pairs: Iterable[Pair]) -> Keys:
    listed = list(pairs)
    digests = np.array([digest for _, digest in listed], np.uint64)
    return Keys(digests // 2, digests, np.array([one for one, _ in listed], np.int64))


def pairs(found: Keys) -> set[Pair]:
    assert (found.first == found.second // 2).all()
    return set(zip(found.subscriptions.tolist(), found.second.tolist(), strict=True))


@given(st.lists(st.tuples(st.sets(_PAIRS), st.sets(_PAIRS)), max_size=8), st.sets(_PAIRS), st.sets(st.integers(1, 4)))
def test_a_key_is_held_from_its_result_to_its_exit(
    commits: list[tuple[set[Pair], set[Pair]]], holding: set[Pair], checked: set[int]
) -> None:
    """However the runs were merged: what has ended is what is held, is of a checked subscription and does not hold."""
    held, expected = HeldKeys(), set[Pair]()
    for ended, begun in commits:
        held.add(newest([keys(sorted(ended - begun)).run(NEVER_US), keys(sorted(begun)).run(7)]))
        expected = (expected - ended) | begun
    assert pairs(held.exits(None, no_keys, lambda ids: np.ones(len(ids), bool))) == expected
    found = held.exits(None, lambda: keys(sorted(holding)), lambda ids: np.isin(ids, list(checked)))
    assert pairs(found) == {pair for pair in expected - holding if pair[0] in checked}


@given(
    st.sets(_PAIRS),
    st.sets(_PAIRS),
    st.sets(_PAIRS),
    st.lists(st.tuples(st.one_of(st.none(), st.integers(1, 4)), st.one_of(st.none(), st.integers(0, 5))), max_size=4),
)
def test_only_what_is_touched_ends(
    first: set[Pair], ended: set[Pair], second: set[Pair], touched: list[tuple[int | None, int | None]]
) -> None:
    """A subscription stands for all its keys, and a key for all who have it. Two nulls touch everything."""
    held = HeldKeys()
    for run in (keys(sorted(first)).run(3), keys(sorted(ended)).run(NEVER_US), keys(sorted(second)).run(5)):
        held.add(run)
    named = keys([(one or 0, digest or 0) for one, digest in touched])
    has_subscription, has_key = (np.array([pair[at] is not None for pair in touched], bool) for at in range(2))
    found = split_touched(named, has_subscription, has_key)
    is_touched = {
        pair
        for pair in (first - ended) | second
        if any(one in {None, pair[0]} and digest in {None, pair[1]} for one, digest in touched)
    }
    assert pairs(held.exits(found, no_keys, lambda ids: np.ones(len(ids), bool))) == is_touched


def test_exits_take_no_room_for_ever() -> None:
    """The oldest run has none, and small runs are merged."""
    held = HeldKeys()
    for number in range(100):
        held.add(keys([(1, number)]).run(1))
        held.add(keys([(1, number)]).run(NEVER_US))
    assert len(held) <= 2
    assert not len(held.everything())
    assert isinstance(split_touched(no_keys(), np.empty(0, bool), np.empty(0, bool)), Touched)
