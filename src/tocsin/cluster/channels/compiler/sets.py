"""Set orientation: one query that answers for all subscriptions at once.

The contract: the rows are those of running the body once per subscription, each with its `_subscription`. The
subscriptions become one more relation of FROM, `:p` becomes its column `p`, and the subscription becomes part of every
key:

- GROUP BY, DISTINCT, PARTITION BY and set operations get the subscription as a first key;
- ORDER BY ... LIMIT becomes a rank within each subscription;
- an aggregate without GROUP BY has a row even where nothing matched, so the subscriptions LEFT JOIN its rows;
- a subquery in FROM that uses parameters is treated the same way and joined on the subscription.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from tocsin.cluster.channels.compiler import functions, joins
from tocsin.cluster.channels.compiler.dialect import (
    Source,
    call,
    column_of,
    function_name,
    offset_of,
    quote_name,
    quote_string,
    sql_of,
)
from tocsin.cluster.channels.compiler.joins import SUBSCRIBED, SUBSCRIPTION, FromClause
from tocsin.cluster.channels.compiler.near import spell_out
from tocsin.cluster.channels.compiler.scopes import Output
from tocsin.cluster.channels.compiler.template import Broadcast, mark
from tocsin.model.catalogue import Dataset
from tocsin.model.schema import ColumnType

_ROWS = "_rows"
_RANK = "_rank"
#: Keys are sent beside results, so they should not be long; hashing all of them would take longer than sending these.
_LONG_KEY_BYTES = 200


@dataclass(frozen=True, slots=True)
class SetOriented:
    """Rewrites checked queries whose relations are bound. `datasets` is keyed by lower-case name."""

    source: Source
    datasets: Mapping[str, Dataset]
    few_subscriptions: bool = False

    def query(self, query: exp.Expr) -> str:
        """SQL that gives `_subscription` and then the outputs of `query`."""
        if isinstance(query, exp.Subquery):
            return self.query(query.this)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query)
        if not isinstance(query, exp.Select):
            raise TypeError(f"not a query: {type(query).__name__}")
        if query.args.get("distinct") and _is_limited(query):
            return self._distinct_limited(query)
        if query.args.get("group") is None and (query.args.get("having") or any(_aggregates(query))):
            return self._total(query)
        return self._select(query)

    def _set_operation(self, query: exp.SetOperation) -> str:
        operator = type(query).__name__.upper() + ("" if query.args.get("distinct") else " ALL")
        sql = f"({self.query(query.this)})\n{operator}\n({self.query(query.expression)})"
        return _ranked(sql, query, _output_names(query)) if _is_limited(query) else sql

    def _distinct_limited(self, select: exp.Select) -> str:
        by_expression = {item.this: item.alias for item in select.expressions}
        order = select.args.get("order")
        for ordered in order.expressions if order is not None else []:
            if ordered.this in by_expression:
                ordered.set("this", exp.column(exp.to_identifier(by_expression[ordered.this], quoted=True)))
            if ordered.this.table or not isinstance(ordered.this, exp.Column):
                raise self._error(ordered, "with SELECT DISTINCT, ORDER BY can only name outputs")
        inner = select.copy()
        for part in ("order", "limit", "offset"):
            inner.set(part, None)
        return _ranked(self.query(inner), select, _output_names(select))

    def _select(self, select: exp.Select) -> str:
        items = select.expressions
        if _is_limited(select):
            items.append(exp.alias_(_rank(_substituted_order(select)), _RANK, quoted=True))
            select.set("expressions", items)
        clause = self._from_clause(select)
        subscription = column_of(SUBSCRIPTION, clause.anchor)
        for window in _of_this_select(select, exp.Window):
            window.set("partition_by", [subscription.copy(), *(window.args.get("partition_by") or [])])
        distinct = "DISTINCT " if select.args.get("distinct") else ""
        hints = "".join(mark(Broadcast(alias)) for alias in clause.small)
        lines = [
            f"SELECT {hints}{distinct}{sql_of(subscription)} AS {SUBSCRIPTION},",
            f"  {', '.join(sql_of(spell_out(item)) for item in items)}",
            clause.sql,
        ]
        if clause.where:
            lines.append(f"WHERE {' AND '.join(map(joins.condition_sql, clause.where))}")
        if (group := select.args.get("group")) is not None:
            # Parameters depend on the subscription, but Spark doesn't know.
            keys = [subscription, *_parameters_in(select), *(spell_out(key) for key in group.expressions)]
            lines.append(f"GROUP BY {', '.join(dict.fromkeys(sql_of(key) for key in keys))}")
        if (having := select.args.get("having")) is not None:
            lines.append(f"HAVING {sql_of(spell_out(having.this))}")
        sql = "\n".join(lines)
        return _cut(sql, select, [item.alias for item in items if item.alias != _RANK]) if _is_limited(select) else sql

    def _total(self, select: exp.Select) -> str:
        """An aggregate without GROUP BY. Its arguments are computed where the rows are found. So for a subscription
        without rows each argument is NULL, which every allowed aggregate skips."""
        arguments: list[exp.Expr] = []

        def moved(argument: exp.Expr) -> exp.Expr:
            arguments.append(exp.alias_(argument.copy(), f"_a{len(arguments)}", quoted=True))
            return column_of(f"_a{len(arguments) - 1}", _ROWS)

        for aggregate in list(_aggregates(select)):
            if isinstance(aggregate.parent, exp.Filter):
                where = aggregate.parent.expression
                where.set("this", moved(where.this))
            if isinstance(aggregate.expressions[0], exp.Star):
                aggregate.set("expressions", [column_of(SUBSCRIPTION, _ROWS)])
                continue
            holder = aggregate.expressions[0] if isinstance(aggregate.expressions[0], exp.Distinct) else aggregate
            first, *others = holder.expressions
            columns = [moved(other) if other.find(exp.Column, exp.Placeholder) else other for other in others]
            holder.set("expressions", [moved(first), *columns])
        for column in _of_this_select(select, exp.Column):
            if column.text("table") not in {"", _ROWS}:
                message = f"{column.name} must be inside an aggregate function or in GROUP BY"
                raise self._error(column, message)
        rows = exp.Select(expressions=arguments or [exp.alias_(exp.true(), "_a0", quoted=True)])
        for part in ("from_", "joins", "where"):
            rows.set(part, select.args.get(part))
            select.set(part, None)
        if rows.args.get("from_") is None:
            raise self.source.error("an aggregate needs a FROM")
        # From here on it is a grouped query over two relations that `_select` can write.
        inner = exp.Var(this=f"(\n{self.query(rows)}\n)")
        joined = exp.Table(this=inner, alias=exp.TableAlias(this=exp.to_identifier(_ROWS, quoted=True)))
        on = exp.EQ(this=column_of(SUBSCRIPTION, _ROWS), expression=column_of(SUBSCRIPTION, SUBSCRIBED))
        select.set("joins", [exp.Join(this=joined, side="LEFT", on=on)])
        select.set("group", exp.Group(expressions=[]))
        return self._select(select)

    def _from_clause(self, select: exp.Select) -> FromClause:
        keyed: dict[str, str] = {}
        for subquery in joins.subqueries(select):
            if subquery.find(exp.Placeholder):
                keyed[subquery.alias] = f"(\n{self.query(subquery.this)}\n)"
                subquery.set("this", exp.Select())
        self._parameters_to_columns(select)
        return joins.from_clause(select, keyed, self.source, self.datasets, few_subscriptions=self.few_subscriptions)

    def _parameters_to_columns(self, select: exp.Select) -> None:
        for placeholder in list(select.find_all(exp.Placeholder)):
            if _subquery_depth(placeholder) > 1:
                message = f":{placeholder.name} is used in a subquery of a subquery, which Spark can't join to others"
                raise self.source.error(f"{message}; move the condition outwards or use JOIN", offset_of(select))
            column = column_of(placeholder.name, SUBSCRIBED)
            column.meta["type"] = placeholder.meta.get("type")
            placeholder.replace(column)

    def _error(self, node: exp.Expr, message: str) -> Exception:
        return self.source.error(message, offset_of(node))


def payload_query(rows: str, names: list[str], keys: Sequence[Output] = ()) -> str:
    """Wraps rows with `_subscription`: gives the subscription and its outputs as JSON, in order, NULLs included; and
    the key of ONCE PER, if there is one."""
    key = f",\n  {_key_sql(keys)} AS key" if keys else ""
    return (
        f"SELECT c.{SUBSCRIPTION} AS subscription,\n"
        f"  {_json_sql((name, f'c.{quote_name(name)}') for name in names)} AS payload{key}\n"
        f"FROM (\n{rows}\n) AS c"
    )


def holding_query(rows: str, keys: Sequence[Output]) -> str:
    """Wraps rows with `_subscription`: gives the keys that hold, in the form of a channel's rows."""
    return (
        f"SELECT DISTINCT c.{SUBSCRIPTION} AS subscription, '' AS payload, {_key_sql(keys)} AS key\n"
        f"FROM (\n{rows}\n) AS c"
    )


