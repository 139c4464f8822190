"""The columns that filters of one schema speak of: found by name, known by number (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tocsin.filters.domains import DOMAINS, Domain
from tocsin.filters.predicates import Constraint
from tocsin.model.schema import ColumnType, Schema

#: Schemas of which the columns are kept. A broker serves a few dozen sources; one more is made in microseconds.
_KEPT = 256


@dataclass(frozen=True, slots=True)
class FilterColumn:
    #: Where its value stands in a row.
    number: int
    name: str
    type: ColumnType
    domain: Domain
    #: All values that it can have.
    everything: Constraint


@dataclass(frozen=True, slots=True)
class FilterColumns:
    in_order: tuple[FilterColumn, ...]
    by_name: dict[str, FilterColumn]

    def is_everything(self, number: int, constraint: Constraint) -> bool:
        return constraint == self.in_order[number].everything

    @property
    def names(self) -> str:
        return ", ".join(column.name for column in self.in_order)


@lru_cache(maxsize=_KEPT)
def columns_of(schema: Schema) -> FilterColumns:
    found = []
    for number, column in enumerate(schema):
        domain = DOMAINS[column.type]
        everything = Constraint((domain.first, domain.end), null=column.nullable)
        found.append(FilterColumn(number, column.name, column.type, domain, everything))
    return FilterColumns(tuple(found), {column.name.lower(): column for column in found})
