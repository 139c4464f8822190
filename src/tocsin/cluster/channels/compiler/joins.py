"""The FROM clause of a set-oriented query: in which order relations and subscriptions are joined.

Without statistics Spark keeps the order it is given, so the order here is the plan: begin with the relation of new
rows, then take the relation that multiplies the rows least. The subscriptions are joined as soon as an equality links
them to a key; few rows have been found by then, so those are the side to broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from tocsin.cluster.channels.compiler.dialect import Source, column_of, offset_of, quote_name, sql_of
from tocsin.cluster.channels.compiler.near import CELL_COLUMN, Explosion, near_cells, spell_out, spell_out_condition
from tocsin.cluster.channels.compiler.template import SUBSCRIPTIONS, Broadcast, Relation, RelationRole, mark
from tocsin.cluster.channels.compiler.windows import conjuncts, from_items
from tocsin.model.catalogue import Dataset, DatasetKind

SUBSCRIPTION = "_subscription"
#: The alias of the subscriptions.
SUBSCRIBED = "_s"
_CANDIDATES = "_candidates"


@dataclass(frozen=True, slots=True)
class FromClause:
    sql: str
    #: The conditions that are left for WHERE.
    where: list[exp.Expr]
    #: The relation whose `_subscription` tells which subscription a row belongs to.
    anchor: str
    #: Relations worth broadcasting.
    small: list[str]


@dataclass(slots=True)
class _Item:
    """One relation of FROM."""

    alias: str
    sql: str
    relation: Relation | None = None
    dataset: Dataset | None = None
    holds_new: bool = False
    explosion: Explosion | None = None

    @property
    def is_subscriptions(self) -> bool:
        return self.relation == SUBSCRIPTIONS

    @property
    def weight(self) -> int:
        """How costly it is to repeat this relation for each cell."""
        if self.holds_new:
            return 0
        if self.dataset is not None and self.dataset.kind is DatasetKind.REFERENCE:
            return 1
        return 2 if self.is_subscriptions else 3

    def from_sql(self) -> str:
        if self.explosion is not None:
            return self.explosion.relation_sql(self.sql, self.alias)
        return f"{self.sql} AS {quote_name(self.alias)}"


def subqueries(select: exp.Select) -> list[exp.Subquery]:
    return [node for node in from_items(select) if isinstance(node, exp.Subquery)]


def from_clause(
    select: exp.Select,
    keyed: Mapping[str, str],
    source: Source,
    datasets: Mapping[str, Dataset],
    *,
    few_subscriptions: bool = False,
) -> FromClause:
    """`keyed` holds the SQL of subqueries that carry `_subscription` themselves.

    Columns in `select` may be renamed, in place, to follow their relations into a subquery. For few subscriptions the
    order differs: the subscriptions come first, then the rows that belong to them, and these are compared with the new
    rows.
    """
    return _FromBuilder(select, keyed, source, datasets, few_subscriptions).build()


@dataclass(slots=True)
class _FromBuilder:
    select: exp.Select
    keyed: Mapping[str, str]
    source: Source
    datasets: Mapping[str, Dataset]
    few_subscriptions: bool
    #: The SQL written so far, and the aliases that it joins.
    lines: list[str] = field(default_factory=list)
    joined_aliases: set[str] = field(default_factory=set)
    small: list[str] = field(default_factory=list)

    def build(self) -> FromClause:
        joins = self.select.args.get("joins") or []
        where = self.select.args.get("where")
        conditions = conjuncts(where.this) if where is not None else []
        if any(_side(join) in {"RIGHT", "FULL"} for join in joins):
            return self._as_written_first(joins, conditions)
        if any(isinstance(node, exp.Lateral) for node in from_items(self.select)):
            return self._subscriptions_first(joins, conditions)
        return self._ordered(joins, conditions)

    # Where the written order must stay

    def _as_written_first(self, joins: list[exp.Join], conditions: list[exp.Expr]) -> FromClause:
        """RIGHT and FULL joins mean the same for every subscription only if none of the joins uses a parameter."""
        nodes = from_items(self.select)
        if self.keyed or any(SUBSCRIBED in _aliases(node) for node in (*joins, *nodes)):
            message = "beside a RIGHT or FULL JOIN, parameters are allowed in WHERE and SELECT only"
            raise self.source.error(f"{message}; use LEFT JOIN", offset_of(self.select))
        self.lines.append(f"FROM {self._item(nodes[0]).from_sql()}")
        for join in joins:
            self._join_as_written(join)
        self.lines.append(f"CROSS JOIN {_subscriptions().from_sql()}")
        return FromClause("\n".join(self.lines), conditions, SUBSCRIBED, [])

    def _subscriptions_first(self, joins: list[exp.Join], conditions: list[exp.Expr]) -> FromClause:
        """LATERAL subqueries see the relations to their left, and may use parameters."""
        first, *_ = from_items(self.select)
        self.lines.append(f"FROM {_subscriptions().from_sql()}")
        self.joined_aliases.add(SUBSCRIBED)
        self._join_as_written(exp.Join(this=first))
        for join in joins:
            self._join_as_written(join)
        return FromClause("\n".join(self.lines), conditions, SUBSCRIBED, [])

    def _join_as_written(self, join: exp.Join, anchor: str = SUBSCRIBED) -> None:
        item = self._item(join.this)
        on = conjuncts(join.args.get("on"))
        if item.alias in self.keyed:
            on.insert(0, exp.EQ(this=column_of(SUBSCRIPTION, item.alias), expression=column_of(SUBSCRIPTION, anchor)))
        if _side(join) not in {"RIGHT", "FULL"} and not isinstance(join.this, exp.Lateral):
            preference = dict.fromkeys(self.joined_aliases, 1) | {item.alias: 0}
            for cells in near_cells(on, preference, subscriptions=SUBSCRIBED, kept=frozenset(self.joined_aliases)):
                item.explosion = cells.explosion
                on.insert(0, cells.condition)
        kind = str(join.args.get("kind") or "").upper()
        words = [_side(join), "" if kind in {"CROSS", "INNER"} else kind, "JOIN"]
        spelled = "\n  ON " + _anded(on) if on else ""
        verb = " ".join(word for word in words if word) if on else "CROSS JOIN"
        self.lines.append(f"{verb} {item.from_sql()}{spelled}")
        self.joined_aliases.add(item.alias)

    # Where the compiler chooses the order

    def _ordered(self, joins: list[exp.Join], conditions: list[exp.Expr]) -> FromClause:
        free = next((index for index, join in enumerate(joins) if _is_outer(join)), len(joins))
        items = (
            [self._item(node) for node in from_items(self.select)[: free + 1]]
            if self.select.args.get("from_") is not None
            else []
        )
        for join in joins[:free]:
            conditions += conjuncts(join.args.get("on"))
        anchor = self._anchor(items)
        if anchor == SUBSCRIBED:
            items.append(_subscriptions())
        for item in items:
            if item.alias in self.keyed and item.alias != anchor:
                own, whose = column_of(SUBSCRIPTION, item.alias), column_of(SUBSCRIPTION, anchor)
                conditions.append(exp.EQ(this=own, expression=whose))
        outer = {join.this.alias for join in joins[free:]}
        late = [condition for condition in conditions if _aliases(condition) & outer]
        conditions = [condition for condition in conditions if not _aliases(condition) & outer]
        self._explode(items, conditions)
        where = self._join_in_order(items, conditions, joins[free:], late)
        for join in joins[free:]:
            self._join_as_written(join, anchor)
        return FromClause("\n".join(self.lines), where + late, anchor, self.small)

    def _anchor(self, items: list[_Item]) -> str:
        """The subscriptions themselves, unless a subquery brings them along and no parameter is used outside it."""
        carriers = [item.alias for item in items if item.alias in self.keyed]
        uses = any(column.table == SUBSCRIBED for column in self.select.find_all(exp.Column))
        return carriers[0] if carriers and not uses else SUBSCRIBED

    def _explode(self, items: list[_Item], conditions: list[exp.Expr]) -> None:
        equated = {
            frozenset(left | right)
            for left, right in map(_equated, conditions)
            if len(left) == len(right) == 1 and left != right
        }
        found = near_cells(
            conditions,
            {item.alias: item.weight for item in items},
            subscriptions=SUBSCRIBED,
            equated=frozenset(equated),
            exact=_exact_pairs(items, conditions) if self.few_subscriptions else frozenset(),
        )
        by_alias = {item.alias: item for item in items}
        for cells in found:
            by_alias[cells.exploded].explosion = cells.explosion
            conditions.append(cells.condition)

    def _join_in_order(
        self, items: list[_Item], conditions: list[exp.Expr], later: list[exp.Join], late: list[exp.Expr]
    ) -> list[exp.Expr]:
        """Write the joins; conditions on single relations are left for WHERE."""
        waiting = list(items)
        item = next((new for new in waiting if new.holds_new), waiting[0])
        small = [new.alias for new in items if new.holds_new and new.alias not in self.keyed and len(items) > 1]
        if self.few_subscriptions and (own := next((new for new in waiting if new.is_subscriptions), None)) is not None:
            item, small = own, [own.alias] if len(items) > 1 else []
        self.small = list(small)
        self.lines.append(f"FROM {item.from_sql()}")
        self.joined_aliases.add(item.alias)
        waiting.remove(item)
        while waiting:
            item = min(waiting, key=lambda candidate: self._growth(candidate, conditions, items))
            if item.is_subscriptions and len(self.joined_aliases) > 1 and small:
                conditions = self._gather_candidates(conditions, later, late)
            on = [condition for condition in conditions if self._joins(condition, item)]
            conditions = [condition for condition in conditions if condition not in on]
            verb = "JOIN" if on else "CROSS JOIN"
            self.lines.append(f"{verb} {item.from_sql()}" + (f"\n  ON {_anded(on)}" if on else ""))
            self.joined_aliases.add(item.alias)
            waiting.remove(item)
        return conditions

    def _joins(self, condition: exp.Expr, item: _Item) -> bool:
        aliases = _aliases(condition)
        complete = item.alias in aliases and aliases <= self.joined_aliases | {item.alias, _CANDIDATES}
        return complete and len(aliases) > 1 and condition.find(exp.Query) is None

    def _growth(self, item: _Item, conditions: list[exp.Expr], items: list[_Item]) -> int:
        """How much joining this relation next probably multiplies the rows: lower is better."""
        keys = {other.alias: _key(other) for other in items}
        by_key: set[str] = set()
        growth = 9 if not item.is_subscriptions else 10
        for condition in conditions:
            for own, others in _sides(condition):
                if (
                    _aliases(own) != {item.alias}
                    or not (theirs := _aliases(others))
                    or not theirs <= self.joined_aliases
                ):
                    continue
                if item.is_subscriptions or item.alias in self.keyed:
                    to_key = isinstance(others, exp.Column) and keys.get(others.table) == {others.name.lower()}
                    growth = min(growth, 2 if to_key or item.alias in self.keyed else 6)
                elif CELL_COLUMN in {column.name for column in condition.find_all(exp.Column)}:
                    reference = item.dataset is not None and item.dataset.kind is DatasetKind.REFERENCE
                    growth = min(growth, 4 if reference else 3)
                else:
                    by_key |= {own.name.lower()} if isinstance(own, exp.Column) else set()
                    growth = min(growth, 1 if keys[item.alias] and keys[item.alias] <= by_key else 5)
        return growth

    def _gather_candidates(
        self, conditions: list[exp.Expr], later: list[exp.Join], late: list[exp.Expr]
    ) -> list[exp.Expr]:
        """Put everything joined so far into a subquery, which can then be broadcast as a whole."""
        inside = [condition for condition in conditions if _aliases(condition) <= self.joined_aliases]
        outside = [condition for condition in conditions if condition not in inside]
        written = f" WHERE {_anded(inside)}" if inside else ""
        hints = "".join(mark(Broadcast(alias)) for alias in self.small)
        outputs = (*self.select.expressions, *(self.select.args.get(part) for part in ("group", "having", "order")))
        holders = [*outside, *later, *late, *(part for part in outputs if part is not None)]
        needed: dict[str, str] = {}
        for holder in holders:
            for column in list(holder.find_all(exp.Column)):
                if column.table in self.joined_aliases:
                    name = f"{column.table}.{column.name}"
                    needed[name] = f"{sql_of(column)} AS {quote_name(name)}"
                    column.set("this", exp.to_identifier(name, quoted=True))
                    column.set("table", exp.to_identifier(_CANDIDATES, quoted=True))
        columns = ", ".join(needed.values()) or "1 AS _one"
        joined = "\n".join(self.lines)
        self.lines = [f"FROM (\nSELECT {hints}{columns}\n{joined}{written}\n) AS {_CANDIDATES}"]
        self.joined_aliases.add(_CANDIDATES)
        self.small = [_CANDIDATES]
        return outside

    def _item(self, node: exp.Expr) -> _Item:
        alias = node.alias
        if alias in self.keyed:
            return _Item(alias, self.keyed[alias])
        if isinstance(node, exp.Lateral):
            return _Item(alias, f"LATERAL {sql_of(spell_out(node.this))}")
        holds_new = any(
            (relation := table.meta.get("relation")) is not None and relation.role is RelationRole.NEW
            for table in node.find_all(exp.Table)
        )
        relation = node.meta.get("relation") if isinstance(node, exp.Table) else None
        dataset = self.datasets.get(relation.dataset.lower()) if relation is not None else None
        bare = node.copy()
        bare.set("alias", None)
        return _Item(alias, sql_of(spell_out(bare)), relation, dataset, holds_new)


def _subscriptions() -> _Item:
    return _Item(SUBSCRIBED, mark(SUBSCRIPTIONS), SUBSCRIPTIONS)


def _side(join: exp.Join) -> str:
    return str(join.args.get("side") or "").upper()


def _is_outer(join: exp.Join) -> bool:
    return bool(_side(join)) or str(join.args.get("kind") or "").upper() in {"SEMI", "ANTI"}


def _aliases(node: exp.Expr) -> set[str]:
    return {column.table for column in node.find_all(exp.Column) if column.table}


def _sides(condition: exp.Expr) -> list[tuple[exp.Expr, exp.Expr]]:
    """Both readings of an equality; nothing for other conditions."""
    equality = condition.unnest()
    if not isinstance(equality, exp.EQ):
        return []
    return [(equality.this, equality.expression), (equality.expression, equality.this)]


def _equated(condition: exp.Expr) -> tuple[set[str], set[str]]:
    sides = _sides(condition)
    return (_aliases(sides[0][0]), _aliases(sides[0][1])) if sides else (set(), set())


def _exact_pairs(items: list[_Item], conditions: list[exp.Expr]) -> frozenset[frozenset[str]]:
    """The relations of new rows, paired with the subscriptions and with each relation whose key they determine."""
    by_key: dict[str, set[str]] = {}
    for condition in conditions:
        for own, others in _sides(condition):
            if isinstance(own, exp.Column) and _aliases(others) == {SUBSCRIBED}:
                by_key.setdefault(own.table, set()).add(own.name.lower())
    belonging = {item.alias for item in items if (key := _key(item)) and key <= by_key.get(item.alias, set())}
    return frozenset(
        frozenset((item.alias, other)) for item in items if item.holds_new for other in belonging | {SUBSCRIBED}
    )


def _key(item: _Item) -> set[str]:
    return {name.lower() for name in item.dataset.schema.primary_key} if item.dataset is not None else set()


def _anded(conditions: list[exp.Expr]) -> str:
    return " AND ".join(condition_sql(condition) for condition in conditions)


def condition_sql(condition: exp.Expr) -> str:
    spelled = spell_out_condition(condition)
    return sql_of(exp.Paren(this=spelled) if isinstance(spelled, exp.Or) else spelled)
