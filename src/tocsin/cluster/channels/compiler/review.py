"""What a new channel must not do, though Spark would run it: mistakes that stay silent for ever (pure).

Only CREATE CHANNEL asks for this. A channel that exists already goes on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from sqlglot import exp

from tocsin.cluster.channels.compiler.check import CAST_TYPES, check_query
from tocsin.cluster.channels.compiler.dialect import Source, offset_of
from tocsin.errors import StatementError
from tocsin.model.catalogue import Channel, Dataset
from tocsin.model.schema import ColumnType

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_NUMBERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
_TIMES = {"DATE", "TIMESTAMP"}


def review_channel(channel: Channel, datasets: Mapping[str, Dataset]) -> None:
    """Raises StatementError, pointing into the body, for values that are compared with values of another type, for
    comparisons with NULL, and for parameters that the query does not use."""
    catalogue = {dataset.name.lower(): dataset for dataset in datasets.values()}
    checked = check_query(channel.body, parameters=channel.parameters, datasets=catalogue, channel=True)
    for node in checked.tree.walk():
        for left, right in _compared(node):
            _refuse_mixed(checked.source, node, left, right)
    used = {node.this for node in checked.tree.find_all(exp.Placeholder)}
    for parameter in channel.parameters:
        if parameter.name not in used:
            message = f"the parameter {parameter.name} is not used: write :{parameter.name} in the query, or don't"
            raise StatementError(f"{message} declare it", text=channel.body)


def _compared(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    if isinstance(node, _COMPARISONS):
        yield node.this, node.expression
    elif isinstance(node, exp.Between):
        yield node.this, node.args["low"]
        yield node.this, node.args["high"]
    elif isinstance(node, exp.In):
        for value in node.expressions:
            yield node.this, value


def _refuse_mixed(source: Source, node: exp.Expr, left: exp.Expr, right: exp.Expr) -> None:
    if exp.Null in (type(left.unnest()), type(right.unnest())) and not isinstance(
        node, exp.NullSafeEQ | exp.NullSafeNEQ
    ):
        raise source.error("a comparison with NULL is never true: write IS NULL or IS NOT NULL", offset_of(node))
    for one, other in ((left.unnest(), right.unnest()), (right.unnest(), left.unnest())):
        if _is_text(one) and _family(other) == "time" and not _is_time(one.name):
            message = f"'{one.name}' is compared with a {_type(other)} and is no time: write '2026-01-02T03:04:05Z'"
            raise source.error(message, offset_of(node))
    families = {_family(left), _family(right)} - {""}
    text_for_time = families == {"text", "time"} and (_is_text(left.unnest()) or _is_text(right.unnest()))
    if len(families) < 2 or text_for_time:
        return
    message = f"{_shown(left)} is compared with {_shown(right)}; {_remedy(left.unnest(), right.unnest())}"
    raise source.error(message, offset_of(node))


def _remedy(left: exp.Expr, right: exp.Expr) -> str:
    """How to make both sides of one type: a literal is written as one of the other's, else one side is cast."""
    for one, other in ((right, left), (left, right)):
        if isinstance(one, exp.Literal):
            if one.is_string and _family(other) == "number":
                return f"write a number without quotes, or CAST({_name(other)} AS STRING)"
            if not one.is_string and _family(other) == "text":
                return f"write '{one.name}', or CAST({_name(other)} AS DOUBLE)"
    target, cast = (left, right) if _family(left) != "text" or _family(right) == "text" else (right, left)
    return f"make them one type, such as CAST({_name(cast)} AS {_type(target)})"


def _type(node: exp.Expr) -> str:
    """The type of an expression as its author knows it, or empty if that takes more than a look."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        return _type(node.this)
    if isinstance(node, exp.Literal):
        return "STRING" if node.is_string else "INT" if node.is_int else "DOUBLE"
    if isinstance(node, exp.Boolean):
        return "BOOLEAN"
    if isinstance(node, exp.Cast | exp.TryCast):
        return CAST_TYPES.get(node.to.this, "")
    known = node.meta.get("type") if isinstance(node, exp.Column | exp.Placeholder) else None
    return known.value if isinstance(known, ColumnType) else ""


def _family(node: exp.Expr) -> str:
    type_ = _type(node)
    if type_ in _NUMBERS:
        return "number"
    if type_ in _TIMES:
        return "time"
    return {"STRING": "text", "BOOLEAN": "truth"}.get(type_, "")


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_string)


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _shown(node: exp.Expr) -> str:
    return f"{_name(node)} ({_type(node)})"


def _name(node: exp.Expr) -> str:
    """An operand as its author wrote it, as near as the tree remembers."""
    node = node.unnest()
    if isinstance(node, exp.Placeholder):
        return f":{node.name}"
    if isinstance(node, exp.Column):
        return f"{node.table}.{node.name}" if node.table else node.name
    return node.sql("spark")
