"""What names mean inside one SELECT: its relations, their columns, and the SELECTs around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tocsin.cluster.channels.compiler.dialect import column_of
from tocsin.cluster.channels.compiler.size import SIZE
from tocsin.model.catalogue import Dataset
from tocsin.model.schema import SEQUENCE_COLUMN, ColumnType


@dataclass(frozen=True, slots=True)
class Output:
    """One output column of a query. The type is known only for a dataset's column or a parameter. `size` is that of the
    expression that the column stands for."""

    name: str
    type: ColumnType | None = None
    size: int = field(default=1, compare=False)


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation of FROM, under the name that its author wrote and the alias that is unique in the whole query."""

    written: str
    alias: str
    columns: Mapping[str, Output]
    dataset: Dataset | None = None

    def find(self, name: str) -> Output | None:
        if self.dataset is not None and name == SEQUENCE_COLUMN:
            return Output(SEQUENCE_COLUMN, ColumnType.BIGINT)
        return self.columns.get(name)

    def column(self, output: Output, offset: int = -1) -> exp.Column:
        """An output of this relation, qualified with its alias."""
        column = column_of(output.name, self.alias)
        if offset >= 0:
            column.meta["start"] = offset
        column.meta["type"] = output.type
        column.meta[SIZE] = output.size
        return column


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A name of WITH, and the names of WITH that its query may use."""

    query: exp.Expr
    columns: list[exp.Identifier]
    visible: Mapping[str, CommonTable]


@dataclass(slots=True)
class Scope:
    common: Mapping[str, CommonTable]
    outer: Scope | None = None
    relations: list[NamedRelation] = field(default_factory=list)

    def outward(self) -> Iterator[Scope]:
        """This scope, and those around it."""
        level: Scope | None = self
        while level is not None:
            yield level
            level = level.outer

    def owners(self, name: str) -> list[NamedRelation]:
        """The relations of this scope alone that have such a column."""
        return [relation for relation in self.relations if relation.find(name) is not None]
