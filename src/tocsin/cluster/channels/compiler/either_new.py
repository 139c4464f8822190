"""`is_new(a) OR is_new(b)`: with ONCE PER, one query for the new rows of each.

Under OR, `is_new` makes a run read all rows of both relations, and compare them all. Two queries, one for each
condition, read only the new rows of one relation each, and together find the same. They find a pair of two new rows
twice, and ONCE PER makes that one result. So this needs keys, and a query whose rows do not depend on each other.
"""

from __future__ import annotations

from sqlglot import exp

from tocsin.cluster.channels.compiler import functions
from tocsin.cluster.channels.compiler.dialect import function_name
from tocsin.cluster.channels.compiler.windows import all_of, conjuncts

#: Each is a query of its own over the other relations.
_MOST_BRANCHES = 4
#: Parts of a SELECT that make its rows depend on each other.
_DEPENDENT = ("distinct", "group", "having", "order", "limit", "offset")


def branches_of(tree: exp.Expr) -> list[exp.Expr]:
    """The queries that together find what `tree` finds; the tree alone if it can't be split. Names are resolved."""
    where = tree.args.get("where")
    if not isinstance(tree, exp.Select) or where is None or not has_independent_rows(tree):
        return [tree]
    conditions = conjuncts(where.this)
    for at, condition in enumerate(conditions):
        calls = alternatives(condition)
        if 1 < len(calls) <= _MOST_BRANCHES and all(function_name(call) == functions.IS_NEW for call in calls):
            return [_with(tree, [*conditions[:at], call, *conditions[at + 1 :]]) for call in calls]
    return [tree]


def has_independent_rows(select: exp.Select) -> bool:
    if any(select.args.get(part) for part in _DEPENDENT):
        return False
    nodes = (node for item in select.expressions for node in item.walk())
    return not any(isinstance(node, exp.Window) or function_name(node) in functions.AGGREGATES for node in nodes)


def alternatives(condition: exp.Expr) -> list[exp.Expr]:
    """The conditions that OR joins, parentheses opened."""
    found: list[exp.Expr] = []
    todo = [condition]
    while todo:
        inner = todo.pop().unnest()
        if isinstance(inner, exp.Or):
            todo += [inner.expression, inner.this]
        else:
            found.append(inner)
    return found


def _with(tree: exp.Select, conditions: list[exp.Expr]) -> exp.Expr:
    branch = tree.copy()
    branch.set("where", exp.Where(this=all_of([condition.copy() for condition in conditions])))
    return branch
