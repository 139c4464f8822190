"""Pairs of letters that all texts have which a filter matches, as 64 bits (pure).

A filter that wants `%flood%` can cover only those whose texts have the pairs fl, lo, oo and od. Ranges say nothing
about that: the outer bounds of all such filters are the same. With these bits, few of thousands are left to be
compared.
"""

from __future__ import annotations

from functools import reduce
from itertools import pairwise
from operator import and_, or_
from typing import Final

from tocsin.filters.filter import Filter
from tocsin.filters.normal_form import Alternative
from tocsin.filters.predicates import Constraint, common_prefix
from tocsin.filters.ranges import pieces

_ALL: Final = (1 << 64) - 1
#: Spreads neighbouring letters over the bits: 2**32 over the golden ratio.
_ODD: Final = 0x9E3779B1


def pairs_of(of: Filter) -> int:
    """The bits of what covers a filter are among the filter's own."""
    return reduce(and_, map(_of_alternative, of.alternatives), _ALL)


def _of_alternative(alternative: Alternative) -> int:
    return reduce(or_, (_of_constraint(column, one) for column, one in alternative.constraints), 0)


def _of_constraint(column: int, constraint: Constraint) -> int:
    ranges = constraint.ranges
    if constraint.null or not isinstance(ranges[0], str):
        return 0
    bits = reduce(and_, (_of_text(column, common_prefix(piece)) for piece in pieces(ranges)), _ALL)
    needed = (one.text for one in constraint.patterns if not one.negated)
    return reduce(or_, (_of_text(column, text) for text in needed), bits)


def _of_text(column: int, text: str) -> int:
    bits = 0
    for first, second in pairwise(text):
        bits |= 1 << (((ord(first) * 31 + ord(second)) * 31 + column) * _ODD >> 26 & 63)
    return bits
