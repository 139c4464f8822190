"""A filter: what records have to be, in a form that can be matched, compared and written (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.filters.columns import FilterColumns
from tocsin.filters.normal_form import Alternative, Node, NormalForm, Row, normal_form, simplified
from tocsin.filters.words import MAX_CHARACTERS, MAX_DEPTH, MAX_PREDICATES
from tocsin.filters.writing import Written, write_alternatives, write_node


@dataclass(frozen=True, slots=True)
class Filter:
    """Made by `language.parse`. Filters of one schema with the same canonical text are equal, and match the same."""

    #: The canonical text. It means the same in Spark SQL, and parsing it gives this filter again.
    text: str
    columns: FilterColumns = field(compare=False, repr=False)
    #: A record that matches fits one of them. If there is a tree, records that fit one may still not match.
    alternatives: tuple[Alternative, ...] = field(compare=False)
    #: Set if the alternatives would be too many: it decides, and they are wider.
    tree: Node | None = field(compare=False, default=None)

    @property
    def is_exact(self) -> bool:
        """Whether the alternatives say everything."""
        return self.tree is None

    def matches(self, row: Row) -> bool:
        """Whether the condition is TRUE for a row of `rows.RowEncoder`."""
        if self.tree is not None:
            return self.tree.matches(row)
        for alternative in self.alternatives:  # noqa: SIM110 - a third faster than any(…)
            if alternative.matches(row):
                return True
        return False


def check_columns(one: Filter, columns: FilterColumns) -> None:
    """Filters know columns by number: one for another schema would match anything."""
    if one.columns is not columns and one.columns != columns:
        raise ValueError(f"the filter {one.text[:100]} was made for another schema")


def filter_of(node: Node, columns: FilterColumns) -> Filter | str | None:
    """None if nothing can match; if it is too large to be written, the reason."""
    tree = simplified(node, columns.is_everything, lambda child: write_node(child, columns).text)
    form: NormalForm = normal_form(tree, columns.is_everything)
    if not form.alternatives:
        return None
    if form.is_exact:
        in_order = sorted(form.alternatives, key=lambda one: write_alternatives((one,), columns).text)
        written = write_alternatives(in_order, columns)
        if not _fault(written):
            return Filter(written.text, columns, tuple(in_order))
    written = write_node(tree, columns)
    return _fault(written) or Filter(written.text, columns, form.alternatives, tree)


def _fault(written: Written) -> str:
    """Why a canonical text could not be parsed again; empty if it can."""
    limits = (
        (len(written.text), MAX_CHARACTERS, "characters"),
        (written.predicates, MAX_PREDICATES, "predicates"),
        (written.depth, MAX_DEPTH, "levels of parentheses"),
    )
    for size, limit, what in limits:
        if size > limit:
            return f"in canonical form the filter has {size:,} {what}; {limit:,} are allowed"
    return ""
