"""What a query may be: one SELECT, built from allowed pieces only, over relations of the catalogue.

Checking runs nothing. Every node of the tree must be of a class listed in `NODES` and have only the arguments listed
beside it. Every function must be in the allow-list. Names are then resolved against the catalogue. So a construct that
nobody thought of is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from tocsin.cluster.channels.compiler import advice, functions
from tocsin.cluster.channels.compiler.allowed_nodes import CAST_TYPES, INTERVAL_UNITS, JOINS, NODES, SIDES
from tocsin.cluster.channels.compiler.dialect import (
    ONCE_PER,
    Source,
    function_name,
    is_name,
    keys_query,
    offset_of,
    parse_query,
    read_number,
    tokenize,
)
from tocsin.cluster.channels.compiler.patterns import UnsupportedPattern, check_pattern
from tocsin.cluster.channels.compiler.resolve import Keys, resolve
from tocsin.cluster.channels.compiler.scopes import Output
from tocsin.cluster.channels.compiler.size import MAX_SIZE
from tocsin.model.catalogue import Dataset, Parameter
from tocsin.model.schema import SEQUENCE_COLUMN

MAX_QUERY_LENGTH = 100_000
#: A query within its bounds has some four tokens for each of its nodes; parsing this many takes half a second.
MAX_TOKENS = 5 * MAX_SIZE
#: How many binary operators (AND, +, ...) a chain may have, and how deeply everything else may be nested. Generating
#: SQL takes some four Python frames for each level of nesting, and Spark's parser recurses as deeply.
MAX_CHAIN = 300
MAX_NESTING = 64
#: For LIMIT and OFFSET: Spark counts rows in 32 bits, and adds the two.
MAX_COUNT = 1_000_000_000
#: More than a DECIMAL's 38 digits, and any DOUBLE in full.
MAX_NUMBER_LENGTH = 64


@dataclass(frozen=True, slots=True)
class CheckedQuery:
    """A query that may run: names resolved, columns qualified, WITH and `*` expanded, aliases unique."""

    source: Source
    tree: exp.Expr
    columns: tuple[Output, ...]
    #: The columns of the tree that are the key of ONCE PER: outputs, or further items of the SELECT list.
    keys: tuple[Output, ...] = ()


def check_query(
    sql: str, *, parameters: Sequence[Parameter], datasets: Mapping[str, Dataset], channel: bool, keys: str = ""
) -> CheckedQuery:
    """Refuse `sql`, with the position, unless it is a query that may run. `datasets` go by lower-case name. `keys` are
    the expressions of ONCE PER."""
    source = Source(sql)
    key_source = Source(keys_query(keys), about=ONCE_PER)
    known = {parameter.name.lower(): parameter for parameter in parameters}
    try:
        tree, tokens = _parsed(source)
        _Checker(source, tokens, known, channel).check(tree)
        expressions: list[exp.Expr] = []
        if keys:
            key_tree, key_tokens = _parsed(key_source)
            _Checker(key_source, key_tokens, known, channel).check(key_tree)
            expressions = _key_expressions(key_tree, key_source)
        resolved = resolve(tree, source, datasets, Keys(key_source, expressions))
        _refuse_deep(resolved.tree, source)  # again, because WITH has been expanded
    except RecursionError:
        raise source.error("nested too deeply", 0) from None
    return CheckedQuery(source, resolved.tree, resolved.outputs, resolved.keys)


def _parsed(source: Source) -> tuple[exp.Expr, list[Token]]:
    """The query that a text is, if it has a size that can be dealt with; and its tokens."""
    sql = source.text
    if len(sql) > MAX_QUERY_LENGTH:
        raise source.error(f"the query is too long: {len(sql):,} characters; at most {MAX_QUERY_LENGTH:,} are allowed")
    tokens = tokenize(source)
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens.pop()
    if len(tokens) > MAX_TOKENS:
        raise source.error(
            f"the query is too large: it has {len(tokens):,} words and signs; {MAX_TOKENS:,} are allowed"
        )
    tree = parse_query(source, tokens)
    _refuse_deep(tree, source)
    return tree, tokens


def _key_expressions(tree: exp.Expr, source: Source) -> list[exp.Expr]:
    """The expressions of ONCE PER."""
    if not isinstance(tree, exp.Select) or any(value for part, value in tree.args.items() if part != "expressions"):
        raise source.error("ONCE PER takes expressions, such as ONCE PER (r.id, r.etype)", len(keys_query("")))
    for expression in tree.expressions:
        if isinstance(expression, exp.Alias) or expression.is_star:
            raise source.error("ONCE PER takes expressions, without AS and *", offset_of(expression))
        for node in expression.walk():
            if isinstance(node, exp.Query):
                raise source.error("ONCE PER takes no subquery; join it in the query", offset_of(expression))
            if function_name(node) == functions.IS_NEW:
                raise source.error("is_new belongs into the query, not into ONCE PER", offset_of(expression))
    return list(tree.expressions)


def _refuse_deep(tree: exp.Expr, source: Source) -> None:
    todo = [(tree, 0, 0)]
    while todo:
        node, chain, nesting = todo.pop()
        if isinstance(node, exp.Binary):
            chain += 1
        else:
            nesting += 1
        if chain > MAX_CHAIN or nesting > MAX_NESTING:
            raise source.error("nested too deeply", max(0, offset_of(node)))
        todo.extend((child, chain, nesting) for child in node.iter_expressions())


@dataclass(frozen=True, slots=True)
class _Checker:
    source: Source
    tokens: Sequence[Token]
    parameters: Mapping[str, Parameter]
    channel: bool

    def check(self, tree: exp.Expr) -> None:
        for node in tree.walk():
            self.check_node(node)

    def check_node(self, node: exp.Expr) -> None:
        parts = NODES.get(type(node))
        kind = type(node).__name__
        if parts is None:
            message = advice.on_node(kind) or f"{_spoken(node)} is not allowed in a query"
            raise self.source.forbidden(message, self._offset(node))
        for part, value in node.args.items():
            if value not in (None, False, [], "") and part not in parts:
                message = f"{_spoken(node)} ... {part.strip('_').upper()} is not allowed in a query"
                raise self._forbidden(node, advice.on_node(kind, part) or message)
        if (check := _CHECKS.get(type(node))) is not None:
            check(self, node)

    def check_table(self, node: exp.Table) -> None:
        if not isinstance(node.this, exp.Identifier):
            raise self._forbidden(node, "only datasets can be read: table functions are not allowed")

    def check_lateral(self, node: exp.Lateral) -> None:
        if node.args.get("view") or not isinstance(node.this, exp.Subquery):
            raise self._forbidden(node, "LATERAL takes a subquery only")

    def check_subquery(self, node: exp.Subquery) -> None:
        if not isinstance(node.this, exp.Query):
            raise self._forbidden(node, "parentheses around relations are not allowed")

    def check_select(self, node: exp.Select) -> None:
        if not node.expressions:
            raise self._error(node, "the SELECT list is empty")

    def check_tuple(self, node: exp.Tuple) -> None:
        if not isinstance(node.parent, exp.In):
            raise self._forbidden(node, "a list in parentheses is not allowed here")

    def check_table_alias(self, node: exp.TableAlias) -> None:
        if node.args.get("columns") and not isinstance(node.parent, exp.CTE | exp.Subquery | exp.Lateral):
            raise self._forbidden(node, "a dataset's columns can't be renamed here")

    def check_distinct(self, node: exp.Distinct) -> None:
        if not isinstance(node.parent, exp.Select | exp.Anonymous):
            raise self._forbidden(node, "DISTINCT is not allowed here")

    def check_window_spec(self, node: exp.WindowSpec) -> None:
        for bound in (node.args.get("start"), node.args.get("end")):
            if isinstance(bound, exp.Expr) and not isinstance(bound, exp.Literal):
                raise self._forbidden(node, "the bounds of a window must be whole numbers")

    def check_function(self, node: exp.Anonymous) -> None:
        name = function_name(node)
        if name not in functions.ALLOWED:
            raise self._forbidden(node, advice.on_function(name or str(node.this), functions.ALLOWED))
        self.check_arguments(node, name)
        over = isinstance(node.parent, exp.Window) and node.arg_key == "this"
        filtered = isinstance(node.parent, exp.Filter) and node.arg_key == "this"
        if name in functions.WINDOW_ONLY and not over:
            raise self._error(node, f"{name} needs OVER (...)")
        if (over or filtered) and name not in functions.AGGREGATES | functions.WINDOW_ONLY:
            raise self._error(node, f"{name} is not an aggregate, so it can't take OVER or FILTER")

    def check_arguments(self, node: exp.Anonymous, name: str) -> None:
        arguments = node.expressions
        if (wanted := functions.OWN_ARGUMENTS.get(name)) is not None and len(arguments) != wanted:
            raise self._error(node, f"{name} takes {wanted} argument{'s' if wanted > 1 else ''}, not {len(arguments)}")
        if name == functions.IS_NEW and not self.channel:
            raise self._error(node, "is_new is allowed in channels only")
        self.check_bounds(node, name)
        if any(isinstance(argument, exp.Alias) for argument in arguments) and name != "struct":
            raise self._error(node, "AS is not allowed inside a function's arguments")
        if any(isinstance(argument, exp.Select | exp.SetOperation) for argument in arguments):
            raise self._error(node, "a subquery as an argument needs its own parentheses")

    def check_bounds(self, node: exp.Anonymous, name: str) -> None:
        arguments = node.expressions
        index, low, high = functions.BOUNDED_NUMBERS.get(name, (len(arguments), 0, 0))
        if len(arguments) > index or name in functions.NEED_NUMBER:
            value = _literal_number(arguments[index]) if len(arguments) > index else None
            if value is None or not low <= value <= high:
                what = f"argument {index + 1} of {name} must be a number between {low:,} and {high:,}"
                raise self._error(node, f"{what}, written as such")
        for index in functions.REPEATED_TEXTS.get(name, ()):
            text = arguments[index] if len(arguments) > index else None
            if text is None:
                continue
            literal = isinstance(text, exp.Literal) and text.is_string
            if not literal or len(text.name) > functions.MAX_REPEATED_TEXT:
                what = f"argument {index + 1} of {name} must be a string literal"
                raise self._error(node, f"{what} of at most {functions.MAX_REPEATED_TEXT} characters")

    def check_identifier(self, node: exp.Identifier) -> None:
        name = node.this
        if is_name(name):
            return
        column = isinstance(node.parent, exp.Column) and node.arg_key == "this"
        if column and name.lower() == SEQUENCE_COLUMN:
            return
        rule = "names are letters, digits and underscores and begin with a letter; at most 64 characters"
        raise self._forbidden(node, f"the name {name!r} is not allowed: {rule}")

    def check_parameter(self, node: exp.Placeholder) -> None:
        name = node.this
        if not isinstance(name, str) or not name:
            raise self.source.forbidden("? markers are not allowed; parameters are written :name", self._marker("?"))
        if name.lower() not in self.parameters:
            known = ", ".join(f":{parameter.name}" for parameter in self.parameters.values())
            hint = f"declared are {known}" if known else "none are declared"
            hint += advice.did_you_mean(name, (parameter.name for parameter in self.parameters.values()))
            raise self.source.error(f"unknown parameter :{name}; {hint}", self._marker(":", name))
        node.set("this", self.parameters[name.lower()].name)
        node.meta["type"] = self.parameters[name.lower()].type

    def _marker(self, sign: str, name: str = "") -> int:
        for token, following in zip(self.tokens, (*self.tokens[1:], None), strict=True):
            if token.text == sign and (not name or (following is not None and following.text == name)):
                return int(token.start)
        return -1

    def check_star(self, node: exp.Star) -> None:
        parent = node.parent
        counted = function_name(parent) == "count" and len(parent.expressions) == 1 if parent else False
        if not (counted or isinstance(parent, exp.Select | exp.Column)):
            raise self._error(node, "* is allowed only in a SELECT list and in count(*)")
        if isinstance(parent, exp.Column) and not isinstance(parent.parent, exp.Select):
            raise self._error(parent, "* is allowed only in a SELECT list and in count(*)")

    def check_literal(self, node: exp.Literal) -> None:
        if node.is_string:
            return
        if len(node.this) > MAX_NUMBER_LENGTH:
            raise self._error(node, f"a number may have at most {MAX_NUMBER_LENGTH} characters")
        if not _is_number(node.this):
            raise self._forbidden(node, f"{node.this!r} is not a number that is allowed here")

    def check_type(self, node: exp.DataType) -> None:
        if node.this not in CAST_TYPES or (node.expressions and node.this != exp.DType.DECIMAL):
            allowed = ", ".join(dict.fromkeys(CAST_TYPES.values()))
            raise self._error(
                node.parent or node, f"the type {node.sql('spark')} is not allowed; allowed are {allowed}"
            )

    def check_interval(self, node: exp.Interval) -> None:
        unit = node.args.get("unit")
        if not (isinstance(node.this, exp.Literal) and _is_number(node.this.this)):
            raise self._error(node, "an interval is written INTERVAL 3 DAYS")
        if not isinstance(unit, exp.Var) or str(unit.this).upper().removesuffix("S") not in INTERVAL_UNITS:
            raise self._error(node, "an interval's unit must be YEAR, MONTH, WEEK, DAY, HOUR, MINUTE or SECOND")

    def check_like(self, node: exp.Binary) -> None:
        pattern = node.expression
        if not (isinstance(pattern, exp.Literal) and pattern.is_string):
            raise self._error(
                node,
                "LIKE takes a literal pattern, such as 'fire%'; to compare with "
                "a parameter or a column use contains(text, :part), startswith or endswith",
            )
        try:
            check_pattern(pattern.this)
        except UnsupportedPattern as reason:
            raise self._error(node, str(reason)) from None

    def check_join(self, node: exp.Join) -> None:
        kind, side = (str(node.args.get(part) or "").upper() for part in ("kind", "side"))
        if kind not in JOINS or side not in SIDES or (kind in {"SEMI", "ANTI"} and side not in {"", "LEFT"}):
            raise self._error(node, f"{side} {kind} JOIN is not allowed")
        if node.args.get("on") is None and (side or kind in {"SEMI", "ANTI", "OUTER"}):
            raise self._error(node, "this JOIN needs ON")

    def check_count(self, node: exp.Expr) -> None:
        count = _literal_number(node.expression)
        if not isinstance(count, int) or not 0 <= count <= MAX_COUNT:
            raise self._error(node, f"{_spoken(node)} needs a whole number up to {MAX_COUNT:,}")

    def _offset(self, node: exp.Expr) -> int:
        """Where a node is. `$name` and `@name` are found by their signs, because sqlglot forgets their offsets."""
        if not isinstance(node, exp.Parameter):
            return offset_of(node)
        return next((offset for sign in "$@" if (offset := self._marker(sign, node.name)) >= 0), -1)

    def _error(self, node: exp.Expr, message: str) -> Exception:
        return self.source.error(message, offset_of(node))

    def _forbidden(self, node: exp.Expr, message: str) -> Exception:
        return self.source.forbidden(message, offset_of(node))


#: Checks of a node beyond its class and arguments.
_CHECKS: dict[type[exp.Expr], Callable[[_Checker, Any], None]] = {
    exp.Anonymous: _Checker.check_function,
    exp.Identifier: _Checker.check_identifier,
    exp.Placeholder: _Checker.check_parameter,
    exp.Star: _Checker.check_star,
    exp.Literal: _Checker.check_literal,
    exp.DataType: _Checker.check_type,
    exp.Interval: _Checker.check_interval,
    exp.Like: _Checker.check_like,
    exp.ILike: _Checker.check_like,
    exp.Select: _Checker.check_select,
    exp.Join: _Checker.check_join,
    exp.Table: _Checker.check_table,
    exp.Lateral: _Checker.check_lateral,
    exp.Subquery: _Checker.check_subquery,
    exp.Limit: _Checker.check_count,
    exp.Offset: _Checker.check_count,
    exp.Tuple: _Checker.check_tuple,
    exp.TableAlias: _Checker.check_table_alias,
    exp.Distinct: _Checker.check_distinct,
    exp.WindowSpec: _Checker.check_window_spec,
}


def _literal_number(node: exp.Expr) -> int | float | None:
    """The value of a literal number, with or without a minus; None for anything else."""
    sign, literal = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    if not isinstance(literal, exp.Literal) or literal.is_string or len(literal.this) > MAX_NUMBER_LENGTH:
        return None
    try:
        return sign * read_number(literal.this)
    except ValueError:
        return None


def _is_number(text: object) -> bool:
    """A plain decimal number; ASCII only, because Python's float() reads far more than Spark."""
    digits = str(text)
    try:
        float(digits)
    except ValueError:
        return False
    return digits.isascii() and all(char in "0123456789.eE+-" for char in digits)


def _spoken(node: exp.Expr) -> str:
    """A node class as its author knows it: `QueryTransform` is QUERY TRANSFORM."""
    name = type(node).__name__
    return "".join(f" {char}" if char.isupper() and index else char for index, char in enumerate(name)).upper()
