"""Near-queries: `distance`, `within`, and the grid that makes `within` an equi-join.

The plane is cut into square cells at least half a radius wide. The smaller side of a near-join is repeated for each of
the 5 x 5 cells around it, the other side keeps its one cell, and both are joined on the cell; the exact test follows.
Cell sizes are powers of two, so that dividing by them is exact. They are strictly above half the radius, so that
rounding in the exact test can't reach a cell further. A cell is one BIGINT: Spark joins on it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import frexp, inf, isfinite

from sqlglot import exp

from tocsin.cluster.channels.compiler import functions
from tocsin.cluster.channels.compiler.dialect import call, column_of, function_name, quote_name, sql_of
from tocsin.cluster.channels.compiler.template import CellSize, mark, number
from tocsin.model.schema import NUMBERS, ColumnType

CELL_COLUMN = "_cell"
#: Cells on each side of a point's own. With cells of half a radius, 2 measured best (142 ms against 228 with 1).
REACH = 2
#: Coordinates of cells wrap around at this number, so two of them fit into 62 bits however far out a point lies.
#: Points that are joined because of wrapping fail the exact test.
CELLS_AROUND = 2**31
#: Finer cells would only serve radii below a millionth; a radius of zero needs a size too.
SMALLEST_CELL = 2.0**-20
#: Beyond this radius every point lies in cell 0, and the exact test decides.
LARGEST_RADIUS = 2.0**1000
#: A cell is wider than half a radius by this much, so that rounding in the exact test can't reach a cell further.
MARGIN = 1 + 2.0**-40


def cell_size_for(max_radius: float) -> float:
    """A power of two, a little more than half of `max_radius` or larger. So the generated text seldom changes.

    >>> [cell_size_for(radius) for radius in (0, 500, 511, 512, 2000)]
    [9.5367431640625e-07, 256.0, 256.0, 512.0, 1024.0]
    """
    if not max_radius > 0:
        return SMALLEST_CELL
    if max_radius > LARGEST_RADIUS:
        return inf
    mantissa, exponent = frexp(max(max_radius / 2 * MARGIN, SMALLEST_CELL))
    return float(2.0 ** (exponent - 1 if mantissa == 0.5 else exponent))


@dataclass(frozen=True, slots=True)
class Explosion:
    """A relation that is repeated for each cell around its point."""

    x: exp.Expr
    y: exp.Expr
    size: str

    def relation_sql(self, relation: str, alias: str) -> str:
        name = quote_name(alias)
        cell = sql_of(_cell(self.x, self.y, self.size, offsets=("_dx", "_dy")))
        offsets = f"explode(sequence({-REACH}, {REACH}))"
        return (
            f"(SELECT {name}.*, {cell} AS {CELL_COLUMN} FROM {relation} AS {name}"
            f" LATERAL VIEW {offsets} _xs AS _dx LATERAL VIEW {offsets} _ys AS _dy) AS {name}"
        )


@dataclass(frozen=True, slots=True)
class Cells:
    """How a near-join is made: `condition` joins on the cell, `exploded` is the relation that is repeated."""

    condition: exp.Expr
    exploded: str
    explosion: Explosion


@dataclass(frozen=True, slots=True)
class _Link:
    points: Mapping[str, tuple[exp.Expr, exp.Expr]]
    size: str
    by_parameter: bool


def near_cells(
    conditions: Sequence[exp.Expr],
    preference: Mapping[str, int],
    *,
    subscriptions: str,
    kept: frozenset[str] = frozenset(),
    equated: frozenset[frozenset[str]] = frozenset(),
    exact: frozenset[frozenset[str]] = frozenset(),
) -> list[Cells]:
    """Cells for each `within` that links two relations of `preference`. A lower number there means a smaller relation.

    A relation is repeated at most once, the `kept` ones never. Its one repetition goes to the link whose other side is
    the largest. `equated` are pairs that an equality links already: cells are worth their price there only if the
    subscriptions are joined without repeating them. `exact` are pairs that get no cells if the radius is a parameter.
    """
    links = [link for condition in conditions if (link := _link(condition, preference, subscriptions)) is not None]
    links.sort(key=lambda link: -max(preference[alias] for alias in link.points))
    used = set(kept)
    found = []
    for link in links:
        small, large = sorted(link.points, key=lambda alias: (alias in used, preference[alias]))
        equality_does = frozenset(link.points) in equated and large != subscriptions
        if small in used or equality_does or (link.by_parameter and frozenset(link.points) in exact):
            continue
        used.add(small)
        condition = exp.EQ(this=column_of(CELL_COLUMN, small), expression=_cell(*link.points[large], link.size))
        found.append(Cells(condition, small, Explosion(*link.points[small], link.size)))
    return found


def _link(condition: exp.Expr, preference: Mapping[str, int], subscriptions: str) -> _Link | None:
    within = condition.unnest()
    if function_name(within) != functions.WITHIN:
        return None
    ax, ay, bx, by, radius = within.expressions
    first, second = _owner(ax, ay), _owner(bx, by)
    if first == second or first not in preference or second not in preference:
        return None
    points = {first: (ax, ay), second: (bx, by)}
    if isinstance(radius, exp.Literal) and isfinite(float(radius.this)):
        return _Link(points, number(cell_size_for(float(radius.this))), by_parameter=False)
    if isinstance(radius, exp.Column) and radius.table == subscriptions and radius.meta.get("type") in NUMBERS:
        return _Link(points, mark(CellSize(radius.name)), by_parameter=True)
    return None


def _owner(x: exp.Expr, y: exp.Expr) -> str:
    """The one relation that a point's coordinates come from; empty if they come from none or several."""
    if any(point.find(exp.Query) for point in (x, y)):
        return ""
    owners = {column.table for point in (x, y) for column in point.find_all(exp.Column)}
    return owners.pop() if len(owners) == 1 else ""


