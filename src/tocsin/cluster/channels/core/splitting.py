"""Splitting a commit that a channel can't run over as a whole, and setting aside what fails (pure).

A commit's rows and a channel's subscriptions span a rectangle. `Splitting.steps` yields the block of it to run next and
is sent the outcome. Results are kept of blocks that were run with `keep`; other attempts only find out what fails.

- Too much at once: the block is halved, by subscriptions first, since one row may have results for all of them.
- Failed: halving finds one row that fails, then the subscriptions that it fails with.
  A row that fails with every part of the subscriptions, or with more than a few of them, is set aside.
  A row that fails with one subscription is set aside for that one, and goes on for everybody else.
  A subscription that fails with row after row is set aside itself; much later if it has had results before.
- Rows or subscriptions that fail only together are run apart.

A window of several commits is halved first, so that a splitting is of one commit of one dataset. Everything that is
left runs as one block again, so that aggregates see all rows of the commit but those that were set aside.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

#: A row that fails with each of this many disjoint parts of the subscriptions counts as bad. Four chosen subscriptions
#: at the right positions could deceive this, but would soon be set aside themselves.
_PARTS = 4
#: A row may fail with this many single subscriptions before it counts as bad.
_MOST_PAIRS_PER_ROW = 4
#: A subscription is set aside after this many rows that failed with it: one bad record, or a few, must not end it. A
#: subscription that has had results has proved that it can work.
STRIKES = 5
STRIKES_IF_PROVEN = 20
#: Beyond these limits a person must look at the commit, and may let it go on.
MOST_SET_ASIDE = 100
MOST_ATTEMPTS = 2_000


@dataclass(frozen=True, slots=True)
class Window:
    """Per watched dataset, the commits `(after, through]`.

    >>> Window({"A": 4, "B": 7}, {"A": 8, "B": 7}).first_half()
    Window(after={'A': 4, 'B': 7}, through={'A': 6, 'B': 7}, removed={})
    >>> Window({"A": 4, "B": 7}, {"A": 5, "B": 8}).first_half()
    Window(after={'A': 4, 'B': 7}, through={'A': 5, 'B': 7}, removed={})
    """

    after: Mapping[str, int]
    through: Mapping[str, int]
    #: For exits: the datasets that rows were removed from since the last check of all results, with the number of their
    #: last removal. Only a whole window has these.
    removed: Mapping[str, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return self.after == self.through and not self.removed

    @property
    def lag_commits(self) -> int:
        return sum(self.through[name] - self.after[name] for name in self.after)

    @property
    def changed(self) -> list[str]:
        """The datasets that have commits in the window."""
        return [name for name in self.after if self.through[name] > self.after[name]]

    def first_commit(self, name: str) -> Window:
        """The oldest commit of one of the datasets, and nothing else."""
        return Window(self.after, {**self.after, name: self.after[name] + 1})

    def first_half(self) -> Window | None:
        """The older half of the window, by commits, and then by datasets; None if it is one commit of one dataset."""
        half = {name: self.after[name] + (self.through[name] - self.after[name] + 1) // 2 for name in self.after}
        if half == self.through:
            half = {name: self.after[name] for name in self.after}
            for name in self.changed[: len(self.changed) // 2]:
                half[name] = self.through[name]
            if half == self.after:
                return None
        return Window(self.after, half)


@dataclass(frozen=True, slots=True)
class Block:
    """These rows, by number, with the subscriptions `[first, last)` of the sorted ids, except `without`."""

    rows: tuple[int, ...]
    first: int
    last: int
    without: frozenset[int] = frozenset()

    def halves_by_rows(self) -> tuple[Block, Block]:
        middle = len(self.rows) // 2
        return replace(self, rows=self.rows[:middle]), replace(self, rows=self.rows[middle:])

    def parts_by_subscriptions(self, count: int) -> list[Block]:
        """Up to `count` blocks of about the same number of subscriptions, in order."""
        size = self.last - self.first
        edges = [self.first + size * at // count for at in range(count + 1)]
        return [replace(self, first=a, last=b) for a, b in pairwise(edges) if b > a]


@dataclass(frozen=True, slots=True)
class Attempt:
    """Run this block. With `keep`, its results are results of the window if it succeeds."""

    block: Block
    keep: bool


@dataclass(frozen=True, slots=True)
class Done:
    pass


@dataclass(frozen=True, slots=True)
class TooMuch:
    """More results than can be taken at once."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    reason: str


