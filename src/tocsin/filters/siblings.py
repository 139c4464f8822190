"""Siblings: the filters at one level of a covering set, searched by their outer bounds (pure).

A filter covers another only if its outer bounds, column by column, lie around the other's, and if the pairs of letters
that its texts have are among the other's. Of many siblings, numpy compares these of all, and only those that pass are
looked at.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import Final

import numpy as np
import numpy.typing as npt

from tocsin.filters.covering import covers
from tocsin.filters.domains import Domain, Key
from tocsin.filters.filter import Filter
from tocsin.filters.pairs import pairs_of
from tocsin.filters.predicates import Constraint

#: Below this, looking at each is faster than numpy's calls.
_FEW: Final = 16
#: So many bytes of a text are a number that DOUBLE holds exactly.
_TEXT_BYTES: Final = 6

Bounds = npt.NDArray[np.float64]


class Node:
    """A filter in the forest."""

    __slots__ = ("at", "below", "bounds", "count", "filter", "pairs", "siblings")

    def __init__(self, of: Filter) -> None:
        self.filter = of
        #: How often it was added.
        self.count = 1
        self.bounds = outer_bounds(of)
        self.pairs = np.uint64(pairs_of(of))
        self.siblings: Siblings | None = None
        #: Where it stands among its siblings.
        self.at = 0
        self.below: Siblings | None = None

    def own_below(self) -> Siblings:
        if self.below is None:
            self.below = Siblings()
        return self.below


class Siblings:
    def __init__(self) -> None:
        #: Whether no sibling covers another one.
        self.is_antichain = True
        self.nodes: list[Node] = []
        #: A line for each bound, a column for each node; only if there are many.
        self.table: Bounds | None = None
        #: The pairs of letters of each node, with the table.
        self.pairs: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)
        #: How many nodes have each bound.
        self.bounded: npt.NDArray[np.int64] | int = 0

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def add(self, node: Node) -> None:
        node.siblings, node.at = self, len(self.nodes)
        self.nodes.append(node)
        self.bounded = self.bounded + (node.bounds != -inf)
        if len(self.nodes) <= _FEW:
            return
        if self.table is None or len(self.nodes) > self.table.shape[1]:
            self.table = np.full((len(node.bounds), 2 * len(self.nodes)), -inf)
            self.pairs = np.zeros(2 * len(self.nodes), np.uint64)
            for one in self.nodes:
                self._write(one)
        else:
            self._write(node)

    def remove(self, node: Node) -> None:
        """The last one takes its column."""
        last = self.nodes.pop()
        if last is not node:
            self.nodes[node.at] = last
            last.at = node.at
            self._write(last)
        node.siblings = None
        self.bounded = self.bounded - (node.bounds != -inf)
        if len(self.nodes) <= _FEW:
            self.table = None
            self.is_antichain |= not self.nodes

    def covering(self, node: Node) -> Node | None:
        """One that covers the node."""
        candidates = self.nodes
        if self.table is not None:
            lines = np.flatnonzero(self.bounded)
            has_pairs = self.pairs[: len(self.nodes)] & ~node.pairs == 0
            candidates = self._found(self.table[lines, : len(self.nodes)] <= node.bounds[lines, None], has_pairs)
        return next((one for one in candidates if covers(one.filter, node.filter)), None)

    def covered_by(self, node: Node) -> list[Node]:
        """All that the node covers."""
        candidates = self.nodes
        if self.table is not None:
            lines = np.flatnonzero(node.bounds != -inf)
            has_pairs = node.pairs & ~self.pairs[: len(self.nodes)] == 0
            candidates = self._found(self.table[lines, : len(self.nodes)] >= node.bounds[lines, None], has_pairs)
        return [one for one in candidates if covers(node.filter, one.filter)]

    def move_to(self, empty: Siblings) -> None:
        empty.is_antichain, self.is_antichain = self.is_antichain, True
        empty.nodes, self.nodes = self.nodes, []
        empty.table, self.table = self.table, None
        empty.pairs = self.pairs
        empty.bounded, self.bounded = self.bounded, 0
        for node in empty.nodes:
            node.siblings = empty

    def _write(self, node: Node) -> None:
        if self.table is not None:
            self.table[:, node.at] = node.bounds
            self.pairs[node.at] = node.pairs

    def _found(self, fits: npt.NDArray[np.bool_], has_pairs: npt.NDArray[np.bool_]) -> list[Node]:
        return [self.nodes[at] for at in np.flatnonzero(fits.all(axis=0) & has_pairs).tolist()]


def outer_bounds(of: Filter) -> Bounds:
    """For each column the lowest key, and the highest with its sign changed: of what covers, none is above."""
    count = len(of.columns.in_order)
    bounds = np.full(2 * count, inf)
    for alternative in of.alternatives:
        mine = np.full(2 * count, -inf)
        for column, constraint in alternative.constraints:
            domain = of.columns.in_order[column].domain
            mine[column], mine[count + column] = _lowest(constraint, domain), -_highest(constraint, domain)
        np.minimum(bounds, mine, out=bounds)
    return bounds


def _lowest(constraint: Constraint, domain: Domain) -> float:
    # A range from the first key on is as wide as no condition: alternatives may be so together.
    if constraint.null or constraint.ranges[0] == domain.first:
        return -inf
    return _as_double(constraint.ranges[0])


def _highest(constraint: Constraint, domain: Domain) -> float:
    if not constraint.ranges:
        return -inf
    return inf if constraint.ranges[-1] == domain.end else _as_double(constraint.ranges[-1])


def _as_double(key: Key) -> float:
    """In the order of the keys; neighbours may become equal."""
    if isinstance(key, int):
        return float(key)
    if isinstance(key, str):
        return float(int.from_bytes(key.encode(errors="surrogatepass")[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0"), "big"))
    return inf
