"""How large a query is once everything in it is written out: what compiling and planning it costs.

A short text can stand for a long one. A name of WITH stands for its query, an output for its expression, `*` for all
columns; Spark copies a subquery's output into each condition that it moves inwards. So the size of a column is that of
the expression it stands for, and the budget is charged before anything is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from tocsin.cluster.channels.compiler import functions
from tocsin.cluster.channels.compiler.dialect import Source, offset_of

#: Spark plans a query of this size within about two seconds on one core, and compiles it within five.
MAX_SIZE: Final = 4_000
#: All relations of FROM, including those in subqueries and behind names of WITH.
MAX_RELATIONS: Final = 32

#: The key of a node's `meta` that holds the size of what a column stands for.
SIZE: Final = "size"


def size_of(node: exp.Expr) -> int:
    """The number of nodes, names not counted. A function that enlarges its argument multiplies the argument's size."""
    if isinstance(node, exp.Column):
        return int(node.meta.get(SIZE, 1))
    if isinstance(node, exp.Identifier | exp.TableAlias):
        return 0
    return functions.growth(node) * (1 + sum(map(size_of, node.iter_expressions())))


@dataclass(slots=True)
class Budget:
    """How much one query may still grow."""

    source: Source
    spent: int = 0
    relations: int = 0

    def charge(self, size: int) -> None:
        """Add `size`, and refuse the query if it is too large now."""
        self.spent += size
        self.check(self.spent)

    def check(self, size: int) -> None:
        if size > MAX_SIZE:
            raise self.source.error(
                "the query is too large: with subqueries, WITH, * and the names of outputs written out, "
                f"it has more than {MAX_SIZE:,} parts",
                0,
            )

    def charge_relation(self, node: exp.Expr) -> None:
        self.relations += 1
        if self.relations > MAX_RELATIONS:
            message = f"the query reads too much: FROM and JOIN may name {MAX_RELATIONS} relations in all"
            raise self.source.error(f"{message}, subqueries and WITH included", offset_of(node))
