"""Why a filter can't match any record, for the person who wrote it (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from tocsin.filters.columns import FilterColumns
from tocsin.filters.normal_form import All, Leaf, Node, Some
from tocsin.filters.predicates import Constraint

#: Where each predicate stands in the text, by the identity of its leaf.
Spans = Mapping[int, tuple[int, int]]


def why_nothing_matches(node: Node, columns: FilterColumns, written: Spans, text: str) -> tuple[str, int]:
    """The reason, and the offset of the predicate that it is about."""
    reason = _Reason(columns, written, text)
    return reason.of(node) or ("its conditions exclude each other", 0)


class _Reason:
    def __init__(self, columns: FilterColumns, written: Spans, text: str) -> None:
        self._columns = columns
        self._written = written
        self._text = text

    def of(self, node: Node) -> tuple[str, int] | None:
        match node:
            case Leaf():
                return self._of_leaf(node)
            case Some(nodes):
                reasons = [self.of(child) for child in nodes]
                return next(iter(reasons), ("FALSE matches nothing", 0)) if all(reasons) else None
            case All(nodes):
                for child in nodes:
                    if found := self.of(child):
                        return found
                return self._of_leaves([child for child in nodes if isinstance(child, Leaf)])

    def _of_leaf(self, leaf: Leaf) -> tuple[str, int] | None:
        if not leaf.constraint.is_empty:
            return None
        column = self._columns.in_order[leaf.column]
        never = f"; {column.name} is never NULL" if not column.everything.null else ""
        return f"{self._shown(leaf)} is true for no {column.type}{never}", self._written[id(leaf)][0]

    def _of_leaves(self, leaves: list[Leaf]) -> tuple[str, int] | None:
        for first, second in combinations(leaves, 2):
            if first.column == second.column and first.constraint.meet(second.constraint).is_empty:
                return f"{self._shown(second)} contradicts {self._shown(first)}", self._written[id(second)][0]
        met: dict[int, Constraint] = {}
        for leaf in leaves:
            met[leaf.column] = leaf.constraint.meet(met.get(leaf.column, leaf.constraint))
            if met[leaf.column].is_empty:
                name = self._columns.in_order[leaf.column].name
                return f"the conditions on {name} exclude each other", self._written[id(leaf)][0]
        return None

    def _shown(self, leaf: Leaf) -> str:
        begin, end = self._written[id(leaf)]
        shown = " ".join(self._text[begin:end].split())
        return shown if len(shown) <= 60 else f"{shown[:59]}…"
