"""Whatever fails in a commit: who is not to blame gets every result, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.channels.core.splitting import (
    STRIKES,
    STRIKES_IF_PROVEN,
    Attempt,
    Block,
    Done,
    Failed,
    Outcome,
    Reached,
    SetAside,
    Splitting,
    SplittingFailed,
    TooMuch,
)

Pair = tuple[int, int]


@dataclass
class Channel:
    """A commit's rows and a channel's subscriptions, some of which fail."""

    rows: int
    subscriptions: list[int]
    bad_rows: frozenset[int] = frozenset()
    bad_subscriptions: frozenset[int] = frozenset()
    bad_pairs: frozenset[Pair] = frozenset()
    proven: frozenset[int] = frozenset()
    #: Pairs that can be run at once; more are too much.
    most_pairs: int = 10**9
    #: Rows that fail when they are run together.
    fails_from_rows: int = 10**9
    is_wanted: bool = False
    strikes: Counter[int] = field(default_factory=Counter)

    kept: Counter[Pair] = field(default_factory=Counter)
    set_aside: list[SetAside] = field(default_factory=list)
    reached: list[int] = field(default_factory=list)
    attempts: int = 0

    def pairs(self, block: Block) -> list[Pair]:
        ids = [one for one in self.subscriptions[block.first : block.last] if one not in block.without]
        return [(row, one) for row in block.rows for one in ids]

    def is_bad(self, pair: Pair) -> bool:
        return pair[0] in self.bad_rows or pair[1] in self.bad_subscriptions or pair in self.bad_pairs

    def attempt(self, block: Block) -> Outcome:
        pairs = self.pairs(block)
        if len(pairs) > self.most_pairs:
            return TooMuch("too much")
        if len(block.rows) >= self.fails_from_rows or any(map(self.is_bad, pairs)):
            return Failed("bad")
        return Done()

    def run(self) -> Channel:
        proven = self.proven.__contains__
        steps = Splitting(self.rows, self.subscriptions, self.strikes, proven, is_wanted=self.is_wanted).steps()
        answer: Outcome | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration:
                return self
            answer = None
            match step:
                case Attempt(block, keep):
                    self.attempts += 1
                    answer = self.attempt(block)
                    if keep and isinstance(answer, Done):
                        self.kept.update(self.pairs(block))
                case SetAside():
                    self.set_aside.append(step)
                case Reached(index):
                    self.reached.append(index)
                    done = set(self.subscriptions[:index])
                    late = {one for _, one in self.kept if one not in done}
                    assert not late or index, "what is committed is complete"

    def is_set_aside(self, pair: Pair) -> bool:
        return any(one.row in (None, pair[0]) and one.subscription in (None, pair[1]) for one in self.set_aside)


@st.composite
def channels(draw: st.DrawFn) -> Channel:
    rows = draw(st.integers(1, 12))
    ids = draw(st.lists(st.integers(1, 1000), min_size=1, max_size=14, unique=True).map(sorted))
    some_rows = st.frozensets(st.integers(0, rows - 1), max_size=4)
    some_ids = st.frozensets(st.sampled_from(ids), max_size=4)
    return Channel(
        rows,
        ids,
        draw(some_rows),
        draw(some_ids),
        draw(st.frozensets(st.tuples(st.integers(0, rows - 1), st.sampled_from(ids)), max_size=6)),
        draw(some_ids),
        draw(st.one_of(st.just(10**9), st.integers(1, 40))),
        draw(st.one_of(st.just(10**9), st.integers(2, 8))),
    )


@given(channels())
def test_every_result_comes_once_but_for_what_was_set_aside(channel: Channel) -> None:
    """Each pair of row and subscription is kept once, or was set aside, never both; nothing bad is kept."""
    channel.run()
    everything = [(row, one) for row in range(channel.rows) for one in channel.subscriptions]
    assert all(count == 1 for count in channel.kept.values())
    for pair in everything:
        assert pair in channel.kept or channel.is_set_aside(pair), pair
        assert not (pair in channel.kept and channel.is_bad(pair))
    assert channel.reached[-1] == len(channel.subscriptions)


@given(channels())
def test_only_what_fails_is_set_aside(channel: Channel) -> None:
    """Whoever is set aside has failed: a good row with good subscriptions never is, nor the other way round."""
    channel.run()
    for one in channel.set_aside:
        rows = range(channel.rows) if one.row is None else [one.row]
        ids = channel.subscriptions if one.subscription is None else [one.subscription]
        assert any(channel.is_bad((row, each)) for row in rows for each in ids), one
        if one.subscription is not None and one.row is None:
            assert len({row for row in range(channel.rows) if channel.is_bad((row, one.subscription))}) >= STRIKES


@given(st.integers(1, 5_000), st.integers(4, 5_000), st.data())
def test_a_bad_row_costs_a_logarithm(rows: int, subscriptions: int, data: st.DataObject) -> None:
    """One bad row among many is found in about two attempts for each halving, and only it is set aside."""
    bad = data.draw(st.integers(0, rows - 1))
    channel = Channel(rows, list(range(subscriptions)), frozenset({bad}))
    channel.pairs = lambda block: []  # type: ignore[method-assign]
    channel.attempt = lambda block: Failed("bad") if bad in block.rows else Done()  # type: ignore[method-assign]
    channel.run()
    assert channel.set_aside == [SetAside("bad", row=bad)]
    assert channel.attempts <= 2 * ceil(log2(rows) if rows > 1 else 0) + 4 + 3


def test_a_subscription_that_never_worked_is_set_aside_after_a_few_rows() -> None:
    """A bad subscription ends after STRIKES rows, counted over commits; the others get everything."""
    channel = Channel(1, [1, 2, 3], bad_subscriptions=frozenset({2}))
    for _ in range(STRIKES - 1):
        channel.run()
    assert {(one.row, one.subscription) for one in channel.set_aside} == {(0, 2)}
    channel.run()
    assert channel.set_aside[-1] == SetAside("bad", subscription=2)
    assert channel.kept == {(0, 1): STRIKES, (0, 3): STRIKES}


def test_a_subscription_that_has_worked_is_not_ended_by_a_few_bad_records() -> None:
    """The only subscriber of a zone keeps the subscription though the zone's publisher sends some bad records."""
    bad = frozenset((row, 2) for row in range(STRIKES_IF_PROVEN - 1))
    channel = Channel(40, [1, 2, 3], bad_pairs=bad, proven=frozenset({2})).run()
    assert {(one.row, one.subscription) for one in channel.set_aside} == bad
    assert channel.kept[39, 2] == 1


