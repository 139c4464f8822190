"""Remembered keys: look-ups find every key that was added, in whatever runs it lies, and no other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.cluster.results.core import result_keys
from tocsin.cluster.results.core.result_keys import KeyIndex, KeyRun, halves_of, merged

Key = tuple[int, int, int]
_HALVES = [(0, 0), (0, 1), (1, 0), (2**64 - 1, 2**64 - 1), (2**64 - 1, 0), (7, 2**63)]
#: Few enough that they come again, and some that differ in one half only, or in the subscription.
_KEYS: list[Key] = [(*halves, subscription) for halves in _HALVES for subscription in (1, 2)]


def _columns(keys: list[Key]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    first = np.array([key[0] for key in keys], np.uint64)
    second = np.array([key[1] for key in keys], np.uint64)
    return first, second, np.array([key[2] for key in keys], np.int64)


def _run(keys: list[Key], at_us: int) -> KeyRun:
    first, second, subscriptions = _columns(keys)
    return merged([KeyRun(first, second, subscriptions, np.full(len(keys), at_us, np.int64))])


@given(
    commits=st.lists(st.tuples(st.integers(0, 40), st.lists(st.sampled_from(_KEYS), max_size=12)), max_size=12),
    within_us=st.none() | st.integers(0, 50),
    small=st.integers(1, 8),
    merges=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_a_row_is_a_result_if_its_key_was_none_before(
    commits: list[tuple[int, list[Key]]], within_us: int | None, small: int, merges: bool
) -> None:
    """For any commits, times, sizes of runs and merges: as a dictionary of everything has it. Of equal keys in one
    commit it is the first. A clock that goes back makes nothing new."""
    index, last_us = KeyIndex(), dict[Key, int]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(result_keys, "SMALL_RUN", small)
        for now_us, keys in commits:
            expected = []
            for at, key in enumerate(keys):
                if key not in last_us or (within_us is not None and last_us[key] <= now_us - within_us):
                    expected.append(at)
                    if key not in keys[:at]:
                        last_us[key] = now_us
            expected = [at for at in expected if keys[at] not in keys[:at]]
            chosen = index.choose(*_columns(keys), now_us, within_us)
            assert np.flatnonzero(chosen.is_result).tolist() == expected
            assert len(chosen.run) == len(expected)
            index.add(chosen.run)
            while merges and (runs := index.due()):
                index.replace(runs, merged(runs))
        assert not merges or not index.due()


def test_merging_keeps_the_last_time_of_a_key_and_each_key_once() -> None:
    """Whatever the order of the runs."""
    runs = [_run(_KEYS, 30), _run(_KEYS[:3], 50), _run(_KEYS[2:], 10)]
    for order in (runs, runs[::-1]):
        run = merged(order)
        found = dict(
            zip(
                zip(run.first.tolist(), run.second.tolist(), run.subscriptions.tolist(), strict=True),
                run.result_us.tolist(),
                strict=True,
            )
        )
        assert found == {key: 50 if key in _KEYS[:3] else 30 for key in _KEYS}
        assert len(run) == len(_KEYS)


def test_there_are_few_runs_and_none_grows_without_limit() -> None:
    """Ten thousand commits of one key each leave a handful of runs, and merging holds a bounded number of keys."""
    index = KeyIndex()
    generator = np.random.default_rng(7)
    for number in range(10_000):
        key = generator.integers(0, 2**63, 2, np.uint64)
        one = np.array([number], np.int64)
        index.add(KeyRun(key[:1], key[1:], one, one))
    assert len(index) == 10_000
    assert len(index.runs) <= 14
    below = 1_000
    while runs := index.due(below):
        assert sum(map(len, runs)) < 3 * below
        index.replace(runs, merged(runs))


def test_keys_are_read_as_they_lie_in_memory() -> None:
    """Sixteen bytes each; no byte is left out."""
    keys = bytes(range(48))
    first, second = halves_of(keys)
    assert np.column_stack([first, second]).tobytes() == keys
    assert [len(half) for half in halves_of(b"")] == [0, 0]
