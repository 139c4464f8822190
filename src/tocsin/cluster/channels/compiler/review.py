"""Mistakes that a new channel must not contain, though Spark would run it: nobody would ever notice them (pure).

CREATE CHANNEL and DELETE call this. Existing channels go on as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from sqlglot import exp

from tocsin.cluster.channels.compiler.allowed_nodes import CAST_TYPES
from tocsin.cluster.channels.compiler.check import check_query
from tocsin.cluster.channels.compiler.dialect import Source, function_name, offset_of
from tocsin.errors import StatementError
from tocsin.model.catalogue import Channel, Dataset, Parameter
from tocsin.model.schema import ColumnType
from tocsin.model.times import parse_date, parse_time

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_NUMBERS = {"TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
_TIMES: dict[str, Callable[[object], object]] = {"DATE": parse_date, "TIMESTAMP": parse_time}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)
#: The result types of functions that don't depend on arguments. Functions such as coalesce are left out.
_RESULTS = {
    name: type_
    for type_, names in {
        "STRING": """concat concat_ws date_format format_number initcap lcase left lower lpad ltrim mask replace right
        rpad rtrim split_part string substr substring substring_index to_char translate trim btrim ucase upper""",
        "INT": """ascii char_length character_length datediff date_diff day dayofmonth dayofweek dayofyear hour instr
        int len length levenshtein locate minute month position quarter second size weekday weekofyear year""",
        "BIGINT": "bigint count count_if approx_count_distinct unix_micros unix_millis unix_seconds",
        "DOUBLE": "distance double avg mean cbrt cos degrees exp ln log log10 log2 power pow radians sin sqrt tan",
        "BOOLEAN": "boolean contains endswith isnan isnotnull isnull startswith within",
        "DATE": "add_months date date_add date_sub last_day make_date next_day to_date",
        "TIMESTAMP": """date_trunc make_timestamp timestamp timestamp_micros timestamp_millis timestamp_seconds
        to_timestamp""",
    }.items()
    for name in names.split()
}


def review_channel(channel: Channel, datasets: Mapping[str, Dataset]) -> None:
    """Raises StatementError, pointing into the statement, for comparisons and arithmetic between different types, for
    comparisons with NULL, for times of an unknown form, and for unused parameters."""
    keys = "" if channel.once is None else channel.once.keys
    tree = _review(channel.body, datasets, channel.parameters, is_channel=True, keys=keys)
    used = {node.this for node in tree.find_all(exp.Placeholder)}
    texts = {node.this for node in tree.find_all(exp.Literal) if node.is_string}
    for parameter in channel.parameters:
        if (name := parameter.name) not in used:
            quoted = ", without quotes" if f":{name}" in texts else ""
            message = f"the parameter {name} is not used: write :{name} in the query{quoted}, or don't declare it"
            raise StatementError(message, text=channel.body, about=name)


def review_query(sql: str, datasets: Mapping[str, Dataset]) -> None:
    """The same for the query of a statement that changes rows: rows that it does not find stay unchanged."""
    _review(sql, datasets, (), is_channel=False)


def _review(
    sql: str, datasets: Mapping[str, Dataset], parameters: Sequence[Parameter], *, is_channel: bool, keys: str = ""
) -> exp.Expr:
    catalogue = {dataset.name.lower(): dataset for dataset in datasets.values()}
    checked = check_query(sql, parameters=parameters, datasets=catalogue, channel=is_channel, keys=keys)
    for node in checked.tree.walk():
        if isinstance(node, exp.Cast | exp.TryCast):
            _refuse_odd_time(checked.source, node, node.this, _type(node))
        for left, right in _compared(node):
            _refuse_mixed(checked.source, node, left, right)
        if isinstance(node, _ARITHMETIC):
            _refuse_mixed_arithmetic(checked.source, node)
    return checked.tree


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
    _refuse_odd_time(source, node, left, _type(right))
    _refuse_odd_time(source, node, right, _type(left))
    families = {_family(left), _family(right)} - {""}
    text_for_time = families == {"text", "time"} and (_is_text(left.unnest()) or _is_text(right.unnest()))
    if len(families) < 2 or text_for_time:
        return
    message = f"{_shown(left)} is compared with {_shown(right)}; {_remedy(left.unnest(), right.unnest())}"
    raise source.error(message, offset_of(node))


def _refuse_odd_time(source: Source, node: exp.Expr, text: exp.Expr, type_: str) -> None:
    """A text that stands for a time must have the same form as in records: nothing is guessed."""
    text = text.unnest()
    if type_ not in _TIMES or not _is_text(text):
        return
    try:
        _TIMES[type_](text.name)
    except ValueError as reason:
        raise source.error(f"'{text.name}' stands for a {type_}: {reason}", offset_of(node)) from None


def _refuse_mixed_arithmetic(source: Source, node: exp.Binary) -> None:
    families = {_family(node.this), _family(node.expression)}
    if "number" in families and families & {"text", "truth"}:
        message = f"{_shown(node.this)} is calculated with {_shown(node.expression)}"
        remedy = _remedy(node.this.unnest(), node.expression.unnest())
        raise source.error(f"{message}; {remedy}", offset_of(node))


def _remedy(left: exp.Expr, right: exp.Expr) -> str:
    """How to give both sides one type: write a literal in the other side's type, or cast one side."""
    for one, other in ((right, left), (left, right)):
        if isinstance(one, exp.Literal):
            if one.is_string and _family(other) == "number":
                return f"write a number without quotes, or CAST({_name(other)} AS STRING)"
            if not one.is_string and _family(other) == "text":
                return f"write '{one.name}', or CAST({_name(other)} AS DOUBLE)"
    target, cast = (left, right) if _family(left) != "text" or _family(right) == "text" else (right, left)
    return f"make them one type, such as CAST({_name(cast)} AS {_type(target)})"


def _type(node: exp.Expr) -> str:
    """The type of an expression, as its author knows it; empty if that is not obvious."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        return _type(node.this)
    if isinstance(node, exp.Literal):
        return "STRING" if node.is_string else "INT" if node.is_int else "DOUBLE"
    if isinstance(node, exp.Boolean):
        return "BOOLEAN"
    if isinstance(node, exp.Cast | exp.TryCast):
        return CAST_TYPES.get(node.to.this, "")
    if isinstance(node, _ARITHMETIC):
        types = {_type(node.this), _type(node.expression)}
        if not types <= _NUMBERS:  # Includes times and intervals: only Spark knows the result's type.
            return ""
        if isinstance(node, exp.Div) or types & {"DOUBLE", "FLOAT", "DECIMAL"}:
            return "DOUBLE"
        return "BIGINT" if "BIGINT" in types else "INT"
    if name := function_name(node):
        return _RESULTS.get(name, "")
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


def _shown(node: exp.Expr) -> str:
    return f"{_name(node)} ({_type(node)})"


def _name(node: exp.Expr) -> str:
    """An operand as its author wrote it, as far as the tree remembers."""
    node = node.unnest()
    if isinstance(node, exp.Placeholder):
        return f":{node.name}"
    if isinstance(node, exp.Column):
        return f"{node.table}.{node.name}" if node.table else node.name
    return node.sql("spark", normalize_functions=False).replace("`", "")
