"""Covering and intersection of two filters (pure).

`covers` is sound: if it says yes, every record that the covered filter matches, the covering one matches too. It is
complete as well for filters that are exact, have no suffix or contains patterns, and take no more work than
`_MAX_PIECES`.
"""

from __future__ import annotations

from typing import Final

from tocsin.filters.columns import FilterColumns
from tocsin.filters.filter import Filter
from tocsin.filters.normal_form import Alternative

#: What is left of an alternative is cut into pieces, by each alternative that covers a part of it. More than so many
#: come from filters that machines have written; then the answer is no.
_MAX_PIECES: Final = 256


def covers(covering: Filter, covered: Filter) -> bool:
    """Whether it is known that the first one matches all that the second one matches."""
    if covering == covered:
        return True
    if not covering.is_exact:
        return False
    return all(_covers(covering, one) for one in covered.alternatives)


def intersects(one: Filter, other: Filter) -> bool:
    """Whether a record may match both. If the answer is no, none does."""
    return any(first.meet(second) is not None for first in one.alternatives for second in other.alternatives)


def _covers(covering: Filter, covered: Alternative) -> bool:
    if any(covered.implies(one) for one in covering.alternatives):
        return True
    if len(covering.alternatives) == 1:
        return False
    left = [covered]
    for one in covering.alternatives:
        left = [piece for before in left for piece in _outside(before, one, covering.columns)]
        if not left:
            return True
        if len(left) > _MAX_PIECES:
            return False
    return False


def _outside(whole: Alternative, cutting: Alternative, columns: FilterColumns) -> list[Alternative]:
    """What is left without what an alternative matches, in pieces that don't overlap; or all of it."""
    if whole.meet(cutting) is None:
        return [whole]
    piece, left = whole, []
    for column, constraint in cutting.constraints:
        mine = piece.get(column) or columns.in_order[column].everything
        if not mine.implies_patterns(constraint.patterns):
            return [whole]
        rest = mine.minus(constraint)
        if not rest.is_empty:
            left.append(piece.with_constraint(column, rest))
        piece = piece.with_constraint(column, mine.meet(constraint))
    return left
