"""The filter language: a subset of Spark SQL's WHERE, typed by a schema; text in, filter out (pure).

Every text that is accepted here means the same in Spark SQL, NULL, NaN and rounding included. A predicate compares one
column with values. NOT is pushed to the predicates while reading. What can't match any record is refused.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from tocsin.errors import StatementError
from tocsin.filters.columns import FilterColumn, FilterColumns, columns_of
from tocsin.filters.contradictions import why_nothing_matches
from tocsin.filters.domains import DOMAINS, Key, end_of_prefix
from tocsin.filters.filter import Filter, filter_of
from tocsin.filters.normal_form import FALSE, TRUE, All, Leaf, Node, Some
from tocsin.filters.patterns import UnsupportedPattern, read_pattern
from tocsin.filters.predicates import Constraint, Pattern, constraint
from tocsin.filters.ranges import NOTHING, Ranges, difference, ranges_of
from tocsin.filters.tokens import Token, Tokens, token_pattern
from tocsin.filters.words import KEYWORDS, MARKS, MAX_CHARACTERS, MAX_DEPTH, MAX_PREDICATES, MAX_VALUES_IN_LIST
from tocsin.model.schema import NUMBERS, ColumnType, Schema
from tocsin.model.times import parse_date, parse_time

_HOW: Final = "write column = value, with AND, OR and NOT between"
_OPERATORS: Final = "= != < <= > >= BETWEEN IN LIKE IS NULL"
_TOKEN: Final = token_pattern(MARKS)
_COMPARISONS: Final = frozenset(("=", "==", "!=", "<>", "<", "<=", ">", ">="))
#: Spark SQL's DECIMAL has no more.
_MAX_DIGITS: Final = 38
#: A BIGINT beside such a fraction still fits into a DECIMAL, so Spark compares them exactly.
_MAX_FRACTION_DIGITS: Final = 18
#: Characters of names in an error.
_MAX_SHOWN: Final = 500
#: Beyond it Spark takes `n < 9223372036854775808` for true even if n is NULL.
_LONGS: Final = DOMAINS[ColumnType.BIGINT]
_VALUES: Final = {
    ColumnType.STRING: "a text in quotes",
    ColumnType.BOOLEAN: "TRUE or FALSE",
    ColumnType.INT: "a number",
    ColumnType.BIGINT: "a number",
    ColumnType.DOUBLE: "a number",
    ColumnType.TIMESTAMP: "a time such as '2026-01-02T03:04:05Z'",
    ColumnType.DATE: "a date such as '2026-01-02'",
}
_TYPED: Final = {"TIMESTAMP": ColumnType.TIMESTAMP, "DATE": ColumnType.DATE}


_NOTHING_REFUSED: Final[Mapping[str, str]] = MappingProxyType({})


def parse(text: str, schema: Schema, refused: Mapping[str, str] = _NOTHING_REFUSED) -> Filter:
    """The filter that a text means for records of a schema. StatementError points at what is wrong. `refused` are
    columns that records have and that can't be compared, by lower-case name, with the reason.

    >>> from tocsin.model.schema import Column
    >>> schema = Schema((Column("symbol", ColumnType.STRING), Column("volume", ColumnType.BIGINT)))
    >>> parse("volume>300000 and not (symbol != 'YHOO')", schema).text
    "symbol = 'YHOO' AND volume > 300000"
    """
    return _Parser(text, columns_of(schema), refused).filter()


@dataclass(frozen=True, slots=True)
class _Value:
    """A literal, as the column's domain takes it, and whether its type was written before it."""

    value: Any
    token: Token
    is_typed: bool = False