def _cell(x: exp.Expr, y: exp.Expr, size: str, offsets: tuple[str, str] | None = None) -> exp.Expr:
    around = exp.Literal.number(CELLS_AROUND)

    def coordinate(value: exp.Expr, offset: str) -> exp.Expr:
        cell = call("pmod", call("floor", exp.Div(this=_operand(value), expression=exp.Var(this=size))), around.copy())
        if not offset:
            return cell
        return call("pmod", exp.Add(this=cell, expression=exp.Var(this=offset)), around.copy())

    column, row = (coordinate(value, offset) for value, offset in zip((x, y), offsets or ("", ""), strict=True))
    return exp.Add(this=exp.Mul(this=column, expression=around), expression=row)


# The exact tests


def spell_out(tree: exp.Expr) -> exp.Expr:
    """The tree with every `distance` and `within` written in Spark's functions."""
    calls = [node for node in tree.walk() if function_name(node) in {functions.DISTANCE, functions.WITHIN}]
    for node in reversed(calls):
        spelled = _distance(node) if function_name(node) == functions.DISTANCE else exp.paren(_within(node), copy=False)
        if node is tree:
            tree = spelled
        else:
            node.replace(spelled)
    return tree


def spell_out_condition(condition: exp.Expr) -> exp.Expr:
    """The same for a separate condition, where NULL counts as false: `within` gets a cheap box test in front."""
    within = condition.unnest()
    if function_name(within) != functions.WITHIN:
        return spell_out(condition)
    spelled = [spell_out(argument.copy()) for argument in within.expressions]
    within = call(functions.WITHIN, *spelled)
    ax, ay, bx, by, radius = spelled
    sides = [exp.LTE(this=call("abs", _minus(a, b)), expression=_operand(radius)) for a, b in ((ax, bx), (ay, by))]
    return exp.and_(*sides, _within(within), copy=False)


def _within(node: exp.Expr) -> exp.Expr:
    return exp.LTE(this=_distance(node), expression=_operand(node.expressions[4]))


def _distance(node: exp.Expr) -> exp.Expr:
    ax, ay, bx, by = node.expressions[:4]
    squares = [call("power", _minus(a, b), exp.Literal.number(2)) for a, b in ((ax, bx), (ay, by))]
    return call("sqrt", exp.Add(this=squares[0], expression=squares[1]))


def _minus(a: exp.Expr, b: exp.Expr) -> exp.Expr:
    return exp.Sub(this=_as_double(a), expression=_as_double(b))


def _as_double(node: exp.Expr) -> exp.Expr:
    """Subtracting whole numbers would wrap around, so an operand that is not known to be a DOUBLE is cast to one."""
    if isinstance(node, exp.Literal) or node.meta.get("type") is ColumnType.DOUBLE:
        return _operand(node)
    return exp.Cast(this=node.copy(), to=exp.DataType.build("DOUBLE"))


def _operand(node: exp.Expr) -> exp.Expr:
    node = node.copy()
    return node if isinstance(node, exp.Column | exp.Literal | exp.Anonymous | exp.Paren) else exp.Paren(this=node)