def touched_query(rows: str, keys: Sequence[Output]) -> str:
    """Wraps rows with `_subscription`, which may be NULL: gives the subscriptions and keys that changed rows name, NULL
    for all of them, in the form of a channel's rows without a payload."""
    key = _key_sql(keys) if keys else "CAST(NULL AS STRING)"
    return (
        f"SELECT c.{SUBSCRIPTION} AS subscription, CAST(NULL AS STRING) AS payload, {key} AS key\n"
        f"FROM (\n{rows}\n) AS c"
    )


def _key_sql(keys: Sequence[Output]) -> str:
    """The keys as a text: equal keys have the same, different keys have different ones, whatever publishers send. JSON
    keeps the values apart, and NULL from all others. Of a long text it is the SHA-256, which is no JSON object."""
    text = _json_sql((str(number), _canonical(key)) for number, key in enumerate(keys))
    return f"if(octet_length({text}) > {_LONG_KEY_BYTES}, sha2({text}, 256), {text})"


def _canonical(key: Output) -> str:
    """0.0 and -0.0 are equal, so they are one key."""
    column = f"c.{quote_name(key.name)}"
    return f"if({column} = 0, 0D, {column})" if key.type is ColumnType.DOUBLE else column


def _json_sql(columns: Iterable[tuple[str, str]]) -> str:
    """The SQL of JSON with these fields: their names, and the SQL of their values."""
    fields = ", ".join(f"{quote_string(name)}, {value}" for name, value in columns)
    options = (
        "map('ignoreNullFields', 'false', 'timeZone', 'UTC', 'timestampFormat', 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSSXXX')"
    )
    return f"to_json(named_struct({fields}), {options})"


