"""WITH EXITS: the queries that tell which results no longer hold.

A result holds while the query, without `is_new`, finds its key in all current rows. Mostly a changed row tells which
results it can have ended: if its primary key is in the key of ONCE PER, those with that key, and if it equals
parameters, those of the subscriptions with these values. No other row can hold these results, so those that the run
over the changed rows does not find have ended. This needs one small query for each such relation, which gives what its
changed rows *touch*. Changes to other relations can end any result; then all results that hold are found anew.

A query is refused if nobody could say what holds: if its rows depend on each other, or if `is_new` is more than a
condition that leaves rows out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tocsin.cluster.channels.compiler import functions
from tocsin.cluster.channels.compiler.dialect import Source, call, function_name, offset_of, sql_of
from tocsin.cluster.channels.compiler.either_new import alternatives, branches_of, has_independent_rows
from tocsin.cluster.channels.compiler.joins import SUBSCRIPTION
from tocsin.cluster.channels.compiler.scopes import Output
from tocsin.cluster.channels.compiler.sets import SetOriented, touched_query
from tocsin.cluster.channels.compiler.windows import all_of, bind_relations, conjuncts, from_items
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import ColumnType


@dataclass(frozen=True, slots=True)
class ExitPlan:
    """How changes to a dataset end results. New rows of all other datasets end none."""

    #: A changed row touches few results.
    by_row: tuple[str, ...]
    #: Any change can end any result, so all are checked.
    by_check: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Touched:
    """A query over the changed rows of one relation, for what they touch."""

    query: exp.Select
    #: The columns that are the key; none if all keys of a subscription are touched.
    keys: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class ExitQueries:
    plan: ExitPlan
    touched: tuple[Touched, ...]
    #: Finds the keys that hold; its relations are bound.
    holding: exp.Select


def exit_queries(
    tree: exp.Expr, keys: Sequence[Output], source: Source, datasets: Mapping[str, Dataset]
) -> ExitQueries:
    """`tree` is resolved. Raises StatementError if exits can't be found for it."""
    if not isinstance(tree, exp.Select) or not has_independent_rows(tree):
        message = "WITH EXITS needs rows that do not depend on each other"
        raise source.error(f"{message}: one SELECT without DISTINCT, GROUP BY, aggregates, OVER, ORDER BY and LIMIT", 0)
    tables = list(tree.find_all(exp.Table))
    if not any(datasets[table.name.lower()].kind is DatasetKind.KEYED for table in tables):
        message = "WITH EXITS needs a KEYED dataset in the query"
        raise source.error(f"{message}: rows of others are not replaced, so that a result would hold for ever", 0)
    holding, conditions, new = _holding(tree, keys, source)
    found = {table.alias: _touched(table, holding, conditions, keys, datasets) for table in _inner_tables(holding)}
    # What the run finds is all that holds through changed rows only if no other is_new leaves out some of it.
    is_whole = not new or (len(new) == 1 and _is_read_alone(new[0], tree))
    by_row: dict[str, list[Touched]] = {}
    by_check = set()
    for table in tables:
        dataset = datasets[table.name.lower()]
        is_inner = table.alias in found
        touched = found.get(table.alias)
        if touched is not None and is_whole and (not new or table.alias in new[0]):
            by_row.setdefault(dataset.name, []).append(touched)
        elif not (is_inner and dataset.kind is DatasetKind.ACTIVE):
            by_check.add(dataset.name)
    rows = {name: queries for name, queries in by_row.items() if name not in by_check}
    bind_relations(holding)
    plan = ExitPlan(tuple(sorted(rows)), tuple(sorted(by_check)))
    return ExitQueries(plan, tuple(one for queries in rows.values() for one in queries), holding)


def touched_sql(writer: SetOriented, touched: Touched) -> str:
    """The SQL for what changed rows touch: rows of a subscription, or NULL for all, and a key, or NULL for all."""
    query = touched.query.copy()
    bind_relations(query)
    if query.find(exp.Placeholder):
        return touched_query(writer.query(query), touched.keys)
    everybody = exp.Cast(this=exp.null(), to=exp.DataType.build("BIGINT"))
    query.set("expressions", [exp.alias_(everybody, SUBSCRIPTION, quoted=True), *query.expressions])
    return touched_query(sql_of(query), touched.keys)


