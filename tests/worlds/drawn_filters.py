"""Conditions and records to draw, and a second opinion on them: SQL's three-valued logic on plain values.

It shares nothing with `tocsin.filters`: no keys, no ranges, no normal form. Values are few, so that conditions and
records meet, and nasty: NaN, -0.0, neighbours beyond 2^53, texts that end where characters do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tocsin.model.schema import Column, ColumnType, Schema

SCHEMA = Schema(
    (
        Column("s", ColumnType.STRING),
        Column("t", ColumnType.STRING, nullable=False),
        Column("i", ColumnType.INT),
        Column("b", ColumnType.BIGINT),
        Column("d", ColumnType.DOUBLE),
        Column("f", ColumnType.BOOLEAN),
        Column("at", ColumnType.TIMESTAMP),
        Column("day", ColumnType.DATE),
    )
)

_TEXTS = [
    "",
    "a",
    "ab",
    "abc",
    "b",
    "bc",
    "a%",
    "a_",
    "a\\",
    "it's",
    "é",
    "a\N{GRINNING FACE}",
    "\uffff",
    "~",
    "a~",
    "a~b",
]
_TEXTS += ["a\n", "${x}", "\U0010ffff", "a\U0010ffff", "\ud7ff", "\ue000", "aab", '"']
_NEW_YEAR = datetime(2026, 1, 1, tzinfo=UTC)
_LARGEST = 1.7976931348623157e308
_FINITE = [0.0, -0.0, 1.0, 0.1, 0.3, 0.30000000000000004, 5e-324, 2.0**53, _LARGEST, -_LARGEST]
_FINITE += [0.12345678901234567, 0.12345678901234568]
VALUES: dict[ColumnType, list[Any]] = {
    ColumnType.STRING: [*_TEXTS, "a\0", "a\x7f", "zzz", "xaby"],
    ColumnType.INT: [-(2**31), -1, 0, 1, 2, 3, 4, 2**31 - 1],
    ColumnType.BIGINT: [-(2**63), -1, 0, 1, 2, 2**53, 2**53 + 1, 2**53 + 2, 2**63 - 1025, 2**63 - 1],
    ColumnType.DOUBLE: [*_FINITE, math.inf, -math.inf, math.nan],
    ColumnType.BOOLEAN: [True, False],
    ColumnType.TIMESTAMP: [_NEW_YEAR.replace(**part) for part in ({}, {"microsecond": 1}, {"hour": 1}, {"year": 1999})],
    ColumnType.DATE: [date(2026, 1, 1), date(2026, 1, 2), date(1900, 1, 1), date(2200, 12, 31)],
}


@dataclass(frozen=True)
class Literal:
    text: str
    value: Any


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''").replace("\n", "\\n").replace("${", "$\\u007b") + "'"


def _number(text: str) -> Literal:
    return Literal(text, float(text) if "e" in text else Decimal(text))


_INTS = ["-1", "0", "1", "1.0", "2", "2.5", "3", "1e0", "2.5e0", "-2147483648", "2147483648", "99999999999"]
_LONGS = ["0", "1", "0.5", "1.5e0", "9007199254740992", "9007199254740993", "9007199254740992e0", "9007199254740993e0"]
_LONGS += [
    "9223372036854775807",
    "-9223372036854775808",
    "1e19",
    "9223372036854775806.5",
    "9223372036854775807e0",
    "-1e19",
]
_LONGS += ["9223372036854774784e0", "0.000000000000000001"]
_DOUBLES = ["0", "-0.0", "1", "0.1", "0.3", "0.30000000000000004", "5e-324", "1e-400", "9007199254740993", "- 1"]
_DOUBLES += ["1.7976931348623157e308", "-1.7976931348623157e308", "0.12345678901234567", "0.12345678901234568"]
LITERALS: dict[ColumnType, list[Literal]] = {
    ColumnType.STRING: [Literal(_quoted(text), text) for text in _TEXTS],
    ColumnType.INT: [_number(text) for text in _INTS],
    ColumnType.BIGINT: [_number(text) for text in _LONGS],
    ColumnType.DOUBLE: [Literal(text, float(text.replace(" ", ""))) for text in _DOUBLES],
    ColumnType.BOOLEAN: [Literal("true", True), Literal("FALSE", False)],
    ColumnType.TIMESTAMP: [
        Literal("TIMESTAMP '2026-01-01T00:00:00Z'", _NEW_YEAR),
        Literal("timestamp '2026-01-01 01:00:00.000001+01:00'", _NEW_YEAR.replace(microsecond=1)),
        Literal("TIMESTAMP '2026-01-01T01:00:00.000000999Z'", _NEW_YEAR.replace(hour=1)),
        Literal("TIMESTAMP '2200-12-31T23:59:59.999999Z'", datetime(2200, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ],
    ColumnType.DATE: [
        Literal("DATE '2026-01-01'", date(2026, 1, 1)),
        Literal("date '2026-01-02'", date(2026, 1, 2)),
        Literal("DATE '1900-01-01'", date(1900, 1, 1)),
        Literal("DATE '2200-12-31'", date(2200, 12, 31)),
    ],
}
_UNTYPED = {
    ColumnType.TIMESTAMP: [Literal("'2026-01-01T00:00:00Z'", _NEW_YEAR)],
    ColumnType.DATE: [Literal("'2026-01-02'", date(2026, 1, 2))],
}

Record = Mapping[str, Any]
Truth = bool | None


@dataclass(frozen=True)
class Condition:
    """A text, and what SQL makes of it."""

    text: str
    truth: Callable[[Record], Truth]

    def __repr__(self) -> str:
        return self.text


def _order(column: Column, value: Any, literal: Any) -> int:
    """-1, 0 or 1, as Spark compares the two."""
    if column.type is ColumnType.STRING:
        value, literal = value.encode(), literal.encode()
    elif isinstance(literal, float) or column.type is ColumnType.DOUBLE:
        value, literal = float(value), float(literal)
        if math.isnan(value):
            return 1
    return (value > literal) - (value < literal)


_COMPARE: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "==": lambda order: order == 0,
    "!=": lambda order: order != 0,
    "<>": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}


def _on(column: Column, test: Callable[[Any], bool], negated: bool = False) -> Callable[[Record], Truth]:
    def truth(record: Record) -> Truth:
        value = record[column.name]
        return None if value is None else test(value) != negated

    return truth


@st.composite
def predicates(draw: st.DrawFn, columns: tuple[Column, ...] = SCHEMA.columns) -> Condition:
    column = draw(st.sampled_from(columns))
    name, literals = column.name, st.sampled_from(LITERALS[column.type])
    kinds = ["compare", "compare", "between", "in", "null"]
    kinds += ["like", "like"] if column.type is ColumnType.STRING else []
    kinds += ["bare"] if column.type is ColumnType.BOOLEAN else []
    kind = draw(st.sampled_from(kinds))
    denied = draw(st.sampled_from(["", "NOT "]))
    if kind == "compare":
        sign = draw(st.sampled_from(sorted(_COMPARE)))
        literal = draw(st.sampled_from([*LITERALS[column.type], *_UNTYPED.get(column.type, ())]))
        return Condition(
            f"{name} {sign} {literal.text}",
            _on(column, lambda value: _COMPARE[sign](_order(column, value, literal.value))),
        )
    if kind == "between":
        low, high = draw(literals), draw(literals)
        return Condition(
            f"{name} {denied}BETWEEN {low.text} AND {high.text}",
            _on(
                column,
                lambda value: _order(column, value, low.value) >= 0 >= _order(column, value, high.value),
                bool(denied),
            ),
        )
    if kind == "in":
        listed = draw(st.lists(literals, min_size=1, max_size=4))
        values = [one.value for one in listed]
        if any(isinstance(one, float) for one in values):
            values = [float(one) for one in values]
        return Condition(
            f"{name} {denied}IN ({', '.join(one.text for one in listed)})",
            _on(column, lambda value: any(_order(column, value, one) == 0 for one in values), bool(denied)),
        )
    if kind == "like":
        return _like(column, denied, draw(st.sampled_from(_TEXTS)), draw(st.sampled_from(["x", "x%", "%x", "%x%"])))
    if kind == "bare":
        return Condition(name, _on(column, bool))
    return Condition(f"{name} IS {denied}NULL", lambda record: (record[name] is None) != bool(denied))


def _like(column: Column, denied: str, text: str, form: str) -> Condition:
    plain = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    tests: dict[str, Callable[[str], bool]] = {
        "x": lambda value: value == text,
        "x%": lambda value: value.startswith(text),
        "%x": lambda value: value.endswith(text),
        "%x%": lambda value: text in value,
    }
    return Condition(
        f"{column.name} {denied}LIKE {_quoted(form.replace('x', plain))}", _on(column, tests[form], bool(denied))
    )


def _not(one: Condition) -> Condition:
    def truth(record: Record) -> Truth:
        value = one.truth(record)
        return None if value is None else not value

    return Condition(f"NOT ({one.text})", truth)


def _both(some: list[Condition]) -> Condition:
    def truth(record: Record) -> Truth:
        values = [one.truth(record) for one in some]
        return False if False in values else None if None in values else True

    return Condition(" AND ".join(f"({one.text})" for one in some), truth)


def _either(some: list[Condition]) -> Condition:
    def truth(record: Record) -> Truth:
        values = [one.truth(record) for one in some]
        return True if True in values else None if None in values else False

    return Condition(" OR ".join(f"({one.text})" for one in some), truth)


@st.composite
def conditions(draw: st.DrawFn, columns: tuple[Column, ...] = SCHEMA.columns, depth: int = 3) -> Condition:
    """Mostly small ones."""
    kind = draw(st.sampled_from(["predicate", "not", "both", "either"])) if depth else "predicate"
    if kind == "predicate":
        return draw(predicates(columns))
    some = [draw(conditions(columns, depth - 1)) for _ in range(1 if kind == "not" else draw(st.integers(2, 3)))]
    return _not(some[0]) if kind == "not" else _both(some) if kind == "both" else _either(some)


def records() -> st.SearchStrategy[dict[str, Any]]:
    def of(column: Column) -> st.SearchStrategy[Any]:
        values = st.sampled_from(VALUES[column.type])
        return st.none() | values if column.nullable else values

    return st.fixed_dictionaries({column.name: of(column) for column in SCHEMA})


def drawn(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Many at once, for an oracle that is slow to start."""
    found: list[Any] = []

    @settings(max_examples=count, phases=[Phase.generate], database=None)
    @given(strategy)
    def collect(one: Any) -> None:
        found.append(one)

    collect()
    return found