def _is_limited(query: exp.Expr) -> bool:
    return query.args.get("limit") is not None or query.args.get("offset") is not None


def _rank(order: exp.Expr | None) -> exp.Expr:
    keys = order.copy() if order is not None else exp.Order(expressions=[exp.null()])
    return exp.Window(this=call("row_number"), order=keys, over="OVER")


def _substituted_order(select: exp.Select) -> exp.Expr | None:
    """ORDER BY with the names of outputs replaced by their expressions, because a rank stands beside the outputs."""
    order: exp.Expr | None = select.args.get("order")
    if order is None:
        return None
    expressions = {item.alias.lower(): item.this for item in select.expressions}
    for ordered in order.expressions:
        for column in list(ordered.find_all(exp.Column)):
            if not column.table:
                column.replace(exp.Paren(this=expressions[column.name.lower()].copy()))
    return order


def _ranked(sql: str, query: exp.Expr, names: list[str]) -> str:
    order = query.args.get("order")
    keys = ", ".join(sql_of(ordered) for ordered in order.expressions) if order is not None else "NULL"
    rank = f"row_number() OVER (PARTITION BY {SUBSCRIPTION} ORDER BY {keys})"
    return _cut(f"SELECT *, {rank} AS {_RANK}\nFROM (\n{sql}\n) AS _all", query, names)


def _cut(sql: str, query: exp.Expr, names: list[str]) -> str:
    """Keep the rows whose rank is within LIMIT and OFFSET."""
    skipped = int(offset.expression.this) if (offset := query.args.get("offset")) is not None else 0
    conditions = [f"{_RANK} > {skipped}"] if skipped else []
    if (limit := query.args.get("limit")) is not None:
        conditions.append(f"{_RANK} <= {skipped + int(limit.expression.this)}")
    columns = ", ".join([SUBSCRIPTION, *(quote_name(name) for name in names)])
    return f"SELECT {columns}\nFROM (\n{sql}\n) AS _ranked\nWHERE {' AND '.join(conditions) or 'TRUE'}"


def _output_names(query: exp.Expr) -> list[str]:
    while not isinstance(query, exp.Select):
        query = query.this
    return [item.alias for item in query.expressions]


def _of_this_select(select: exp.Select, *kinds: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Nodes of these kinds among the outputs, HAVING and ORDER BY, subqueries left out."""
    todo = [part for part in (*select.expressions, select.args.get("having"), select.args.get("order")) if part]
    while todo:
        node = todo.pop()
        if isinstance(node, kinds):
            yield node
        if not isinstance(node, exp.Query):
            todo.extend(node.iter_expressions())


def _aggregates(select: exp.Select) -> Iterator[exp.Expr]:
    for node in _of_this_select(select, exp.Anonymous):
        holder = node.parent.parent if isinstance(node.parent, exp.Filter) else node.parent
        if function_name(node) in functions.AGGREGATES and not (
            isinstance(holder, exp.Window) and holder.this.unalias() in (node, node.parent)
        ):
            yield node


def _parameters_in(select: exp.Select) -> list[exp.Expr]:
    return [column.copy() for column in _of_this_select(select, exp.Column) if column.text("table") == SUBSCRIBED]


def _subquery_depth(node: exp.Expr) -> int:
    depth = 0
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.Exists) or (
            isinstance(parent, exp.Subquery) and not isinstance(parent.parent, exp.From | exp.Join | exp.Lateral)
        ):
            depth += 1
        node = parent
    return depth
