"""The covering set of many filters: those that no other one covers (pure).

Whoever receives what the covering set matches receives what any of the filters matches. Filters stand in a forest, in
which each covers those below it; its roots are the covering set. A filter that leaves hands those right below it to
their next cover, so it costs about as much as it had below it, and not as much as there are filters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tocsin.filters.columns import columns_of
from tocsin.filters.filter import Filter, check_columns
from tocsin.filters.siblings import Node, Siblings
from tocsin.model.schema import Schema

#: A new filter goes down so far. Ranges that contain each other are a long chain: going to its end would take as many
#: steps as there are filters.
_MAX_DESCENT: Final = 8


@dataclass(frozen=True, slots=True)
class CoveringChange:
    """What an addition or a removal did to the covering set. All that was covered still is if `entered` comes first."""

    entered: tuple[Filter, ...] = ()
    left: tuple[Filter, ...] = ()


@dataclass(slots=True)
class _Changes:
    entered: dict[str, Filter] = field(default_factory=dict)
    left: dict[str, Filter] = field(default_factory=dict)

    def enter(self, one: Filter) -> None:
        if self.left.pop(one.text, None) is None:
            self.entered[one.text] = one

    def leave(self, one: Filter) -> None:
        if self.entered.pop(one.text, None) is None:
            self.left[one.text] = one

    def frozen(self) -> CoveringChange:
        return CoveringChange(tuple(self.entered.values()), tuple(self.left.values()))


class CoveringSet:
    """Filters of one schema, each as often as it was added.

    >>> from tocsin.filters.language import parse
    >>> from tocsin.model.schema import Column, ColumnType
    >>> schema = Schema((Column("symbol", ColumnType.STRING), Column("volume", ColumnType.BIGINT)))
    >>> some = CoveringSet(schema)
    >>> _ = some.add(parse("symbol = 'YHOO' AND volume > 5", schema))
    >>> change = some.add(parse("symbol = 'YHOO'", schema))
    >>> [one.text for one in change.entered], [one.text for one in change.left], [one.text for one in some]
    (["symbol = 'YHOO'"], ["symbol = 'YHOO' AND volume >= 6"], ["symbol = 'YHOO'"])
    """

    def __init__(self, schema: Schema) -> None:
        self._columns = columns_of(schema)
        self._roots = Siblings()
        self._nodes: dict[str, Node] = {}

    def __iter__(self) -> Iterator[Filter]:
        """The covering set."""
        return (node.filter for node in self._roots)

    def __len__(self) -> int:
        return len(self._roots)

    @property
    def filter_count(self) -> int:
        """How many different filters there are, covered ones included."""
        return len(self._nodes)

    def add(self, added: Filter) -> CoveringChange:
        check_columns(added, self._columns)
        node = self._nodes.get(added.text)
        if node is not None:
            node.count += 1
            return CoveringChange()
        node = self._nodes[added.text] = Node(added)
        changes = _Changes()
        self._insert(node, self._roots, changes)
        return changes.frozen()

    def remove(self, removed: Filter) -> CoveringChange:
        """Raises KeyError if it is not there."""
        node = self._nodes[removed.text]
        node.count -= 1
        if node.count:
            return CoveringChange()
        del self._nodes[removed.text]
        siblings, below = node.siblings, node.below
        assert siblings is not None
        changes = _Changes()
        siblings.remove(node)
        if siblings is self._roots:
            changes.leave(node.filter)
        if below is None:
            return changes.frozen()
        if not len(siblings) and below.is_antichain:
            self._hand_over(below, siblings, changes)
        else:
            for child in list(below):
                below.remove(child)
                self._insert(child, siblings, changes)
        return changes.frozen()

    def _insert(self, node: Node, siblings: Siblings, changes: _Changes) -> None:
        """Put a node, with all below it, among siblings, or below one of them that covers it."""
        covering = siblings.covering(node)
        for _ in range(_MAX_DESCENT):
            if covering is None:
                break
            siblings = covering.own_below()
            covering = siblings.covering(node)
        if covering is not None:
            siblings.is_antichain = False
        covered = siblings.covered_by(node)
        if covered and len(covered) == len(siblings) and node.below is None:
            self._take_over(node, siblings, changes)
        else:
            for child in covered:
                siblings.remove(child)
                if siblings is self._roots:
                    changes.leave(child.filter)
                node.own_below().add(child)
                node.own_below().is_antichain &= siblings.is_antichain
        siblings.add(node)
        if siblings is self._roots:
            changes.enter(node.filter)

    def _take_over(self, node: Node, siblings: Siblings, changes: _Changes) -> None:
        """All siblings come below a node at once."""
        if siblings is self._roots:
            for child in siblings:
                changes.leave(child.filter)
        siblings.move_to(node.own_below())

    def _hand_over(self, below: Siblings, siblings: Siblings, changes: _Changes) -> None:
        """All below a node that was the only one of its siblings take its level."""
        if siblings is self._roots:
            for child in below:
                changes.enter(child.filter)
        below.move_to(siblings)
