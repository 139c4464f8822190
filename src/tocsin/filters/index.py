"""The filter index: finds those of many filters that a row matches, without trying each (pure).

An alternative is kept under its access predicate, and in the bucket by the rest of its conditions. If that says all of
a filter, a row that finds it there matches it: no filter is evaluated. Other filters (several alternatives, several
ranges on one column, NULL or a range, patterns beside other conditions, more than two columns with ranges) are found
the same way by what they have to fulfil at least, and are then evaluated.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from tocsin.filters.access import AccessOption, access_options, closed_span
from tocsin.filters.buckets import Bound, Box, Rest
from tocsin.filters.columns import FilterColumns, columns_of
from tocsin.filters.filter import Filter, check_columns
from tocsin.filters.normal_form import Alternative, Row
from tocsin.filters.postings import Posting, Postings
from tocsin.filters.predicates import Constraint
from tocsin.model.schema import Schema

Name = TypeVar("Name", bound=Hashable)

#: More columns would multiply the kinds of boxes that a bucket can have, and a row looks at each kind.
_BOX_COLUMNS: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class _Candidate(Generic[Name]):
    name: Name
    filter: Filter


class FilterIndex(Generic[Name]):
    """Filters under names that the caller chooses.

    >>> from tocsin.filters.language import parse
    >>> from tocsin.filters.rows import RowEncoder
    >>> from tocsin.model.schema import Column, ColumnType
    >>> schema = Schema((Column("symbol", ColumnType.STRING), Column("volume", ColumnType.BIGINT)))
    >>> index = FilterIndex(schema)
    >>> index.add("ann", parse("symbol = 'YHOO' AND volume > 5", schema))
    >>> index.add("bob", parse("volume BETWEEN 1 AND 3", schema))
    >>> index.matching(RowEncoder(schema)({"symbol": "YHOO", "volume": 8}))
    ['ann']
    """

    def __init__(self, schema: Schema) -> None:
        self._columns: FilterColumns = columns_of(schema)
        #: What is found here matches.
        self._sure: Postings[Name] = Postings()
        self._candidates: Postings[_Candidate[Name]] = Postings()
        self._kept: dict[Name, tuple[bool, tuple[Posting, ...]]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, name: Name) -> bool:
        return name in self._kept

    def __iter__(self) -> Iterator[Name]:
        return iter(self._kept)

    def add(self, name: Name, added: Filter) -> None:
        if name in self._kept:
            raise ValueError(f"{name} has a filter already")
        check_columns(added, self._columns)
        if (posting := self._add_surely(name, added)) is not None:
            self._kept[name] = True, (posting,)
            return
        candidate = _Candidate(name, added)
        self._kept[name] = False, tuple(self._add_candidate(candidate, one) for one in added.alternatives)

    def remove(self, name: Name) -> None:
        is_sure, postings = self._kept.pop(name)
        for posting in postings:
            if is_sure:
                self._sure.remove(posting)
            else:
                self._candidates.remove(posting)

    def matching(self, row: Row) -> list[Name]:
        """The names of all filters that a row matches, each once, in no particular order."""
        found = self._sure.found_by(row)
        if self._candidates.is_used:
            # One that has several alternatives may be found several times.
            candidates = dict.fromkeys(self._candidates.found_by(row))
            found += [one.name for one in candidates if one.filter.matches(row)]
        return found

    def _add_surely(self, name: Name, added: Filter) -> Posting | None:
        """None if postings can't say all of the filter."""
        if not added.is_exact or len(added.alternatives) > 1:
            return None
        (alternative,) = added.alternatives
        for option in self._sure.cheapest_first(self._options(alternative)):
            others = _left_by(option, alternative)
            rest = self._exact_rest(others)
            if rest is not None or not others:
                return self._sure.add(name, option.keys if option is not None else (), rest)
        return None

    def _add_candidate(self, candidate: _Candidate[Name], alternative: Alternative) -> Posting:
        option = self._candidates.cheapest_first(self._options(alternative))[0]
        keys = option.keys if option is not None else ()
        return self._candidates.add(candidate, keys, self._wider_rest(_left_by(option, alternative)))

    def _options(self, alternative: Alternative) -> list[AccessOption]:
        in_order = self._columns.in_order
        return [option for at, one in alternative.constraints for option in access_options(in_order[at], one)]

    def _exact_rest(self, others: list[tuple[int, Constraint]]) -> Rest:
        """What says all of these constraints; None if nothing does, or there are none."""
        if any(len(one.ranges) != 2 or one.null or one.patterns for _, one in others):
            return None
        if len(others) == 1 and (bound := self._bound(*others[0])) is not None:
            return bound
        spans = [(column, closed_span(one.ranges)) for column, one in others]
        if 0 < len(spans) <= _BOX_COLUMNS:
            ranges = tuple((column, *span) for column, span in spans if span is not None)
            return Box(ranges) if len(ranges) == len(spans) else None
        return None

    def _wider_rest(self, others: list[tuple[int, Constraint]]) -> Rest:
        """What holds wherever these constraints hold; None if that is not known of anything."""
        needed = [(column, one) for column, one in others if not one.null]
        spans = [(column, *span) for column, one in needed if (span := closed_span(one.ranges))]
        if spans:
            return Box(tuple(spans[:_BOX_COLUMNS]))
        texts = [(column, one) for column, one in needed if isinstance(one.ranges[0], str)]
        return Bound(texts[0][0], is_upper=False, key=texts[0][1].ranges[0]) if texts else None

    def _bound(self, column: int, constraint: Constraint) -> Bound | None:
        """The one bound that a range has; None if it has two."""
        domain = self._columns.in_order[column].domain
        first, end = constraint.ranges
        if end == domain.end:
            return Bound(column, is_upper=False, key=first)
        return Bound(column, is_upper=True, key=end) if first == domain.first else None


def _left_by(option: AccessOption | None, alternative: Alternative) -> list[tuple[int, Constraint]]:
    """The constraints that an access predicate does not say all of."""
    if option is None or not option.is_exact:
        return list(alternative.constraints)
    return [(column, one) for column, one in alternative.constraints if column != option.column]
