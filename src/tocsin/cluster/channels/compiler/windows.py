"""`is_new(r)`: which relations of a query hold only the rows of the window.

Where `is_new(r)` must hold for every row that `r` contributes, `r` becomes the NEW relation and the call disappears.
Anywhere else `r` stays whole and the call becomes its column `_is_new`.
"""

from __future__ import annotations

from sqlglot import exp

from tocsin.cluster.channels.compiler import functions
from tocsin.cluster.channels.compiler.dialect import column_of, function_name
from tocsin.cluster.channels.compiler.template import Relation, RelationRole, mark

IS_NEW_COLUMN = "_is_new"


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND joins, parentheses opened."""
    found: list[exp.Expr] = []
    todo = [node] if node is not None else []
    while todo:
        condition = todo.pop()
        inner = condition.unnest()
        if isinstance(inner, exp.And):
            todo += [inner.expression, inner.this]
        else:
            found.append(condition)
    return found


def bind_relations(tree: exp.Expr) -> tuple[str, ...]:
    """Turn every dataset of the tree into a relation's hole, in place; returns the datasets in is_new calls, sorted."""
    watched: set[str] = set()
    for select in list(tree.find_all(exp.Select)):
        watched |= _bind_select(select)
    return tuple(sorted(watched))


def _bind_select(select: exp.Select) -> set[str]:
    tables = {item.alias: item for item in from_items(select) if isinstance(item, exp.Table)}
    datasets = {alias: table.name for alias, table in tables.items()}
    new = _filter_to_new(select)
    watched = {datasets[alias] for alias in new}
    marked: set[str] = set()
    for call in [node for node in select.find_all(exp.Anonymous) if function_name(node) == functions.IS_NEW]:
        alias = call.expressions[0].name
        if alias not in datasets:
            continue  # It belongs to a SELECT inside this one.
        watched.add(datasets[alias])
        if alias in new:
            call.replace(exp.true())
        else:
            marked.add(alias)
            call.replace(column_of(IS_NEW_COLUMN, alias))
    for alias, table in tables.items():
        role = RelationRole.NEW if alias in new else RelationRole.FULL_MARKED if alias in marked else RelationRole.FULL
        table.meta["relation"] = Relation(role, datasets[alias])
        table.set("this", exp.Var(this=mark(table.meta["relation"])))
    return watched


def _filter_to_new(select: exp.Select) -> set[str]:
    """Drop the is_new conditions that are filters on one relation; returns the aliases of those relations."""
    joins = select.args.get("joins") or []
    sides = [str(join.args.get("side") or "").upper() for join in joins]
    if {"RIGHT", "FULL"} & set(sides):
        return set()
    may_be_null = {join.this.alias for join, side in zip(joins, sides, strict=True) if side == "LEFT"}
    may_be_null -= {join.this.alias for join in joins if str(join.args.get("kind") or "").upper() in {"SEMI", "ANTI"}}
    new: set[str] = set()

    def keep(condition: exp.Expr, eligible: set[str] | None) -> bool:
        if function_name(condition) != functions.IS_NEW:
            return True
        alias = condition.expressions[0].name
        if alias in may_be_null if eligible is None else alias not in eligible:
            return True
        new.add(alias)
        return False

    where = select.args.get("where")
    if where is not None:
        kept = [condition for condition in conjuncts(where.this) if keep(condition, None)]
        select.set("where", exp.Where(this=all_of(kept)) if kept else None)
    for join, side in zip(joins, sides, strict=True):
        if join.args.get("on") is None:
            continue
        # The ON of an outer, semi or anti join filters only the joined relation; that of an inner join, any it names.
        outer = side == "LEFT" or str(join.args.get("kind") or "").upper() in {"SEMI", "ANTI"}
        eligible = {join.this.alias} if outer else None
        join.set("on", all_of([condition for condition in conjuncts(join.args["on"]) if keep(condition, eligible)]))
    return new


def from_items(select: exp.Select) -> list[exp.Expr]:
    from_ = select.args.get("from_")
    items = [from_.this] if from_ is not None else []
    return items + [join.this for join in select.args.get("joins") or []]


def all_of(conditions: list[exp.Expr]) -> exp.Expr:
    """The conditions joined by AND; TRUE if there are none."""
    if not conditions:
        return exp.true()
    combined = conditions[0]
    for condition in conditions[1:]:
        combined = exp.And(this=combined, expression=condition)
    return combined
