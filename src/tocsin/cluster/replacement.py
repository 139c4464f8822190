"""CREATE OR REPLACE CHANNEL: another definition takes the place of a channel, and subscriptions that fit it go on.

It happens between two runs, so each window is run by the old query or by the new one. Nothing is given up before the
change is stored, and one transaction stores it, with the subscriptions that end. A process that dies before that leaves
the old channel, and one that dies after it the new one. Whoever has not been notified by then is notified by the next.

Datasets that both queries watch keep their bounds. Those that only the new one watches begin at their current commits;
these bounds are set first, since the old query has no use for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.cluster.channels.compiler.compile import CompiledChannel
from tocsin.cluster.channels.compiler.fitting import all_go_on, may_go_on, reason_for_end
from tocsin.cluster.channels.state import ChannelState
from tocsin.cluster.channels.subscription_relation import ChannelSubscriptions
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.results.store import removals_of
from tocsin.model.catalogue import Channel, ChannelKind
from tocsin.model.schema import ResultColumn


@dataclass(frozen=True, slots=True)
class Replaced:
    """How many subscriptions go on, and how many have ended."""

    kept: int
    ended: int


def replace_channel(
    cluster: Cluster, channel: Channel, compiled: CompiledChannel, columns: tuple[ResultColumn, ...]
) -> Replaced:
    """`channel` is as `carried_over` has made it. Raises Unavailable if a run under way does not end."""
    state = cluster.executor.states[channel.name.lower()]
    # Subscribing waits for this, and for no run.
    with cluster.executor.between_runs(state), cluster.subscription_lock:
        _begin_watching(cluster, state, compiled)
        ends = _ending(cluster, state.channel, channel)
        anew = _in_another_form(cluster, state, channel, compiled, ends)
        try:
            with cluster.registry.ending(channel.name, ends, reason_for_end(channel)) as end:
                cluster.catalogue.alter_channel(channel, end, columns)
        except BaseException:
            if anew is not None:
                anew.close()
            raise
        _hand_over(state, channel, compiled, ends, anew)
        done = Replaced(len(state.subscriptions), len(ends))
    cluster.put_on_schedule(channel)
    if channel.kind is ChannelKind.CONTINUOUS:
        cluster.repetitive.run_once(channel.name)
    cluster.tell_ending()
    return done


def _begin_watching(cluster: Cluster, state: ChannelState, compiled: CompiledChannel) -> None:
    """Datasets that only the new query watches begin at their current commits, even if the channel watched them once
    and has old bounds there."""
    name = state.channel.name
    new = [one for one in compiled.windows if one not in state.compiled.windows]
    bounds = {(name, one): cluster.store[one].sequence for one in new}
    if compiled.exits is not None:
        # What the former query has found may not hold by the new one: all of it is checked.
        bounds |= {(name, removals_of(one)): 0 for one in compiled.datasets}
    if bounds:
        cluster.results.set_bounds(bounds)


def _ending(cluster: Cluster, before: Channel, after: Channel) -> list[int]:
    if all_go_on(before, after):
        return []
    chunks = cluster.registry.of_channel(before.name)
    return [one.id for chunk in chunks for one in chunk if not may_go_on(before, after, one.values)]


def _in_another_form(
    cluster: Cluster, state: ChannelState, channel: Channel, compiled: CompiledChannel, ends: list[int]
) -> ChannelSubscriptions | None:
    """The subscriptions that go on, read again, if the new query needs them in another form. It comes before anything
    is stored, because it may fail: the disk may be full."""
    if _form(state.channel, state.compiled) == _form(channel, compiled):
        return None
    executor, gone = cluster.executor, state.failed.union(ends)
    anew = ChannelSubscriptions(executor.spark, channel, executor.scratch, compiled.radius_parameters)
    for chunk in cluster.registry.of_channel(channel.name):
        anew.add([one for one in chunk if one.id not in gone])
    return anew


def _hand_over(
    state: ChannelState,
    channel: Channel,
    compiled: CompiledChannel,
    ends: list[int],
    anew: ChannelSubscriptions | None,
) -> None:
    """From now on runs are by the new query."""
    former = state.subscriptions
    former.remove(one for one in ends if one not in state.failed)
    state.failed.difference_update(ends)
    state.channel, state.compiled = channel, compiled
    if anew is not None:
        state.subscriptions = anew
        former.close()
    # Whatever failed, it failed with the former query.
    state.strikes.clear()
    state.unchecked = None
    state.last_error = state.pause_reason


def _form(channel: Channel, compiled: CompiledChannel) -> tuple[object, object]:
    return [(one.name, one.type) for one in channel.parameters], compiled.radius_parameters
