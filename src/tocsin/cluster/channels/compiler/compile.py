"""From text and catalogue to Spark SQL: pure, no session needed.

A channel becomes one query that answers for all its subscriptions; `sets` and `joins` say how. Spark gets SQL that is
generated from the checked tree, never the author's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from tocsin.cluster.channels.compiler import template
from tocsin.cluster.channels.compiler.check import check_query
from tocsin.cluster.channels.compiler.dialect import Source, sql_of
from tocsin.cluster.channels.compiler.either_new import branches_of
from tocsin.cluster.channels.compiler.near import spell_out
from tocsin.cluster.channels.compiler.scopes import Output
from tocsin.cluster.channels.compiler.sets import SetOriented, payload_query
from tocsin.cluster.channels.compiler.template import CellSize, Part, Relation
from tocsin.cluster.channels.compiler.windows import bind_relations
from tocsin.cluster.channels.core.radius_classes import RadiusGroup
from tocsin.model.catalogue import Channel, ChannelKind, Dataset


@dataclass(frozen=True, slots=True)
class CompiledChannel:
    """A channel's query. It gives `subscription` BIGINT, `payload` STRING (JSON, NULLs included) and, with ONCE PER,
    `key` STRING."""

    parts: tuple[Part, ...]
    columns: tuple[Output, ...]
    #: All datasets the body reads, and those whose new rows it runs over: all, if the body has no is_new.
    datasets: tuple[str, ...]
    windows: tuple[str, ...]
    #: The same query, written for few subscriptions; set if a radius is a parameter.
    parts_for_few: tuple[Part, ...] = ()
    #: Whether its rows have a key.
    is_keyed: bool = False

    @property
    def relations(self) -> tuple[Relation, ...]:
        return template.relations_of(self.parts)

    @property
    def radius_parameters(self) -> tuple[str, ...]:
        """The parameters whose values, over all subscriptions, determine cell sizes."""
        return tuple(sorted({part.parameter for part in self.parts if isinstance(part, CellSize)}))

    def render(self, names: Mapping[Relation, str], cell_sizes: Mapping[str, float], *, broadcast: bool = True) -> str:
        """The SQL. `broadcast=False` leaves out the hints, for windows that are too large to copy to every executor."""
        return template.render(self.parts, names, cell_sizes, broadcast=broadcast)

    def render_groups(
        self, names: Mapping[Relation, str], groups: Sequence[RadiusGroup], *, broadcast: bool = True
    ) -> str:
        """The SQL for subscriptions that are split by radius: one query with a branch for each group."""
        return "\nUNION ALL\n".join(
            f"({branch})" if len(groups) > 1 else branch
            for branch in (self._branch(names, group, broadcast) for group in groups)
        )

    def _branch(self, names: Mapping[Relation, str], group: RadiusGroup, broadcast: bool) -> str:
        if group.condition:
            mine = f"(SELECT * FROM {names[template.SUBSCRIPTIONS]} WHERE {group.condition})"
            names = {**names, template.SUBSCRIPTIONS: mine}
        if group.is_few:
            # The hint is on the subscriptions, which are few however large the window is.
            return template.render(self.parts_for_few, names, group.cell_sizes, broadcast=True)
        return self.render(names, group.cell_sizes, broadcast=broadcast)


@dataclass(frozen=True, slots=True)
class CompiledSelect:
    """A one-off query; all its relations are FULL."""

    parts: tuple[Part, ...]
    columns: tuple[Output, ...]
    datasets: tuple[str, ...]

    @property
    def relations(self) -> tuple[Relation, ...]:
        return template.relations_of(self.parts)

    def render(self, names: Mapping[Relation, str]) -> str:
        return template.render(self.parts, names, {}, broadcast=False)


@dataclass(slots=True)
class _Draft:
    """A channel on its way from text to SQL, with everything that the steps have found so far."""

    channel: Channel
    datasets: Mapping[str, Dataset]
    source: Source = field(init=False)
    tree: exp.Expr = field(init=False)
    #: The queries that together give the channel's rows; mostly one.
    branches: list[exp.Expr] = field(default_factory=list)
    columns: tuple[Output, ...] = ()
    keys: tuple[Output, ...] = ()
    read: tuple[str, ...] = ()
    watched: tuple[str, ...] = ()
    parts: tuple[Part, ...] = ()
    parts_for_few: tuple[Part, ...] = ()


def _check(draft: _Draft) -> None:
    """Let only known, harmless constructs pass, and qualify each column with its relation."""
    channel = draft.channel
    keys = "" if channel.once is None else channel.once.keys
    checked = check_query(channel.body, parameters=channel.parameters, datasets=draft.datasets, channel=True, keys=keys)
    draft.source, draft.tree, draft.columns, draft.keys = checked.source, checked.tree, checked.columns, checked.keys


def _find_datasets(draft: _Draft) -> None:
    draft.read = _datasets_of(draft.tree)
    if not draft.read:
        raise draft.source.error("a channel must read at least one dataset", 0)


def _find_windows(draft: _Draft) -> None:
    """Which relations `is_new` restricts to new rows."""
    draft.branches = branches_of(draft.tree) if draft.keys else [draft.tree]
    draft.watched = tuple(sorted({name for branch in draft.branches for name in bind_relations(branch)}))
    if not draft.watched and draft.channel.kind is ChannelKind.CONTINUOUS:
        message = "a CONTINUOUS channel runs on new records: say which with is_new(dataset)"
        raise draft.source.error(message, 0)


def _write_for_many(draft: _Draft) -> None:
    """One query for all subscriptions, whose parameters become columns of a relation."""
    draft.parts = _written(draft, few_subscriptions=False)


def _write_for_few(draft: _Draft) -> None:
    if any(isinstance(part, CellSize) for part in draft.parts):
        draft.parts_for_few = _written(draft, few_subscriptions=True)


#: The steps from text to SQL, in order.
STEPS: tuple[Callable[[_Draft], None], ...] = (_check, _find_datasets, _find_windows, _write_for_many, _write_for_few)


def compile_channel(channel: Channel, datasets: Mapping[str, Dataset]) -> CompiledChannel:
    """Raises StatementError, pointing into the body, if the channel can't run for all subscriptions at once."""
    draft = _Draft(channel, {dataset.name.lower(): dataset for dataset in datasets.values()})
    for step in STEPS:
        step(draft)
    return CompiledChannel(
        draft.parts,
        draft.columns,
        draft.read,
        draft.watched or draft.read,
        parts_for_few=draft.parts_for_few,
        is_keyed=bool(draft.keys),
    )


def _written(draft: _Draft, *, few_subscriptions: bool) -> tuple[Part, ...]:
    try:
        writer = SetOriented(draft.source, draft.datasets, few_subscriptions)
        queries = [writer.query(branch.copy()) for branch in draft.branches]
    except RecursionError:
        raise draft.source.error("nested too deeply", 0) from None
    rows = queries[0] if len(queries) == 1 else "\nUNION ALL\n".join(f"({query})" for query in queries)
    return template.split(payload_query(rows, [output.name for output in draft.columns], draft.keys))


def compile_select(sql: str, datasets: Mapping[str, Dataset]) -> CompiledSelect:
    """Raises StatementError, with the position, if `sql` is not a query that may run."""
    catalogue = {dataset.name.lower(): dataset for dataset in datasets.values()}
    checked = check_query(sql, parameters=(), datasets=catalogue, channel=False)
    read = _datasets_of(checked.tree)
    bind_relations(checked.tree)
    return CompiledSelect(template.split(sql_of(spell_out(checked.tree))), checked.columns, read)


def _datasets_of(tree: exp.Expr) -> tuple[str, ...]:
    return tuple(sorted({table.name for table in tree.find_all(exp.Table)}))
