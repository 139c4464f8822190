"""The filters of one source at a broker: which of its results each subscriber gets (pure).

Frontend subscriptions with the same filter are one group, so a result is compared with each filter once, whoever has
it. Groups with somebody live are in an index. A payload is read only if somebody filters it, and once for all of them.

A result that can't be decided on goes to everybody: it says that results are missing, or it is of another definition of
the channel and its columns are not those that the filters speak of. Rather one too many than one too few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from tocsin.errors import InvalidValue
from tocsin.filters.filter import Filter
from tocsin.filters.index import FilterIndex
from tocsin.filters.normal_form import Row
from tocsin.filters.results import PayloadReader, filtered_columns
from tocsin.model.schema import ResultColumn
from tocsin.protocol.ports import Delivery

if TYPE_CHECKING:
    from tocsin.broker.core.events import ConnectionId
    from tocsin.broker.core.sessions import Frontend

#: Rows of results that were looked at to catch somebody up; the next one who comes back needs mostly the same. A row
#: takes some 500 bytes.
_MAX_ROWS = 4_096


_EVERYTHING = "TRUE"
#: Rows by source and sequence.
RecentRows: TypeAlias = "dict[tuple[SourceFilters, int], Row | None]"


class FilterCounts(NamedTuple):
    """Frontend subscriptions with a filter; of the live results of their sources, those that each was sent because they
    matched, and those that it was not."""

    filters: int
    matched: int
    skipped: int


@dataclass(slots=True, eq=False)
class FilterGroup:
    """The frontend subscriptions of a source that have the same filter, as it was written."""

    source: SourceFilters
    where: str
    filter: Filter
    members: int = 0
    #: Those that get each result that matches, as it comes.
    live: dict[ConnectionId, Frontend] = field(default_factory=dict)

    def matches(self, delivery: Delivery) -> bool:
        row = self.source.row_of(delivery)
        return row is None or self.filter.matches(row)


class SourceFilters:
    """`rows` is shared by all sources of a broker. While the columns are not known, kept filters let all through;
    they are read again as soon as the cluster says what its results are."""

    def __init__(self, columns: Sequence[ResultColumn], rows: RecentRows) -> None:
        self._are_known = bool(columns)
        self._columns = filtered_columns(columns)
        self._read = PayloadReader(self._columns.schema)
        self._groups: dict[str, FilterGroup] = {}
        #: The groups with somebody live.
        self._index: FilterIndex[FilterGroup] = FilterIndex(self._columns.schema)
        self._rows = rows
        #: How many are live.
        self.live = 0
        #: The sequence of the last result that was decided on for all who are live.
        self.last = 0

    def __len__(self) -> int:
        """How many frontend subscriptions have a filter."""
        return sum(one.members for one in self._groups.values())

    def parse(self, where: str) -> FilterGroup:
        """The group of a filter; nobody is in it yet. Raises StatementError, which points at what is wrong."""
        known = self._groups.get(where)
        if known is not None:
            return known
        return FilterGroup(self, where, self._columns.parse(where if self._are_known else _EVERYTHING))

    def join(self, group: FilterGroup) -> FilterGroup:
        """One more frontend subscription has this filter."""
        group = self._groups.setdefault(group.where, group)
        group.members += 1
        return group

    def leave(self, group: FilterGroup) -> None:
        """One that is not live has this filter no longer."""
        group.members -= 1
        if not group.members:
            del self._groups[group.where]

    def begin(self, group: FilterGroup, connection: ConnectionId, frontend: Frontend) -> None:
        """It is live from now on."""
        if not group.live:
            self._index.add(group, group.filter)
        group.live[connection] = frontend
        self.live += 1
        self.last = max(self.last, frontend.sent)

    def end(self, group: FilterGroup, connection: ConnectionId) -> None:
        if group.live.pop(connection, None) is not None:
            self.live -= 1
            if not group.live:
                self._index.remove(group)

    def wanted(self, delivery: Delivery) -> Iterable[FilterGroup]:
        """The groups, of those with somebody live, that get a result."""
        row = self._row(delivery)
        return list(self._index) if row is None else self._index.matching(row)

    def row_of(self, delivery: Delivery) -> Row | None:
        """The row of a result; None if it can't be decided on. For catching up: it is remembered for a while."""
        asked = (self, delivery.sequence)
        if asked not in self._rows:
            if len(self._rows) >= _MAX_ROWS:
                self._rows.clear()
            self._rows[asked] = self._row(delivery)
        return self._rows[asked]

    def rewind(self, sequence: int) -> None:
        """Results after this belong to a history that is gone."""
        self.last = min(self.last, sequence)

    def all_live(self) -> Iterator[Frontend]:
        for group in self._index:
            yield from group.live.values()

    def _row(self, delivery: Delivery) -> Row | None:
        try:
            payload = delivery.payload()
            return None if payload is None else self._read(payload)
        except (InvalidValue, msgspec.DecodeError, IndexError):
            return None