def _holding(
    tree: exp.Select, keys: Sequence[Output], source: Source
) -> tuple[exp.Select, list[exp.Expr], list[list[str]]]:
    """The query of the keys without `is_new`; the conditions that each row must meet; and the aliases in each
    condition that was `is_new` of one of them."""
    holding = tree.copy()
    named = {output.name for output in keys}
    holding.set("expressions", [item for item in holding.expressions if item.alias in named])
    new: list[list[str]] = []

    def kept(conditions: list[exp.Expr]) -> list[exp.Expr]:
        left = []
        for condition in conditions:
            calls = alternatives(condition)
            if all(function_name(one) == functions.IS_NEW for one in calls):
                new.append([one.expressions[0].name for one in calls])
            else:
                left.append(condition)
        return left

    conditions: list[exp.Expr] = []
    if (where := holding.args.get("where")) is not None:
        conditions += kept(conjuncts(where.this))
        holding.set("where", exp.Where(this=all_of(conditions)) if conditions else None)
    for join in holding.args.get("joins") or []:
        if _is_inner(join) and join.args.get("on") is not None:
            left = kept(conjuncts(join.args["on"]))
            join.set("on", all_of(left))
            conditions += left
    for node in holding.find_all(exp.Anonymous):
        if function_name(node) == functions.IS_NEW:
            message = "WITH EXITS takes is_new as a condition of its own only, such as WHERE is_new(a) OR is_new(b)"
            raise source.error(f"{message}: otherwise nobody can tell what holds", offset_of(node))
    return holding, conditions, new


def _is_read_alone(aliases: list[str], tree: exp.Select) -> bool:
    """Whether a query reads only the new rows of each of these relations (`either_new`)."""
    return len(aliases) == 1 or len(branches_of(tree)) == len(aliases)


def _is_inner(join: exp.Join) -> bool:
    kind, side = (str(join.args.get(part) or "").upper() for part in ("kind", "side"))
    return not side and kind in {"", "INNER", "CROSS"}


def _inner_tables(select: exp.Select) -> list[exp.Table]:
    """Relations of which each row of the query has a row: more rows of theirs can end nothing."""
    joins = select.args.get("joins") or []
    if any(str(join.args.get("side") or "").upper() in {"RIGHT", "FULL"} for join in joins):
        return []
    first, *_ = [*from_items(select), None]
    items = [first, *(join.this for join in joins if _is_inner(join))]
    return [item for item in items if isinstance(item, exp.Table)]


def _touched(
    table: exp.Table,
    holding: exp.Select,
    conditions: Sequence[exp.Expr],
    keys: Sequence[Output],
    datasets: Mapping[str, Dataset],
) -> Touched | None:
    """None if a result does not tell which row of this relation it needs."""
    dataset = datasets[table.name.lower()]
    if dataset.kind is not DatasetKind.KEYED:
        return None
    primary_key = {name.lower() for name in dataset.schema.primary_key}
    items = [item for item in holding.expressions if _column_of(item.this, table.alias) in primary_key]
    if len(items) == len(holding.expressions):
        fixed = {_column_of(item.this, table.alias) for item in items}
    else:
        items, fixed = [], set()
    where = []
    for condition in conditions:
        name = _given_column(condition, table.alias)
        if name in primary_key - fixed:
            fixed.add(name)
            where.append(condition.copy())
    if fixed != primary_key or not (items or any(condition.find(exp.Placeholder) for condition in where)):
        return None
    is_new = call(functions.IS_NEW, exp.to_identifier(table.alias, quoted=True))
    query = exp.Select(
        expressions=[item.copy() for item in items] or [exp.alias_(exp.true(), "_any", quoted=True)],
        from_=exp.From(this=table.copy()),
        where=exp.Where(this=all_of([is_new, *where])),
    )
    return Touched(query, tuple(keys) if items else ())


def _column_of(node: exp.Expr, alias: str) -> str | None:
    """The lower-case name of a column of this relation; None for anything else, and for DOUBLE, of which several values
    can count as equal."""
    column = node.unnest()
    is_column = isinstance(column, exp.Column) and column.text("table") == alias
    return column.name.lower() if is_column and column.meta.get("type") is not ColumnType.DOUBLE else None


def _given_column(condition: exp.Expr, alias: str) -> str | None:
    """The column of this relation that a condition compares with a parameter or a constant."""
    equality = condition.unnest()
    if isinstance(equality, exp.EQ):
        for one, other in ((equality.this, equality.expression), (equality.expression, equality.this)):
            value = other.unnest()
            # Of another type, it could be equal to several values of the column.
            is_same = isinstance(value, exp.Placeholder) and value.meta.get("type") is one.unnest().meta.get("type")
            if is_same or (isinstance(value, exp.Literal) and value.is_string == _is_text(one)):
                return _column_of(one, alias)
    return None


def _is_text(node: exp.Expr) -> bool:
    return node.unnest().meta.get("type") is ColumnType.STRING
