"""Statements' answers, and the rows of SHOW and DESCRIBE, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, fields
from typing import Any, assert_never

from tocsin.cluster.channels.compiler import statements as st
from tocsin.cluster.channels.core.cost import Cost
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.status import condition_of, definition_of
from tocsin.model.catalogue import Parameter
from tocsin.model.grants import Action, Grant


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement did, in words, and its rows, if any."""

    message: str
    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] = field(default=())
    #: True when there were more rows than a SELECT may return.
    truncated: bool = False


def show(cluster: Cluster, statement: st.Show) -> Answer:
    listing = statement.listing
    match listing:
        case st.Listing.DATASETS:
            columns: tuple[str, ...] = ("dataset", "kind", "rows", "commits", "primary_key")
            rows: list[tuple[Any, ...]] = [
                (one.dataset.name, one.dataset.kind, len(one), one.sequence, ", ".join(one.dataset.schema.primary_key))
                for one in cluster.store
            ]
        case st.Listing.FEEDS:
            columns = ("feed", "dataset", "source", "location")
            rows = [(one.name, one.dataset, one.source, one.location) for one in cluster.catalogue.feeds.values()]
        case st.Listing.CHANNELS:
            what = ("channel", "kind", "period_s", "is_paused", "parameters", "subscriptions", "runs")
            columns = (*what, *(one.name for one in fields(Cost)))
            rows = [
                (
                    state.channel.name,
                    state.channel.kind,
                    state.channel.period_s,
                    state.is_paused,
                    _signature(state.channel.parameters),
                    len(state.subscriptions),
                    state.runs,
                    *astuple(cluster.executor.costs.so_far(state)[0]),
                )
                for state in cluster.executor.states.values()
            ]
        case st.Listing.BROKERS:
            columns = ("broker",)
            rows = [(name,) for name in cluster.registry.brokers()]
        case st.Listing.SUBSCRIPTIONS:
            columns = ("channel", "subscriptions", "failed")
            failed = cluster.registry.failed_counts()
            rows = [(name, count, failed.get(name, 0)) for name, count in cluster.registry.counts().items()]
        case st.Listing.GRANTS:
            columns = ("on", "action", "to", "grantee")
            rows = [
                (_named(cluster, one), one.action, one.grantee_kind, one.grantee)
                for one in cluster.grants.all()
                if statement.on is None or (one.action, one.on) == (statement.on[0], statement.on[1].lower())
            ]
        case st.Listing.PUBLISHERS:
            columns = ("publisher", "feeds")
            granted = [one for one in cluster.grants.all() if one.action is Action.PUBLISH]
            rows = [
                (name, ", ".join(_named(cluster, one) for one in granted if one.grantee == name))
                for name in cluster.grants.publishers.values()
            ]
        case _ as never:
            assert_never(never)
    return Answer(f"{len(rows)} {listing.lower()}", columns, sorted(rows))


def describe(cluster: Cluster, statement: st.Describe) -> Answer:
    match statement.kind:
        case st.Kind.DATASET:
            dataset = cluster.catalogue.dataset(statement.name)
            key = {name.lower() for name in dataset.schema.primary_key}
            rows: list[tuple[Any, ...]] = [
                (one.name, one.type, one.nullable, one.name.lower() in key) for one in dataset.schema
            ]
            return Answer(f"dataset {dataset.name}", ("column", "type", "nullable", "key"), rows)
        case st.Kind.FEED:
            feed = cluster.catalogue.feed(statement.name)
            rows = [("dataset", feed.dataset), ("source", feed.source), ("location", feed.location)]
            return Answer(f"feed {feed.name}", ("property", "value"), rows)
        case st.Kind.CHANNEL:
            state = cluster.executor.states[cluster.catalogue.channel(statement.name).name.lower()]
            rows = [
                *definition_of(state).items(),
                ("parameters", _signature(state.channel.parameters)),
                ("datasets", ", ".join(state.compiled.datasets)),
                ("watches", ", ".join(state.compiled.windows)),
                *(
                    [("exits_by_row", ", ".join(exits.by_row)), ("exits_by_check", ", ".join(exits.by_check))]
                    if (exits := state.compiled.exits) is not None
                    else []
                ),
                *condition_of(cluster, state, cluster.registry.failed_counts()).items(),
                ("body", state.channel.body),
            ]
            return Answer(f"channel {state.channel.name}", ("property", "value"), rows)
        case _ as never:
            assert_never(never)


def _named(cluster: Cluster, grant: Grant) -> str:
    """The name of the channel or feed, as it was created."""
    known = cluster.catalogue.channels if grant.action is Action.SUBSCRIBE else cluster.catalogue.feeds
    found = known.get(grant.on)
    return grant.on if found is None else found.name


def _signature(parameters: Sequence[Parameter]) -> str:
    return ", ".join(map(str, parameters))
