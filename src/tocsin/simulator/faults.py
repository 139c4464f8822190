"""Faults of a scenario whose single values are all valid: unknown names, impossible sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tocsin.balancing.placement import PlacementPolicy
from tocsin.simulator.combinations import migrations, placements, shuffles
from tocsin.simulator.scenario import Balancing, BrokerLayout, ChannelLayout, Scenario

#: A location in a scenario: keys, and numbers for elements of lists.
Path = tuple[str | int, ...]
Fault = tuple[Path, str]

#: A run with more samples than this is a mistake in a unit.
_MAX_SAMPLES = 1_000_000


def faults(scenario: Scenario, more_placements: Mapping[str, PlacementPolicy] | None = None) -> Iterator[Fault]:
    """The location of each fault, and what is wrong there."""
    yield from _times(scenario)
    yield from _names(scenario)
    yield from _living(scenario)
    yield from _sites(scenario)
    yield from _subscribers(scenario)
    yield from _fluctuation(scenario)
    yield from _failures(scenario)
    yield from _balancing(scenario.balancing, {**placements(), **(more_placements or {})})


def _times(scenario: Scenario) -> Iterator[Fault]:
    if scenario.sample_every_s > scenario.duration_s:
        yield ("sample_every_s",), f"is longer than the run, {scenario.duration_s:g} s"
    if scenario.duration_s / scenario.sample_every_s > _MAX_SAMPLES:
        yield ("sample_every_s",), f"makes more than {_MAX_SAMPLES:,} samples of {scenario.duration_s:g} s"
    if scenario.network.dead_after_s <= scenario.network.heartbeat_every_s:
        yield (
            ("network", "dead_after_s"),
            f"has to be longer than heartbeat_every_s, {scenario.network.heartbeat_every_s:g}",
        )


def _sites(scenario: Scenario) -> Iterator[Fault]:
    if scenario.sites is None:
        if scenario.balancing.reach_ms is not None:
            yield ("balancing", "reach_ms"), "needs [sites]: without them there are no round trips"
        return
    matrix = scenario.sites.round_trips_ms
    for number, row in enumerate(matrix):
        if len(row) != len(matrix):
            yield ("sites", "round_trips_ms", number), f"has {len(row)} round trips; there are {len(matrix)} sites"
            return
        if any(row[other] != matrix[other][number] for other in range(number)):
            yield ("sites", "round_trips_ms", number), "differs from the way back"
    if scenario.sites.access_ms[0] > scenario.sites.access_ms[1]:
        yield ("sites", "access_ms"), _reversed(*scenario.sites.access_ms)


def _fluctuation(scenario: Scenario) -> Iterator[Fault]:
    low, high = scenario.fluctuation.falls_after_s
    if low > high:
        yield ("fluctuation", "falls_after_s"), _reversed(low, high)
    channels = len(scenario.all_channels())
    if scenario.fluctuation.channels is not None and scenario.fluctuation.channels > channels:
        yield ("fluctuation", "channels"), f"is more than there are, {channels}"


def _names(scenario: Scenario) -> Iterator[Fault]:
    if not isinstance(scenario.brokers, BrokerLayout):
        if not scenario.brokers:
            yield ("brokers",), "is empty; there has to be a broker"
        yield from _twice("brokers", [one.name for one in scenario.brokers])
    if not isinstance(scenario.channels, ChannelLayout):
        if not scenario.channels:
            yield ("channels",), "is empty; there has to be a channel"
        yield from _twice("channels", [one.name for one in scenario.channels])


def _twice(kind: str, names: list[str]) -> Iterator[Fault]:
    counts = Counter(names)
    for number, name in enumerate(names):
        if counts[name] > 1:
            yield (kind, number, "name"), "is the name of more than one"
            return


def _living(scenario: Scenario) -> Iterator[Fault]:
    if scenario.subscribers.journeys is not None and not scenario.city.districts:
        yield ("subscribers", "journeys"), "lead nowhere: the city needs districts"
    if scenario.reports is not None and scenario.reports.size_bytes[0] > scenario.reports.size_bytes[1]:
        yield ("reports", "size_bytes"), _reversed(*scenario.reports.size_bytes)
    if isinstance(scenario.channels, ChannelLayout):
        return
    for number, channel in enumerate(scenario.channels):
        matching, path = channel.reports, ("channels", number, "reports")
        if (channel.rate is None) == (matching is None):
            yield ("channels", number), "needs either rate or reports"
        if matching is None:
            continue
        if scenario.reports is None:
            yield path, "match nothing: the scenario has no [reports]"
        if (matching.where == "anywhere") == bool(matching.radii_m):
            yield (*path, "radii_m"), "go with where = 'location' or 'person', and only with them"
        if matching.where == "location" and not scenario.city.districts:
            yield (*path, "where"), "is no location: the city needs districts"
        if matching.where == "person":
            if scenario.subscribers.journeys is None:
                yield (*path, "where"), "is nowhere: the subscribers need journeys"
            if scenario.subscribers.channels is None:
                yield ("subscribers", "channels"), "has to be given if subscriptions are a person's own"


def _subscribers(scenario: Scenario) -> Iterator[Fault]:
    subscribers = scenario.subscribers
    channels = scenario.all_channels()
    backends = sum(one.subscriptions for one in channels)
    for key, (low, high) in {
        "login_s": subscribers.login_s,
        "subscribe_s": subscribers.subscribe_s,
        "subscriptions": subscribers.subscriptions,
        "channels": subscribers.channels or (0, 0),
    }.items():
        if low > high:
            yield ("subscribers", key), _reversed(low, high)
    if subscribers.channels is None:
        if subscribers.subscriptions[1] > backends:
            yield ("subscribers", "subscriptions"), f"is more than the {backends} that all channels have"
    else:
        fewest = min((scenario.own_choices(one) or one.subscriptions for one in channels), default=0)
        if subscribers.channels[1] > len(channels):
            yield ("subscribers", "channels"), f"is more than there are, {len(channels)}"
        if subscribers.subscriptions[1] > fewest:
            yield ("subscribers", "subscriptions"), f"is more than the {fewest} that some channel has"
        if subscribers.popularity in ("communities", "local"):
            yield ("subscribers", "channels"), "can't be chosen by communities; leave one of the two out"
    if subscribers.popularity in ("communities", "local") and subscribers.groups > backends:
        yield ("subscribers", "groups"), f"is more than there are subscriptions, {backends}"
    if subscribers.mean_offline_s and not subscribers.mean_online_s:
        yield ("subscribers", "mean_online_s"), "has to be given with mean_offline_s"
    if (share := sum(one.share for one in subscribers.crowds)) > 1 + 1e-9:
        yield ("subscribers", "crowds"), f"have shares that sum to {share:g}, which is more than 1"


def _failures(scenario: Scenario) -> Iterator[Fault]:
    names = set(scenario.broker_names)
    ends: dict[str, float] = {}
    for number, one in sorted(enumerate(scenario.failures), key=lambda pair: (pair[1].broker, pair[1].at_s)):
        if one.broker not in names:
            yield ("failures", number, "broker"), f"is no broker; there are: {_some(scenario.broker_names)}"
        if one.at_s > scenario.duration_s:
            yield ("failures", number, "at_s"), f"is after the end of the run, {scenario.duration_s:g}"
        if one.at_s <= ends.get(one.broker, -1.0):
            yield ("failures", number, "at_s"), "is while the broker is down already"
        ends[one.broker] = float("inf") if one.back_after_s is None else one.at_s + one.back_after_s


def _balancing(balancing: Balancing, known_placements: Mapping[str, PlacementPolicy]) -> Iterator[Fault]:
    for key, chosen, known, may_be_off in (
        ("placement", balancing.placement, known_placements, False),
        ("migration", balancing.migration, migrations(), True),
        ("shuffle", balancing.shuffle, shuffles(), True),
    ):
        if chosen not in known and (chosen or not may_be_off):
            off = ', or "" for none' if may_be_off else ""
            yield ("balancing", key), f"is not a {key} policy; there are: {', '.join(sorted(known))}{off}"
    if balancing.shuffle and balancing.migration and balancing.gamma < balancing.alpha:
        yield (
            ("balancing", "gamma"),
            f"is below alpha, {balancing.alpha:g}: the shuffle would leave migration nothing to do",
        )


def _reversed(low: float, high: float) -> str:
    return f"is the wrong way round: {low:g} is more than {high:g}"


def _some(names: Iterable[str]) -> str:
    shown = list(names)
    return ", ".join(shown[:10]) + (f" … ({len(shown)} in all)" if len(shown) > 10 else "")
