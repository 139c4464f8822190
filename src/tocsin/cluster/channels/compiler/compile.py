"""From text and catalogue to Spark SQL: pure, no session needed.

A channel becomes one query that answers for all its subscriptions; `sets` and `joins` say how. Spark gets SQL that is
generated from the checked tree, never the author's text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from tocsin.cluster.channels.compiler import template
from tocsin.cluster.channels.compiler.check import check_query
from tocsin.cluster.channels.compiler.dialect import Source, sql_of
from tocsin.cluster.channels.compiler.either_new import branches_of
from tocsin.cluster.channels.compiler.exits import ExitPlan, ExitQueries, exit_queries, touched_sql
from tocsin.cluster.channels.compiler.near import spell_out
from tocsin.cluster.channels.compiler.scopes import Output
from tocsin.cluster.channels.compiler.sets import SetOriented, holding_query, payload_query
from tocsin.cluster.channels.compiler.template import CellSize, Part, Relation
from tocsin.cluster.channels.compiler.windows import bind_relations
from tocsin.cluster.channels.core.radius_classes import RadiusGroup
from tocsin.model.catalogue import Channel, ChannelKind, Dataset


@dataclass(frozen=True, slots=True)
class CompiledChannel:
    """A channel's query. It gives `subscription` BIGINT, `payload` STRING (JSON, NULLs included) and, with ONCE PER,
    `key` STRING. With exits, rows without a payload say which results may have ended: NULL stands for any."""

    parts: tuple[Part, ...]
    columns: tuple[Output, ...]
    #: All datasets the body reads; those whose changes it runs over; and, of these, those whose new rows may be
    #: results: all, if the body has no is_new.
    datasets: tuple[str, ...]
    windows: tuple[str, ...]
    new: tuple[str, ...]
    #: The same query, written for few subscriptions; set if a radius is a parameter.
    parts_for_few: tuple[Part, ...] = ()
    #: Whether its rows have a key.
    is_keyed: bool = False
    #: With exits: how changes end results, and the query that gives the keys that hold, with an empty payload.
    exits: ExitPlan | None = None
    holding: CompiledChannel | None = None

    @property
    def relations(self) -> tuple[Relation, ...]:
        return template.relations_of(self.parts)

    @property
    def watched(self) -> tuple[str, ...]:
        """The datasets whose changes it runs for. A removal of rows is no new row, and can end results all the same."""
        return self.windows if self.exits is None else self.datasets

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
    exits: ExitQueries | None = None
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


def _find_exits(draft: _Draft) -> None:
    if draft.channel.once is not None and draft.channel.once.with_exits:
        draft.exits = exit_queries(draft.tree, draft.keys, draft.source, draft.datasets)


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
STEPS: tuple[Callable[[_Draft], None], ...] = (
    _check,
    _find_datasets,
    _find_exits,
    _find_windows,
    _write_for_many,
    _write_for_few,
)


def compile_channel(channel: Channel, datasets: Mapping[str, Dataset]) -> CompiledChannel:
    """Raises StatementError, pointing into the body, if the channel can't run for all subscriptions at once."""
    draft = _Draft(channel, {dataset.name.lower(): dataset for dataset in datasets.values()})
    for step in STEPS:
        step(draft)
    new = draft.watched or draft.read
    compiled = CompiledChannel(
        draft.parts,
        draft.columns,
        draft.read,
        new,
        new,
        parts_for_few=draft.parts_for_few,
        is_keyed=bool(draft.keys),
    )
    if draft.exits is None:
        return compiled
    plan = draft.exits.plan
    windows = tuple(sorted({*new, *plan.by_row, *plan.by_check}))
    return replace(compiled, windows=windows, exits=plan, holding=_holding(draft, draft.exits, compiled))


def _holding(draft: _Draft, exits: ExitQueries, compiled: CompiledChannel) -> CompiledChannel:
    """The query that gives the keys that hold."""

    def written(*, few_subscriptions: bool) -> tuple[Part, ...]:
        writer = SetOriented(draft.source, draft.datasets, few_subscriptions)
        return template.split(holding_query(writer.query(exits.holding.copy()), draft.keys))

    few = written(few_subscriptions=True) if compiled.parts_for_few else ()
    return replace(compiled, parts=written(few_subscriptions=False), parts_for_few=few)


def _written(draft: _Draft, *, few_subscriptions: bool) -> tuple[Part, ...]:
    try:
        writer = SetOriented(draft.source, draft.datasets, few_subscriptions)
        queries = [writer.query(branch.copy()) for branch in draft.branches]
        touched = [] if draft.exits is None else [touched_sql(writer, one) for one in draft.exits.touched]
    except RecursionError:
        raise draft.source.error("nested too deeply", 0) from None
    rows = payload_query(_union(queries), [output.name for output in draft.columns], draft.keys)
    return template.split(_union([rows, *touched]))


def _union(queries: Sequence[str]) -> str:
    return queries[0] if len(queries) == 1 else "\nUNION ALL\n".join(f"({query})" for query in queries)


def compile_select(sql: str, datasets: Mapping[str, Dataset]) -> CompiledSelect:
    """Raises StatementError, with the position, if `sql` is not a query that may run."""
    catalogue = {dataset.name.lower(): dataset for dataset in datasets.values()}
    checked = check_query(sql, parameters=(), datasets=catalogue, channel=False)
    read = _datasets_of(checked.tree)
    bind_relations(checked.tree)
    return CompiledSelect(template.split(sql_of(spell_out(checked.tree))), checked.columns, read)


def _datasets_of(tree: exp.Expr) -> tuple[str, ...]:
    return tuple(sorted({table.name for table in tree.find_all(exp.Table)}))