def test_a_row_with_results_for_all_is_committed_in_parts() -> None:
    """One row for many subscriptions that is too much at once reaches them part by part, in the order of their ids."""
    channel = Channel(1, list(range(100)), most_pairs=30).run()
    assert len(channel.kept) == 100
    assert channel.reached == [25, 50, 75, 100]


def test_rows_that_are_left_run_together() -> None:
    """Aggregates see all rows but the bad ones: the last attempt runs over everything that is left at once."""
    seen: list[Block] = []
    channel = Channel(9, [1, 2, 3, 4], frozenset({2, 7}))
    attempt = channel.attempt
    channel.attempt = lambda block: (seen.append(block), attempt(block))[1]  # type: ignore[method-assign, func-returns-value]
    channel.run()
    assert seen[-1] == Block((0, 1, 3, 4, 5, 6, 8), 0, 4)


def test_a_channel_that_fails_over_nothing_blames_nobody() -> None:
    """If a run fails even without rows, neither records nor subscriptions are the cause, and none is set aside."""
    channel = Channel(5, [1, 2])
    channel.attempt = lambda block: Failed("no disk")  # type: ignore[method-assign]
    with pytest.raises(SplittingFailed, match="no disk") as failure:
        channel.run()
    assert failure.value.is_channel
    assert not channel.set_aside


def test_too_many_bad_records_are_a_matter_for_a_person() -> None:
    """Work is bounded: a commit in which hundreds of rows fail is given up with the reason."""
    channel = Channel(500, [1, 2, 3, 4], frozenset(range(0, 500, 2)))
    with pytest.raises(SplittingFailed, match="more than 100 records") as failure:
        channel.run()
    assert not failure.value.is_channel


def test_a_person_who_has_looked_gets_to_the_end() -> None:
    """All that fails is set aside then, and nothing else."""
    channel = Channel(500, [1, 2, 3, 4], frozenset(range(0, 500, 2)), is_wanted=True).run()
    assert {one.row for one in channel.set_aside} == channel.bad_rows
    assert channel.kept == Counter((row, one) for row in range(1, 500, 2) for one in channel.subscriptions)
