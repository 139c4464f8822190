"""The pieces that a query may be built from: an allow-list of sqlglot's node classes, types, units and joins."""

from __future__ import annotations

from sqlglot import exp

_OPERATORS = (exp.And, exp.Or, exp.Add, exp.Sub, exp.Mul, exp.IntDiv, exp.Mod)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is)
_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)

#: Every node class that a query may hold, and which of its arguments may be set.
NODES: dict[type[exp.Expr], frozenset[str]] = {
    node: frozenset(parts.split())
    for parts, nodes in (
        # Queries
        ("expressions from_ joins where group having distinct order limit offset with_", (exp.Select,)),
        ("this expression distinct order limit offset with_", (exp.Union, exp.Intersect, exp.Except)),
        ("expressions", (exp.With, exp.Group, exp.Distinct, exp.Order)),
        ("this alias", (exp.CTE, exp.Subquery, exp.Table)),
        ("this", (exp.From, exp.Where, exp.Having)),
        ("this on side kind", (exp.Join,)),
        ("this alias view outer", (exp.Lateral,)),
        ("this columns", (exp.TableAlias,)),
        ("this desc nulls_first", (exp.Ordered,)),
        ("expression", (exp.Limit, exp.Offset)),
        # Names and values
        ("", (exp.Star, exp.Null)),
        ("this", (exp.Boolean, exp.Placeholder, exp.Var, exp.DataTypeParam)),
        ("this alias", (exp.Alias,)),
        ("this table", (exp.Column,)),
        ("this quoted", (exp.Identifier,)),
        ("this is_string", (exp.Literal,)),
        ("this unit", (exp.Interval,)),
        ("this expressions nested", (exp.DataType,)),
        # Expressions
        ("this", (exp.Paren, exp.Not, exp.Neg, exp.BitwiseNot, exp.Exists)),
        ("expressions", (exp.Tuple,)),
        ("this expression", (*_OPERATORS, *_COMPARISONS, *_BITWISE, exp.Filter)),
        ("this expression typed safe", (exp.Div,)),
        ("this expression safe", (exp.DPipe,)),
        ("this expression negate", (exp.Like, exp.ILike)),
        ("this expressions query", (exp.In,)),
        ("this low high", (exp.Between,)),
        ("this ifs default", (exp.Case,)),
        ("this true false", (exp.If,)),
        ("this to _type", (exp.Cast,)),
        ("this to _type requires_string", (exp.TryCast,)),
        ("this expressions", (exp.Anonymous,)),
        ("this partition_by order spec over", (exp.Window,)),
        ("kind start start_side end end_side", (exp.WindowSpec,)),
    )
    for node in nodes
}

CAST_TYPES = {
    exp.DType.TEXT: "STRING",
    exp.DType.BOOLEAN: "BOOLEAN",
    exp.DType.TINYINT: "TINYINT",
    exp.DType.SMALLINT: "SMALLINT",
    exp.DType.INT: "INT",
    exp.DType.BIGINT: "BIGINT",
    exp.DType.FLOAT: "FLOAT",
    exp.DType.DOUBLE: "DOUBLE",
    exp.DType.DECIMAL: "DECIMAL",
    exp.DType.DATE: "DATE",
    exp.DType.TIMESTAMP: "TIMESTAMP",
    exp.DType.TIMESTAMPTZ: "TIMESTAMP",
}
INTERVAL_UNITS = frozenset({"YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
JOINS = {"", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"}
SIDES = {"", "LEFT", "RIGHT", "FULL"}