Outcome = Done | TooMuch | Failed


@dataclass(frozen=True, slots=True)
class SetAside:
    """A row (by number), a subscription (by id), or, if both are given, this row for this subscription."""

    reason: str
    row: int | None = None
    subscription: int | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """The subscriptions before this index have all their results: everything kept so far can be committed."""

    index: int


Step = Attempt | SetAside | Reached
#: Attempts are answered with their outcome, other steps with None.
Steps = Generator[Step, Outcome | None, None]


class SplittingFailed(Exception):
    """The commit needs a person: too much of it fails, or the channel fails over any rows."""

    def __init__(self, reason: str, *, is_channel: bool) -> None:
        super().__init__(reason)
        #: The channel fails even over no rows at all: neither records nor subscriptions are the cause.
        self.is_channel = is_channel


@dataclass(slots=True)
class Splitting:
    """`subscriptions` are sorted ids. `strikes` counts the rows that failed with a subscription, also in earlier
    commits. `has_results` tells whether a subscription ever had a result. `is_wanted`: a person has looked, and wants
    everything that fails to be set aside, however much it is."""

    rows: int
    subscriptions: Sequence[int]
    strikes: Counter[int]
    has_results: Callable[[int], bool]
    is_wanted: bool = False
    _bad_rows: set[int] = field(default_factory=set)
    _bad_subscriptions: set[int] = field(default_factory=set)
    _pairs: Counter[int] = field(default_factory=Counter)
    _attempts: int = 0
    _set_aside: int = 0
    _is_checked: bool = False

    def steps(self) -> Steps:
        end = len(self.subscriptions)
        todo = [Block(tuple(range(self.rows)), 0, end)]
        reached = 0
        while todo:
            block = self._trimmed(todo.pop())
            if block is not None:
                outcome = yield from self._attempt(block, keep=True)
                # The last block is popped first, and blocks are in the order of their subscriptions.
                match outcome:
                    case TooMuch(reason):
                        todo += reversed((yield from self._smaller(block, reason)))
                    case Failed(reason):
                        todo += reversed((yield from self._mended(block, reason)))
            first = min((one.first for one in todo), default=end)
            if first > reached:
                reached = first
                yield Reached(reached)

    def _trimmed(self, block: Block) -> Block | None:
        """The block without what was set aside since it was made; None if nothing is left."""
        rows = tuple(row for row in block.rows if row not in self._bad_rows)
        without = block.without | self._bad_subscriptions
        return replace(block, rows=rows, without=without) if rows and self._count(block, without) else None

    def _count(self, block: Block, without: frozenset[int]) -> int:
        low, high = self.subscriptions[block.first], self.subscriptions[block.last - 1]
        return block.last - block.first - sum(low <= one <= high for one in without)

    def _attempt(self, block: Block, *, keep: bool) -> Generator[Step, Outcome | None, Outcome]:
        self._attempts += 1
        if self._attempts > MOST_ATTEMPTS and not self.is_wanted:
            raise SplittingFailed(f"no end after {MOST_ATTEMPTS} attempts", is_channel=False)
        outcome = yield Attempt(block, keep)
        assert outcome is not None, "an attempt is answered with its outcome"
        return outcome

    def _first_failing(self, blocks: Sequence[Block]) -> Generator[Step, Outcome | None, tuple[Block, str] | None]:
        for block in blocks:
            outcome = yield from self._attempt(block, keep=False)
            if isinstance(outcome, Failed):
                return block, outcome.reason
        return None

    def _smaller(self, block: Block, reason: str) -> Generator[Step, Outcome | None, list[Block]]:
        """The block in halves; one that can't be halved is set aside."""
        if self._count(block, block.without) > 1:
            return block.parts_by_subscriptions(2)
        if len(block.rows) > 1:
            return list(block.halves_by_rows())
        return (yield from self._blame(block, block.rows[0], self._only(block), reason))

    def _mended(self, block: Block, reason: str) -> Generator[Step, Outcome | None, list[Block]]:
        """The blocks to run instead of a block that failed."""
        yield from self._check_channel(block)
        alone = block
        while len(alone.rows) > 1:
            found = yield from self._first_failing(alone.halves_by_rows())
            if found is None:  # The rows fail only together.
                return list(alone.halves_by_rows()) + self._less(block, alone.rows)
            alone, reason = found
        row, others = alone.rows[0], self._less(block, alone.rows)
        parts = [one for one in alone.parts_by_subscriptions(_PARTS) if self._count(one, one.without)]
        part = alone
        if len(parts) > 1:
            failing = []
            for one in parts:
                outcome = yield from self._attempt(one, keep=False)
                if isinstance(outcome, Failed):
                    failing.append(one)
                    reason = outcome.reason
            if not failing:
                return others + parts
            if len(failing) == len(parts):
                yield from self._put_aside(SetAside(reason, row=row))
                return others
            part = failing[0]
        while self._count(part, part.without) > 1:
            halves = [one for one in part.parts_by_subscriptions(2) if self._count(one, one.without)]
            if len(halves) == 1:
                part = halves[0]
                continue
            found = yield from self._first_failing(halves)
            if found is None:
                return others + parts
            part, reason = found
        return others + (yield from self._blame(alone, row, self._only(part), reason))

    def _check_channel(self, block: Block) -> Generator[Step, Outcome | None, None]:
        """Check that the channel can run over no rows at all, before anything is blamed."""
        if self._is_checked:
            return
        outcome = yield from self._attempt(replace(block, rows=()), keep=False)
        if isinstance(outcome, Failed):
            raise SplittingFailed(outcome.reason, is_channel=True)
        self._is_checked = True

    def _blame(
        self, alone: Block, row: int, subscription: int, reason: str
    ) -> Generator[Step, Outcome | None, list[Block]]:
        """A row failed with a subscription; returns the blocks of that row that are left to run."""
        self._pairs[row] += 1
        if self._pairs[row] > _MOST_PAIRS_PER_ROW:
            yield from self._put_aside(SetAside(reason, row=row))
            return []
        self.strikes[subscription] += 1
        if self.strikes[subscription] >= (STRIKES_IF_PROVEN if self.has_results(subscription) else STRIKES):
            yield from self._put_aside(SetAside(reason, subscription=subscription))
        else:
            yield from self._put_aside(SetAside(reason, row=row, subscription=subscription))
        return [replace(alone, without=alone.without | {subscription})]

    def _put_aside(self, what: SetAside) -> Steps:
        self._set_aside += 1
        if self._set_aside > MOST_SET_ASIDE and not self.is_wanted:
            reason = f"more than {MOST_SET_ASIDE} records or subscriptions fail, the last one with: {what.reason}"
            raise SplittingFailed(reason, is_channel=False)
        if what.subscription is None and what.row is not None:
            self._bad_rows.add(what.row)
        elif what.row is None and what.subscription is not None:
            self._bad_subscriptions.add(what.subscription)
            del self.strikes[what.subscription]
        yield what

    def _only(self, block: Block) -> int:
        """The id of the one subscription in a block."""
        return next(one for one in self.subscriptions[block.first : block.last] if one not in block.without)

    @staticmethod
    def _less(block: Block, rows: tuple[int, ...]) -> list[Block]:
        left = set(rows)
        rest = tuple(row for row in block.rows if row not in left)
        return [replace(block, rows=rest)] if rest else []
