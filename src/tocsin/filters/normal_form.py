"""Conditions as trees, and their normal form: alternatives, of which a record has to fit one (pure).

A tree has no NOT: it was pushed to the predicates, which SQL's three-valued logic allows. An alternative has one
constraint for each column that it speaks of. AND over OR multiplies alternatives. Where that would become too many,
those of one side are replaced by one that is wider, their hull. So work stays bounded, and the alternatives match all
that the tree matches, and perhaps more. Such a filter keeps its tree, which decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

from tocsin.filters.domains import Key
from tocsin.filters.predicates import Constraint, Pattern

#: As many as a person may list, such as a portfolio with a limit for each stock. What a machine multiplies is beyond it
#: after five steps, and has taken some ten milliseconds by then.
MAX_ALTERNATIVES: Final = 32
#: Before those are removed that others cover: each is compared with each.
_MAX_RAW: Final = 2 * MAX_ALTERNATIVES

Row: TypeAlias = Sequence[Key | None]


@dataclass(frozen=True, slots=True)
class Leaf:
    """What one column has to be."""

    column: int
    constraint: Constraint

    def matches(self, row: Row) -> bool:
        return self.constraint.admits(row[self.column])


@dataclass(frozen=True, slots=True)
class All:
    """AND; of nothing: TRUE."""

    nodes: tuple[Node, ...]

    def matches(self, row: Row) -> bool:
        return all(node.matches(row) for node in self.nodes)


@dataclass(frozen=True, slots=True)
class Some:
    """OR; of nothing: FALSE."""

    nodes: tuple[Node, ...]

    def matches(self, row: Row) -> bool:
        return any(node.matches(row) for node in self.nodes)


Node: TypeAlias = Leaf | All | Some
TRUE: Final = All(())
FALSE: Final = Some(())


@dataclass(frozen=True, slots=True)
class Alternative:
    """Constraints that all have to hold, by column, in the order of columns. Without any, everything matches."""

    constraints: tuple[tuple[int, Constraint], ...] = ()

    def matches(self, row: Row) -> bool:
        for column, constraint in self.constraints:  # noqa: SIM110 - a third faster than all(…)
            if not constraint.admits(row[column]):
                return False
        return True

    def get(self, column: int) -> Constraint | None:
        return next((constraint for at, constraint in self.constraints if at == column), None)

    def implies(self, other: Alternative) -> bool:
        """Whether the other one is known to match all that this one matches."""
        own = dict(self.constraints)
        for column, constraint in other.constraints:
            if (mine := own.get(column)) is None or not mine.implies(constraint):
                return False
        return True

    def meet(self, other: Alternative) -> Alternative | None:
        """What both match; None if it is known to be nothing."""
        met = dict(self.constraints)
        for column, constraint in other.constraints:
            mine = met.get(column)
            met[column] = both = constraint if mine is None else mine.meet(constraint)
            if both.is_empty:
                return None
        return Alternative(tuple(sorted(met.items(), key=_column)))

    def with_constraint(self, column: int, constraint: Constraint) -> Alternative:
        return Alternative(tuple(sorted({**dict(self.constraints), column: constraint}.items(), key=_column)))


#: Whether a constraint of a column leaves nothing out.
IsEverything: TypeAlias = Callable[[int, Constraint], bool]


@dataclass(frozen=True, slots=True)
class NormalForm:
    alternatives: tuple[Alternative, ...]
    #: Whether the alternatives match nothing more than the tree.
    is_exact: bool


def simplified(node: Node, is_everything: IsEverything, text_of: Callable[[Node], str]) -> Node:
    """The same condition: AND inside of AND is one, the constraints of a column are one where they can be, and the
    order is that of the texts, so that it does not matter in which order people write."""
    if isinstance(node, Leaf):
        if node.constraint.is_empty:
            return FALSE
        return TRUE if is_everything(node.column, node.constraint) else node
    kind, neutral, decisive = (All, TRUE, FALSE) if isinstance(node, All) else (Some, FALSE, TRUE)
    nodes: list[Node] = []
    for child in node.nodes:
        simple = simplified(child, is_everything, text_of)
        nodes += simple.nodes if isinstance(simple, kind) else [simple]
    if decisive in nodes:
        return decisive
    merge = _met if kind is All else _joined
    leaves = merge([one for one in nodes if isinstance(one, Leaf)])
    rest = [one for one in dict.fromkeys(nodes) if not isinstance(one, Leaf)]
    if any(leaf.constraint.is_empty for leaf in leaves):
        return FALSE
    everything = [leaf for leaf in leaves if is_everything(leaf.column, leaf.constraint)]
    if everything and kind is Some:
        return TRUE
    nodes = [*(leaf for leaf in leaves if leaf not in everything), *rest]
    if len(nodes) == 1:
        return nodes[0]
    return kind(tuple(sorted(nodes, key=text_of))) if nodes else neutral


def normal_form(node: Node, is_everything: IsEverything) -> NormalForm:
    """Of a simplified tree."""
    match node:
        case Leaf(column, constraint):
            return NormalForm((Alternative(((column, constraint),)),), is_exact=True)
        case All(nodes):
            factors = sorted((normal_form(child, is_everything) for child in nodes), key=_size)
            return reduce(
                lambda one, other: _product(one, other, is_everything),
                factors,
                NormalForm((Alternative(),), is_exact=True),
            )
        case Some(nodes):
            forms = [normal_form(child, is_everything) for child in nodes]
            raw = [one for form in forms for one in form.alternatives]
            return _bounded(raw, all(form.is_exact for form in forms), is_everything)


def hull(alternatives: Sequence[Alternative], is_everything: IsEverything) -> Alternative:
    """One alternative that matches whatever one of these matches: what all of them say about a column, joined."""
    shared = set.intersection(*({column for column, _ in one.constraints} for one in alternatives))
    joined = {
        column: reduce(Constraint.join, (dict(one.constraints)[column] for one in alternatives)) for column in shared
    }
    kept = ((column, one) for column, one in joined.items() if not is_everything(column, one))
    return Alternative(tuple(sorted(kept, key=_column)))


def _product(one: NormalForm, other: NormalForm, is_everything: IsEverything) -> NormalForm:
    # What is not exact any more does not become so again: it is only narrowed, in one alternative.
    limit = _MAX_RAW if one.is_exact and other.is_exact else 1
    while _size(one) * _size(other) > limit:
        small, large = sorted((one, other), key=_size)
        one, other = small, NormalForm((hull(large.alternatives, is_everything),), is_exact=False)
    met = (first.meet(second) for first in one.alternatives for second in other.alternatives)
    return _bounded([both for both in met if both is not None], one.is_exact and other.is_exact, is_everything)


def _bounded(raw: list[Alternative], is_exact: bool, is_everything: IsEverything) -> NormalForm:
    if len(raw) <= _MAX_RAW:
        raw = _without_covered(_merged(raw, is_everything))
    if len(raw) > MAX_ALTERNATIVES:
        return NormalForm((hull(raw, is_everything),), is_exact=False)
    return NormalForm(tuple(raw), is_exact)


def _merged(alternatives: list[Alternative], is_everything: IsEverything) -> list[Alternative]:
    """Fewer that match the same: two that differ in one column are one."""
    found = list(dict.fromkeys(alternatives))
    is_changed = len(found) > 1
    while is_changed:
        before = len(found)
        for column in sorted({at for one in found for at, _ in one.constraints}):
            found = _merged_by(column, found, is_everything)
        is_changed = len(found) < before
    return found


def _merged_by(column: int, alternatives: list[Alternative], is_everything: IsEverything) -> list[Alternative]:
    groups: dict[tuple[tuple[tuple[int, Constraint], ...], frozenset[Pattern]], list[Constraint]] = {}
    kept: list[Alternative] = []
    for one in alternatives:
        if (constraint := one.get(column)) is None:
            kept.append(one)
            continue
        rest = tuple(pair for pair in one.constraints if pair[0] != column)
        groups.setdefault((rest, constraint.patterns), []).append(constraint)
    for (rest, _), constraints in groups.items():
        joined = reduce(Constraint.join, constraints)
        alternative = Alternative(rest)
        kept.append(alternative if is_everything(column, joined) else alternative.with_constraint(column, joined))
    return kept


def _without_covered(alternatives: list[Alternative]) -> list[Alternative]:
    kept: list[Alternative] = []
    for at, one in enumerate(alternatives):
        later = alternatives[at + 1 :]
        if not any(one.implies(other) for other in kept) and not any(
            one.implies(other) and not other.implies(one) for other in later
        ):
            kept.append(one)
    return kept


def _met(leaves: Iterable[Leaf]) -> list[Leaf]:
    of_column: dict[int, list[Constraint]] = {}
    for leaf in leaves:
        of_column.setdefault(leaf.column, []).append(leaf.constraint)
    return [Leaf(column, first.meet(*others)) for column, (first, *others) in of_column.items()]


def _joined(leaves: Iterable[Leaf]) -> list[Leaf]:
    joined: dict[tuple[int, frozenset[Pattern]], Constraint] = {}
    for leaf in leaves:
        group = leaf.column, leaf.constraint.patterns
        mine = joined.get(group)
        joined[group] = leaf.constraint if mine is None else mine.join(leaf.constraint)
    return [Leaf(column, constraint) for (column, _), constraint in joined.items()]


def _size(form: NormalForm) -> int:
    return len(form.alternatives)


def _column(pair: tuple[int, Constraint]) -> int:
    return pair[0]