class _Parser:
    def __init__(self, text: str, columns: FilterColumns, refused: Mapping[str, str]) -> None:
        self._columns = columns
        self._refused = refused
        self._tokens = Tokens(text, _TOKEN, MAX_CHARACTERS, "a filter", _HOW)
        self._depth = 0
        #: Where each predicate stands, by the identity of its leaf.
        self._written: dict[int, tuple[int, int]] = {}

    def filter(self) -> Filter:
        if not self._tokens.next().kind:
            raise self._error(f"expected a condition; {_HOW}")
        node = self._either(negated=False)
        if self._tokens.next().kind:
            raise self._unexpected()
        made = filter_of(node, self._columns)
        if made is None:
            reason, offset = why_nothing_matches(node, self._columns, self._written, self._tokens.text)
            raise self._error(f"no record can match this filter: {reason}", offset)
        if isinstance(made, str):
            raise StatementError(made)
        return made

    def _either(self, *, negated: bool) -> Node:
        nodes = [self._both(negated=negated)]
        while self._tokens.take_word("OR"):
            nodes.append(self._both(negated=negated))
        return _of(All if negated else Some, nodes)

    def _both(self, *, negated: bool) -> Node:
        nodes = [self._condition(negated=negated)]
        while self._tokens.take_word("AND"):
            nodes.append(self._condition(negated=negated))
        return _of(Some if negated else All, nodes)

    def _condition(self, *, negated: bool) -> Node:
        begin = self._tokens.next().offset
        while self._tokens.take_word("NOT"):
            negated = not negated
        if self._tokens.next().is_mark("("):
            return self._group(negated=negated)
        for word, node in (("TRUE", TRUE), ("FALSE", FALSE)):
            if self._tokens.take_word(word):
                return (FALSE if node is TRUE else TRUE) if negated else node
        if len(self._written) == MAX_PREDICATES:
            raise self._error(f"a filter may have {MAX_PREDICATES} predicates at most; use IN for lists")
        column = self._column()
        leaf = Leaf(column.number, self._predicate(column, negated=negated))
        self._written[id(leaf)] = (begin, self._tokens.peek(-1).end)
        return leaf

    def _group(self, *, negated: bool) -> Node:
        begin = self._tokens.take_mark("(")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"nested too deeply: at most {MAX_DEPTH} levels are allowed", begin.offset)
        if self._tokens.next().is_word("SELECT"):
            raise self._error("subqueries are not allowed in a filter: it sees one record")
        node = self._either(negated=negated)
        if not self._tokens.next().is_mark(")"):
            raise self._unexpected()
        self._tokens.take()
        self._depth -= 1
        return node

    def _predicate(self, column: FilterColumn, *, negated: bool) -> Constraint:
        tokens = self._tokens
        operator = tokens.next()
        if operator.kind == "mark" and operator.text in _COMPARISONS:
            tokens.take()
            return self._compared(column, operator, negated=negated)
        if tokens.take_word("IS"):
            is_null = not tokens.take_word("NOT")
            if not tokens.take_word("NULL"):
                raise self._error("expected NULL: write IS NULL or IS NOT NULL")
            if is_null != negated:
                return Constraint(NOTHING, null=column.everything.null)
            return Constraint(column.everything.ranges)
        has_not = tokens.take_word("NOT")
        denied = has_not != negated
        if tokens.take_word("BETWEEN"):
            return _ranged(column, self._between(column), negated=denied)
        if tokens.take_word("IN"):
            return _ranged(column, self._listed(column), negated=denied)
        if tokens.take_word("LIKE"):
            return self._like(column, negated=denied)
        if column.type is ColumnType.BOOLEAN and not has_not:
            return _ranged(column, ranges_of(1, 2), negated=negated)
        raise self._without_operator(column, operator)

    def _compared(self, column: FilterColumn, operator: Token, *, negated: bool) -> Constraint:
        low, high = column.domain.cuts_at(self._value(column).value)
        first, end = column.everything.ranges
        sets = {
            "=": (low, high),
            "<": (first, low),
            "<=": (first, high),
            ">": (high, end),
            ">=": (low, end),
        }
        if operator.text in ("!=", "<>"):
            return _ranged(column, ranges_of(low, high), negated=not negated)
        return _ranged(column, ranges_of(*sets[operator.text.replace("==", "=")]), negated=negated)

    def _between(self, column: FilterColumn) -> Ranges:
        low = self._value(column)
        if not self._tokens.take_word("AND"):
            raise self._error("expected AND: write BETWEEN 1 AND 5")
        high = self._value(column)
        return ranges_of(column.domain.cuts_at(low.value)[0], column.domain.cuts_at(high.value)[1])

    def _listed(self, column: FilterColumn) -> Ranges:
        begin = self._tokens.take_mark("(")
        values = [self._value(column)]
        while not self._tokens.next().is_mark(")"):
            self._tokens.take_mark(",")
            if len(values) == MAX_VALUES_IN_LIST:
                raise self._error(f"IN may list {MAX_VALUES_IN_LIST:,} values at most", begin.offset)
            values.append(self._value(column))
        self._tokens.take()
        if column.type in _TYPED.values():
            # Spark would compare the times of a list of strings as texts.
            for one in values:
                if not one.is_typed:
                    raise self._error(
                        f"in a list, write the type before each value: {column.type} {one.token.text}", one.token.offset
                    )
        listed = [one.value for one in values]
        if column.type in NUMBERS and any(isinstance(one, float) for one in listed):
            # Spark compares with a list in one type, that of DOUBLE if one value is.
            listed = [float(one) for one in listed]
        bounds: list[Key] = []
        for low, high in sorted({column.domain.cuts_at(one) for one in listed}):
            if low == high:
                continue
            if bounds and bounds[-1] == low:
                bounds[-1] = high
            else:
                bounds += (low, high)
        return tuple(bounds)

    def _like(self, column: FilterColumn, *, negated: bool) -> Constraint:
        if column.type is not ColumnType.STRING:
            raise self._error(f"LIKE is for STRING; {column.name} is {column.type}", self._tokens.peek(-1).offset)
        token = self._tokens.take()
        if token.kind != "string":
            raise self._error("expected a pattern in quotes, such as 'YH%'", token.offset)
        try:
            pattern = read_pattern(self._tokens.string(token))
        except UnsupportedPattern as reason:
            raise self._error(str(reason), token.offset) from None
        if self._tokens.next().is_word("ESCAPE"):
            raise self._error(r"ESCAPE is not allowed; a backslash before % or _ makes it an ordinary character")
        if pattern.begins and pattern.ends:
            return _ranged(column, (pattern.text, f"{pattern.text}\0"), negated=negated)
        if not pattern.text:
            return _ranged(column, column.everything.ranges, negated=negated)
        if pattern.begins:
            return _ranged(column, (pattern.text, end_of_prefix(pattern.text)), negated=negated)
        found = Pattern(pattern.text, anywhere=not pattern.ends, negated=negated)
        return constraint(column.everything.ranges, patterns=frozenset((found,)))

    def _column(self) -> FilterColumn:
        token = self._tokens.take()
        name = token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
        column = self._columns.by_name.get(name.lower()) if token.kind in ("name", "quoted") else None
        # A column may be called DATE; before an operator it is meant.
        is_keyword = token.kind == "name" and token.text.upper() in KEYWORDS - set(_TYPED)
        if column is not None and not is_keyword:
            return column
        raise self._no_column(token, name)

    def _value(self, column: FilterColumn) -> _Value:
        token = self._tokens.take()
        typed = _TYPED.get(token.text.upper()) if token.kind == "name" else None
        if typed is not None and self._tokens.next().kind == "string":
            if typed is not column.type:
                raise self._misfit(column, token)
            return _Value(self._literal(column, self._tokens.take()), token, is_typed=True)
        return _Value(self._literal(column, token), token)

    def _literal(self, column: FilterColumn, token: Token) -> str | bool | int | Decimal | float | datetime | date:
        match column.type, token.kind:
            case ColumnType.STRING, "string":
                return self._tokens.string(token)
            case ColumnType.BOOLEAN, "name" if token.text.upper() in ("TRUE", "FALSE"):
                return token.is_word("TRUE")
            case ((ColumnType.TIMESTAMP | ColumnType.DATE), "string"):
                read = parse_time if column.type is ColumnType.TIMESTAMP else parse_date
                try:
                    return read(self._tokens.string(token))
                except ValueError as reason:
                    raise self._error(f"{column.name} is {column.type}: {reason}", token.offset) from None
            case ((ColumnType.INT | ColumnType.BIGINT | ColumnType.DOUBLE), "number"):
                return self._number(column, token)
        raise self._misfit(column, token)

    def _number(self, column: FilterColumn, token: Token) -> int | Decimal | float:
        written = "".join(token.text.split())
        if "e" in written.lower():
            double = float(written)
            if not isfinite(double):
                raise self._error(f"{written[:40]} is beyond all numbers; DOUBLE ends at 1.8e308", token.offset)
            return double
        whole, _, fraction = written.lstrip("+-").partition(".")
        if len(whole) + len(fraction) > _MAX_DIGITS:
            raise self._error(
                f"a number may have {_MAX_DIGITS} digits at most; write large ones as 1.5e300", token.offset
            )
        value: int | Decimal = Decimal(written) if "." in written else int(written)
        if column.type is not ColumnType.DOUBLE:
            if not _LONGS.first <= value <= _LONGS.end - 1:
                raise self._error(f"{written} is beyond all whole numbers of 64 bits", token.offset)
            if len(fraction) > _MAX_FRACTION_DIGITS:
                limit = f"{_MAX_FRACTION_DIGITS} digits after the point at most"
                raise self._error(f"a number that {column.type} is compared with may have {limit}", token.offset)
        return value

    def _misfit(self, column: FilterColumn, token: Token) -> StatementError:
        expected = f"{column.name} is {column.type}: compare it with {_VALUES[column.type]}"
        if token.is_word("NULL"):
            return self._error(f"nothing equals NULL: write {column.name} IS NULL or IS NOT NULL", token.offset)
        if token.kind == "name" and token.text.lower() in self._columns.by_name:
            return self._error(f"{expected}, not with another column", token.offset)
        if token.kind == "name" and column.type is ColumnType.STRING:
            return self._error(f"{expected}: '{token.text}'", token.offset)
        if token.kind == "string" and column.type in NUMBERS:
            return self._error(f"{expected}, without quotes", token.offset)
        if token.kind == "number" and column.type is ColumnType.STRING:
            return self._error(f"{expected}: '{token.text}'", token.offset)
        return self._error(expected, token.offset)

    def _no_column(self, token: Token, name: str) -> StatementError:
        following = self._tokens.next()
        if token.kind == "name" and following.is_mark("("):
            return self._error("functions are not allowed in a filter: compare a column with a value", token.offset)
        if token.kind in ("string", "number"):
            return self._error("write the column first, then the value: volume > 5", token.offset)
        if token.kind not in ("name", "quoted"):
            return self._error(f"expected a column; {_HOW}", token.offset)
        if (reason := self._refused.get(name.lower())) is not None:
            return self._error(reason, token.offset)
        if token.kind == "name" and token.text.upper() in KEYWORDS:
            if name.lower() in self._columns.by_name:
                return self._error(f"{token.text} is a word of SQL: write `{token.text}` for the column", token.offset)
            return self._error(f"expected a column; {_HOW}", token.offset)
        close = difflib.get_close_matches(name.lower(), self._columns.by_name, n=1)
        meant = f"; did you mean {self._columns.by_name[close[0]].name}?" if close else ""
        known = self._columns.names or "none that filters compare"
        return self._error(f"no column {name[:64]}{meant or f'; there are {_shortened(known)}'}", token.offset)

    def _without_operator(self, column: FilterColumn, token: Token) -> StatementError:
        if token.is_mark("<=>"):
            return self._error("<=> is not allowed: use = and IS NULL", token.offset)
        if token.kind == "name" and token.text.upper() in ("ILIKE", "RLIKE", "REGEXP"):
            return self._error(f"{token.text.upper()} is not allowed: use LIKE 'a%', '%a' or '%a%'", token.offset)
        return self._error(f"expected one of {_OPERATORS} after {column.name}", token.offset)

    def _unexpected(self) -> StatementError:
        token = self._tokens.next()
        if not token.kind:
            return self._error("a ) is missing here")
        if token.is_mark(")"):
            return self._error("this ) closes nothing")
        return self._error("expected AND, OR or the end of the filter")

    def _error(self, message: str, offset: int | None = None) -> StatementError:
        return self._tokens.error(message, self._tokens.next().offset if offset is None else offset)


def _shortened(names: str) -> str:
    return names if len(names) <= _MAX_SHOWN else f"{names[:_MAX_SHOWN].rpartition(',')[0]}, …"


def _ranged(column: FilterColumn, ranges: Ranges, *, negated: bool) -> Constraint:
    """TRUE for these keys; or, negated, for all others. For NULL it is neither."""
    return Constraint(difference(column.everything.ranges, ranges) if negated else ranges)


def _of(kind: type[All | Some], nodes: list[Node]) -> Node:
    return nodes[0] if len(nodes) == 1 else kind(tuple(nodes))
