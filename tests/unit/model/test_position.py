"""Positions: they grow with every result, fit JavaScript's numbers, and read back as written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.model.position import (
    MAX_EPOCH,
    MAX_NUMBER,
    MAX_SEQUENCE,
    ROWS_PER_NUMBER,
    Phase,
    Position,
    commit_of,
    reached,
    sequence_of,
)


@given(epoch=st.integers(0, MAX_EPOCH), sequence=st.integers(0, MAX_SEQUENCE))
def test_a_position_reads_back(epoch: int, sequence: int) -> None:
    """Text and value are the same thing."""
    assert Position.parse(str(Position(epoch, sequence))) == Position(epoch, sequence)


@pytest.mark.parametrize(
    "text", ["", "7", "7-", "-7", "a-1", "7-1-2", "7--1", "+7-1", " 7-1", "7-1.0", "７-¹", "7-1\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    """What is no position is told, with an example of one."""
    with pytest.raises(ValueError, match="such as 7-4194305"):
        Position.parse(text)


@pytest.mark.parametrize("text", ["7-9007199254740992", "9007199254740992-7", "7-" + "0" * 17, "9" * 100_000 + "-1"])
def test_numbers_that_are_never_given_out_are_refused(text: str) -> None:
    """What is too large for any position is refused where it is read, and is not repeated at length."""
    with pytest.raises(ValueError, match="such as 7-4194305") as refused:
        Position.parse(text)
    assert len(str(refused.value)) < 200


@given(commit=st.integers(0, MAX_NUMBER - 1), row=st.integers(0, ROWS_PER_NUMBER - 1))
def test_sequences_grow_with_commits_and_rows(commit: int, row: int) -> None:
    """A later row or commit has a larger sequence, which says its commit, and JavaScript can hold it."""
    sequence = sequence_of(commit, row)
    assert commit_of(sequence) == commit
    assert sequence < sequence_of(commit + 1, 0)
    assert sequence < 1 << 53


@given(
    one=st.tuples(st.integers(0, MAX_SEQUENCE), st.sampled_from(Phase)),
    other=st.tuples(st.integers(0, MAX_SEQUENCE), st.sampled_from(Phase)),
)
def test_phases_follow_each_other_whatever_the_sequence(one: tuple[int, Phase], other: tuple[int, Phase]) -> None:
    """Comparing tells who is further on; text and numbers say the phase, and give the sequence back."""
    first, second = (Position(7, reached(*which)) for which in (one, other))
    assert (first < second) == ((-one[1], one[0]) < (-other[1], other[0]))
    assert (first.in_history, first.phase) == one
    assert Position.parse(str(first)) == first
