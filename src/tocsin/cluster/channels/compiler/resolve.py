"""Names: resolves every column of a checked query to its relation, and every relation to its dataset.

The tree comes back in one canonical form, so that the compiler needs no notion of scope: WITH is expanded, `*` is
spelled out, every output is aliased, every column carries its relation's alias, and no alias occurs twice in the
whole query. Only ORDER BY still refers to outputs, by bare name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tocsin.cluster.channels.compiler import advice, functions
from tocsin.cluster.channels.compiler.dialect import Source, function_name, offset_of
from tocsin.cluster.channels.compiler.patterns import bounded_levenshtein, copies_of_text, spell_out_pattern
from tocsin.cluster.channels.compiler.scopes import CommonTable, NamedRelation, Output, Scope
from tocsin.cluster.channels.compiler.size import Budget, size_of
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import NUMBERS, ColumnType

#: The names of items of the SELECT list that are there for ONCE PER alone; no author can use them.
_KEY = "_key"


@dataclass(frozen=True, slots=True)
class Keys:
    """The expressions of ONCE PER, and the text that they are in."""

    source: Source
    expressions: Sequence[exp.Expr] = ()


@dataclass(frozen=True, slots=True)
class Resolved:
    """A query in canonical form, its outputs, and which of its columns are the key of ONCE PER."""

    tree: exp.Expr
    outputs: tuple[Output, ...]
    keys: tuple[Output, ...]


def resolve(tree: exp.Expr, source: Source, datasets: Mapping[str, Dataset], keys: Keys) -> Resolved:
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    budget = Budget(source)
    budget.charge(size_of(tree) + sum(map(size_of, keys.expressions)))
    # Only the SELECT that makes the results knows what the keys name. Rows that are put together later have outputs.
    is_plain = isinstance(tree, exp.Select) and not tree.args.get("distinct")
    resolver = _Resolver(source, datasets, budget, keyed=tree if is_plain else None, keys=keys)
    query, outputs = resolver.query(tree, Scope({}), named=True)
    found = resolver.found_keys if is_plain else resolver.keys_among(outputs)
    return Resolved(query, tuple(outputs), tuple(found))


@dataclass(slots=True)
class _Resolver:
    source: Source
    datasets: Mapping[str, Dataset]
    budget: Budget
    #: The SELECT in which the keys are resolved, if there is one.
    keyed: exp.Expr | None
    keys: Keys
    found_keys: list[Output] = field(default_factory=list)
    aliases: set[str] = field(default_factory=set)

    def query(self, node: exp.Expr, scope: Scope, *, named: bool) -> tuple[exp.Expr, list[Output]]:
        """Resolve a query inside `scope`; `named` if its outputs must have distinct names."""
        common = scope.common
        if (with_ := node.args.get("with_")) is not None:
            common = self._common_tables(with_, common)
            node.set("with_", None)
        inner = Scope(common, scope.outer)
        if isinstance(node, exp.Subquery):
            query, outputs = self.query(node.this, inner, named=named)
            node.set("this", query)
        elif isinstance(node, exp.SetOperation):
            outputs = self._set_operation(node, inner, named=named)
        else:
            outputs = self._select(node, inner, named=named)
        return node, outputs

    def _common_tables(self, with_: exp.Expr, visible: Mapping[str, CommonTable]) -> Mapping[str, CommonTable]:
        for table in with_.expressions:
            name = table.alias.lower()
            if name in self.datasets:
                raise self._error(table.args["alias"], f"{table.alias} is a dataset; choose another name")
            visible = {
                **visible,
                name: CommonTable(table.this, table.args["alias"].args.get("columns") or [], visible),
            }
        return visible

    def _set_operation(self, node: exp.Expr, scope: Scope, *, named: bool) -> list[Output]:
        left, outputs = self.query(node.this, scope, named=named)
        right, others = self.query(node.expression, scope, named=False)
        node.set("this", left)
        node.set("expression", right)
        if len(outputs) != len(others):
            message = f"both sides need the same number of columns; they have {len(outputs)} and {len(others)}"
            raise self._error(node, message)
        outputs = [
            Output(one.name, one.type if one.type == two.type else None, max(one.size, two.size))
            for one, two in zip(outputs, others, strict=True)
        ]
        for ordered in _ordered(node):
            ordered.set("this", self._output_reference(ordered.this, outputs))
        return outputs

    def _output_reference(self, node: exp.Expr, outputs: list[Output]) -> exp.Expr:
        if isinstance(node, exp.Literal) and node.is_int and 1 <= int(node.this) <= len(outputs):
            return _output_column(outputs[int(node.this) - 1].name)
        if isinstance(node, exp.Column) and not node.table:
            for output in outputs:
                if output.name.lower() == node.name.lower():
                    return _output_column(output.name)
        known = ", ".join(output.name for output in outputs)
        raise self._error(node, f"ORDER BY can only name an output here; there are {known}")

    # One SELECT

    def _select(self, select: exp.Expr, scope: Scope, *, named: bool) -> list[Output]:
        if (from_ := select.args.get("from_")) is not None:
            from_.set("this", self._relation(from_.this, scope))
        for join in select.args.get("joins") or []:
            join.set("this", self._relation(join.this, scope))
            if (on := join.args.get("on")) is not None:
                join.set("on", self._expression(on, scope, {}))
            if join.args.get("kind", "").upper() in {"SEMI", "ANTI"}:
                scope.relations.pop()
        if (where := select.args.get("where")) is not None:
            where.set("this", self._expression(where.this, scope, {}))
        items, outputs = self._select_list(select, scope, named=named)
        named_items = {item.alias.lower(): item.this for item in items}
        if (group := select.args.get("group")) is not None:
            group.set("expressions", [self._grouping(key, items, scope, named_items) for key in group.expressions])
        if (having := select.args.get("having")) is not None:
            having.set("this", self._expression(having.this, scope, named_items, strict=True))
        for ordered in _ordered(select):
            ordered.set("this", self._ordering(ordered.this, outputs, scope, named_items))
        if select is self.keyed:
            select.set("expressions", [*items, *self._key_items(items, scope)])
        self.budget.check(size_of(select))
        return outputs

    def _key_items(self, items: list[exp.Alias], scope: Scope) -> list[exp.Alias]:
        """Items for the keys that are no outputs."""
        named = {item.alias.lower(): item.this for item in items}
        by_expression = {item.this: item.alias for item in items}
        in_keys = replace(self, source=self.keys.source)
        added: list[exp.Alias] = []
        for written in self.keys.expressions:
            expression = in_keys._expression(written, scope, named, strict=True)  # noqa: SLF001 - of the same class
            name = by_expression.get(expression.unnest())
            if name is None:
                name = f"{_KEY}{len(added)}"
                added.append(exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True)))
            self.found_keys.append(Output(name, expression.meta.get("type")))
        return added

    def keys_among(self, outputs: list[Output]) -> list[Output]:
        """The keys of a query whose rows have nothing but outputs."""
        known = {output.name.lower(): output for output in outputs}
        found = []
        for written in self.keys.expressions:
            is_name = isinstance(written, exp.Column) and not written.table
            if not is_name or written.name.lower() not in known:
                names = ", ".join(output.name for output in outputs)
                message = "with DISTINCT, UNION, INTERSECT or EXCEPT, ONCE PER takes outputs only"
                raise self.keys.source.error(f"{message}: {names}", offset_of(written))
            found.append(known[written.name.lower()])
        return found

    def _grouping(self, key: exp.Expr, items: list[exp.Alias], scope: Scope, named: Mapping[str, exp.Expr]) -> exp.Expr:
        if isinstance(key, exp.Literal) and key.is_int:
            if not 1 <= int(key.this) <= len(items):
                raise self._error(key, f"GROUP BY {key.this}: the SELECT list has {len(items)} items")
            key = self._copied(items[int(key.this) - 1].this)
        else:
            key = self._expression(key, scope, named)
        if isinstance(key.unnest(), exp.Literal):
            # Spark would take a number for a position in the SELECT list.
            raise self._error(key, "GROUP BY a constant is not allowed")
        return key

    def _ordering(self, key: exp.Expr, outputs: list[Output], scope: Scope, named: Mapping[str, exp.Expr]) -> exp.Expr:
        bare_output = isinstance(key, exp.Column) and not key.table and key.name.lower() in named
        if bare_output or (isinstance(key, exp.Literal) and key.is_int):
            reference = self._output_reference(key, outputs)
            # A rank within each subscription repeats the expression.
            self.budget.charge(size_of(named[reference.name.lower()]))
            return reference
        return self._expression(key, scope, named, strict=True)

    def _select_list(self, select: exp.Expr, scope: Scope, *, named: bool) -> tuple[list[exp.Alias], list[Output]]:
        items: list[exp.Alias] = []
        outputs: list[Output] = []
        seen: dict[str, exp.Expr] = {}
        for written in select.expressions:
            offset = offset_of(written)
            for expression, name in self._outputs_of(written, scope, seen, len(items) + 1):
                if name.lower() in seen and named:
                    message = f"two outputs are called {name}; name one with AS, such as {name} AS other_{name}"
                    raise self.source.error(message, offset)
                seen.setdefault(name.lower(), expression)
                items.append(exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True)))
                outputs.append(Output(name, expression.meta.get("type"), size_of(expression)))
        select.set("expressions", items)
        return items, outputs

    def _outputs_of(
        self, written: exp.Expr, scope: Scope, seen: Mapping[str, exp.Expr], number: int
    ) -> list[tuple[exp.Expr, str]]:
        if isinstance(written, exp.Star):
            if not scope.relations:
                raise self._error(written, "* needs a FROM")
            return [pair for relation in scope.relations for pair in self._all_columns(relation)]
        if isinstance(written, exp.Column) and isinstance(written.this, exp.Star):
            return self._all_columns(self._find_relation(written, written.table, scope))
        if isinstance(written, exp.Alias):
            return [(self._expression(written.this, scope, seen), written.alias)]
        name = written.name if isinstance(written, exp.Column) else function_name(written) or f"column{number}"
        expression = self._expression(written, scope, seen)
        return [(expression, expression.name if isinstance(expression, exp.Column) else name)]

    # Relations

    def _relation(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        """Add the relations of FROM or JOIN to the scope; a name from WITH becomes the subquery it stands for."""
        self.budget.charge_relation(node)
        alias = node.alias or (node.name if isinstance(node, exp.Table) else "")
        if not alias:
            raise self._error(node, "a subquery in FROM needs a name: (SELECT ...) AS name")
        if any(relation.written == alias.lower() for relation in scope.relations):
            raise self._error(node, f"two relations are called {alias}; name one with AS")
        columns = list((node.args.get("alias") or exp.TableAlias()).args.get("columns") or [])
        unique = self._unique(alias)
        if isinstance(node, exp.Table):
            if (table := scope.common.get(node.name.lower())) is not None:
                inner = Scope(table.visible)
                node, columns = exp.Subquery(this=self._copied(table.query)), table.columns
            else:
                return self._dataset(node, alias, unique, scope)
        elif isinstance(node, exp.Lateral):
            inner = Scope(scope.common, scope)
        else:
            inner = Scope(scope.common)
        subquery = node.this if isinstance(node, exp.Lateral) else node
        query, outputs = self.query(subquery.this, inner, named=not columns)
        if columns:
            outputs = self._rename(node, query, columns, outputs)
        subquery.set("this", query)
        node.set("alias", exp.TableAlias(this=exp.to_identifier(unique, quoted=True)))
        named = {output.name.lower(): output for output in outputs}
        scope.relations.append(NamedRelation(alias.lower(), unique, named))
        return node

    def _dataset(self, node: exp.Table, alias: str, unique: str, scope: Scope) -> exp.Table:
        dataset = self.datasets.get(node.name.lower())
        if dataset is None:
            known = ", ".join(sorted(known.name for known in self.datasets.values())) or "none"
            close = advice.did_you_mean(node.name, (dataset.name for dataset in self.datasets.values()))
            raise self._error(node, f"unknown dataset {node.name}; known are {known}{close}")
        columns = {column.name.lower(): Output(column.name, column.type) for column in dataset.schema}
        scope.relations.append(NamedRelation(alias.lower(), unique, columns, dataset))
        return exp.Table(
            this=exp.to_identifier(dataset.name, quoted=True),
            alias=exp.TableAlias(this=exp.to_identifier(unique, quoted=True)),
        )

    def _rename(
        self, node: exp.Expr, query: exp.Expr, columns: list[exp.Identifier], outputs: list[Output]
    ) -> list[Output]:
        if len(columns) != len(outputs):
            raise self._error(node, f"{len(columns)} names are given for {len(outputs)} columns")
        names = [column.name for column in columns]
        if len({name.lower() for name in names}) < len(names):
            raise self._error(node, "a column name is given twice")
        while not isinstance(query, exp.Select):
            query = query.this
        if query.args.get("order") is not None:
            raise self._error(node, "column names in parentheses can't be given to a query with ORDER BY; use AS")
        for item, name in zip(query.expressions, names, strict=True):
            item.set("alias", exp.to_identifier(name, quoted=True))
        return [Output(name, output.type, output.size) for name, output in zip(names, outputs, strict=True)]

    def _unique(self, alias: str) -> str:
        unique, number = alias, 1
        while unique.lower() in self.aliases:
            number += 1
            unique = f"{alias}_{number}"
        self.aliases.add(unique.lower())
        return unique

    def _copied(self, node: exp.Expr) -> exp.Expr:
        self.budget.charge(size_of(node))
        return node.copy()

    def _all_columns(self, relation: NamedRelation) -> list[tuple[exp.Expr, str]]:
        self.budget.charge(len(relation.columns))
        return [(relation.column(output), output.name) for output in relation.columns.values()]

    # Expressions

    def _expression(
        self, node: exp.Expr, scope: Scope, named: Mapping[str, exp.Expr], *, strict: bool = False
    ) -> exp.Expr:
        """`named` are the outputs that a bare name may also mean; `strict` refuses a name that could mean both."""
        if isinstance(node, exp.Column):
            return self._column(node, scope, named, strict=strict)
        if function_name(node) == functions.IS_NEW:
            return self._is_new(node, scope)
        if isinstance(node, exp.Query):
            query, outputs = self.query(node, Scope(scope.common, scope), named=False)
            if isinstance(node, exp.Subquery) and len(outputs) != 1:
                raise self._error(node, f"this subquery must give one column; it gives {len(outputs)}")
            return query
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                node.set(key, self._expression(value, scope, named, strict=strict))
            elif isinstance(value, list):
                children = [
                    self._expression(child, scope, named, strict=strict) if isinstance(child, exp.Expr) else child
                    for child in value
                ]
                node.set(key, children)
        if function_name(node) in {functions.DISTANCE, functions.WITHIN}:
            self._check_numbers(node)
        if isinstance(node, exp.Like | exp.ILike):
            self.budget.charge(size_of(node.this) * copies_of_text(node))
            return spell_out_pattern(node)
        if function_name(node) == "levenshtein":
            self.budget.charge(sum(map(size_of, node.expressions)))
            return bounded_levenshtein(node)
        return node

    def _column(self, node: exp.Column, scope: Scope, named: Mapping[str, exp.Expr], *, strict: bool) -> exp.Expr:
        name = node.name.lower()
        if node.table:
            relation = self._find_relation(node, node.table, scope)
            if (output := relation.find(name)) is None:
                known = ", ".join(column.name for column in relation.columns.values())
                close = advice.did_you_mean(node.name, (column.name for column in relation.columns.values()))
                raise self._error(node, f"{node.table} has no column {node.name}; it has {known}{close}")
            return relation.column(output, offset_of(node))
        found = scope.owners(name)
        if len(found) > 1:
            owners = " and ".join(relation.written for relation in found)
            raise self._error(
                node, f"{node.name} is a column of {owners}; write which, such as {found[0].written}.{name}"
            )
        meaning = named.get(name)
        if found:
            column = found[0].column(found[0].find(name) or Output(name), offset_of(node))
            if strict and meaning is not None and meaning != column:
                message = f"{node.name} is both a column and an output; write {found[0].written}.{node.name}"
                raise self._error(node, f"{message} or rename the output")
            return column
        if meaning is not None:
            copy = self._copied(meaning)
            return copy if isinstance(copy, exp.Column | exp.Literal | exp.Anonymous) else exp.Paren(this=copy)
        for level in scope.outward():
            if found := level.owners(name):
                return found[0].column(found[0].find(name) or Output(name), offset_of(node))
        names = [column.name for relation in scope.relations for column in relation.columns.values()]
        if not scope.relations:
            raise self._error(node, f"there is no column {node.name} here: FROM is missing")
        more = advice.on_unknown_column(node.name, names)
        raise self._error(node, f"unknown column {node.name}; known are {', '.join(names) or 'none'}{more}")

    def _find_relation(self, node: exp.Expr, written: str, scope: Scope) -> NamedRelation:
        for level in scope.outward():
            for relation in level.relations:
                if relation.written == written.lower():
                    return relation
        known = ", ".join(relation.written for relation in scope.relations)
        close = advice.did_you_mean(written, (relation.written for relation in scope.relations))
        raise self._error(node, f"unknown relation {written}; known here are {known or 'none'}{close}")

    def _is_new(self, node: exp.Expr, scope: Scope) -> exp.Expr:
        (argument,) = node.expressions
        written = argument.name if isinstance(argument, exp.Column) and not argument.table else ""
        relation = next((found for found in scope.relations if found.written == written.lower()), None)
        if relation is None or relation.dataset is None:
            datasets = ", ".join(found.written for found in scope.relations if found.dataset is not None)
            known = f"; there are {datasets}" if datasets else ""
            raise self._error(node, f"is_new takes the name or alias of a dataset in the same FROM{known}")
        if relation.dataset.kind is DatasetKind.REFERENCE:
            message = f"is_new: {relation.dataset.name} is a REFERENCE dataset, which has no new rows"
            raise self._error(node, f"{message}; name an ACTIVE or KEYED one")
        node.set("expressions", [exp.to_identifier(relation.alias, quoted=True)])
        return node

    def _check_numbers(self, node: exp.Expr) -> None:
        for argument in node.expressions:
            type_ = argument.meta.get("type")
            text = isinstance(argument, exp.Literal) and argument.is_string
            if text or (isinstance(type_, ColumnType) and type_ not in NUMBERS):
                raise self._error(
                    node, f"{function_name(node)} takes numbers only; one argument is {type_ or 'a string'}"
                )

    def _error(self, node: exp.Expr, message: str) -> Exception:
        return self.source.error(message, offset_of(node))


def _output_column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True))


def _ordered(query: exp.Expr) -> list[exp.Expr]:
    order = query.args.get("order")
    return list(order.expressions) if order is not None else []
