"""A scenario: brokers, subscribers, their interests, failures, and the balancing of load (pure values).

The order in which brokers, channels, crowds or failures are listed has no effect.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tocsin.coordinator.load.stages import Rule
from tocsin.model.location import Location

_Seconds = Annotated[float, Meta(ge=0)]
_SomeSeconds = Annotated[float, Meta(gt=0)]
_Metres = Annotated[float, Meta(ge=0)]
_Share = Annotated[float, Meta(ge=0, le=1)]
_Positive = Annotated[float, Meta(gt=0)]
_NotNegative = Annotated[float, Meta(ge=0)]
_Count = Annotated[int, Meta(ge=0)]
_Some = Annotated[int, Meta(ge=1)]
#: Names of brokers and channels, as on the wire.
_Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.@~-]{1,64}$")]
_RoundTrip = Annotated[float, Meta(ge=0.01, le=5_000)]
_Access = Annotated[float, Meta(ge=0, le=1_000)]
#: The fewest and the most, both included.
_CountRange = tuple[_Count, _Count]
_SecondsRange = tuple[_Seconds, _Seconds]


class _Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file. An unknown key is an error."""


class City(_Section, frozen=True, kw_only=True):
    """The plane that everybody is on."""

    width_m: Annotated[float, Meta(gt=0)] = 20_000.0
    height_m: Annotated[float, Meta(gt=0)] = 20_000.0
    districts: _Count = 0
    """How many there are, at locations that the seed picks: people with journeys live, work and run errands there."""
    district_spread_m: _Metres = 500.0


class NetworkTiming(_Section, frozen=True, kw_only=True):
    """How long messages take one way, and how soon silence is noticed."""

    subscriber_delay_s: _Seconds = 0.02
    coordinator_delay_s: _Seconds = 0.002
    cluster_delay_s: _Seconds = 0.005
    heartbeat_every_s: _SomeSeconds = 1.0
    dead_after_s: _SomeSeconds = 5.0
    retry_after_s: _SomeSeconds = 1.0
    """A subscriber that has lost its broker, or found none, tries again within this time."""


class Broker(_Section, frozen=True, kw_only=True):
    name: _Name
    location: Location | None = None
    capacity: _Positive = 1.0


class Sites(_Section, frozen=True, kw_only=True):
    """Brokers are at the sites in turn, and each subscriber at one that the seed picks. All of them measure round trips
    and find their network coordinates."""

    round_trips_ms: Annotated[tuple[tuple[_RoundTrip, ...], ...], Meta(min_length=1)]
    """From each site to each; on the diagonal, within the site."""
    access_ms: tuple[_Access, _Access] = (1.0, 20.0)
    """What a subscriber's own way adds: the least and the most."""
    jitter: _Share = 0.1
    """Up to how much longer a ping takes."""


class BrokerLayout(_Section, frozen=True, kw_only=True):
    """`count` brokers, named by number, with these capacities in turn."""

    count: _Some
    layout: Literal["grid", "random"] = "grid"
    capacities: Annotated[tuple[_Positive, ...], Meta(min_length=1)] = (1.0,)


class Rate(_Section, frozen=True, kw_only=True):
    """The rates of backend subscriptions. Each has its own, drawn once; `noise` varies it from run to run."""

    shape: Literal["normal", "lognormal"] = "normal"
    mean_bytes_per_s: _Positive
    std_bytes_per_s: _NotNegative = 0.0
    noise: _Share = 0.0


class Reports(_Section, frozen=True, kw_only=True):
    """What happens in a living city. Each type has a source that roams: on average, its next report is `roams_m` away
    from its last. Reports come at random moments."""

    per_s: _Positive
    size_bytes: tuple[_Some, _Some] = (200, 700)
    types: _Some = 8
    roams_m: _Metres = 600.0


class Matching(_Section, frozen=True, kw_only=True):
    """The reports that subscriptions of a channel match: anywhere, near a district's centre, or near the subscriber.

    There is a subscription for each person or district, radius and type, as far as the channel has them. Each report
    that matches makes so many `results`.
    """

    where: Literal["anywhere", "location", "person"] = "anywhere"
    radii_m: tuple[_Positive, ...] = ()
    by_type: bool = False
    results: _Some = 1


class Channel(_Section, frozen=True, kw_only=True):
    """`subscriptions`: how many parameter values there are to subscribe to. They have a `rate`, or bring the `reports`
    that they match; then their number follows from that."""

    name: _Name
    period_s: _SomeSeconds
    subscriptions: _Some = 1
    rate: Rate | None = None
    reports: Matching | None = None


class ChannelLayout(_Section, frozen=True, kw_only=True):
    """`count` channels, named by number, with these periods in turn."""

    count: _Some
    periods_s: Annotated[tuple[_SomeSeconds, ...], Meta(min_length=1)]
    subscriptions: _Some
    rate: Rate


class Crowd(_Section, frozen=True, kw_only=True):
    """Some of the subscribers live around a location."""

    location: Location
    spread_m: _Metres
    share: _Share


class Journeys(_Section, frozen=True, kw_only=True):
    """Subscribers go from one of their addresses to the next, and stay at each for a while. Who works far from home
    drives."""

    stays_s: _SecondsRange = (60.0, 900.0)
    walks_m_per_s: tuple[_Positive, _Positive] = (1.1, 1.8)
    drives_m_per_s: tuple[_Positive, _Positive] = (6.0, 14.0)
    walkable_m: _Metres = 1500.0


class Subscribers(_Section, frozen=True, kw_only=True):
    """Each logs in at a moment within `login_s`, and makes all its subscriptions at a moment within `subscribe_s`.

    With `channels`, each picks that many channels and makes `subscriptions` in every one of them; without, in all
    channels together. Subscribers outside crowds live anywhere. Moments and numbers are drawn uniformly.
    """

    count: _Some
    crowds: tuple[Crowd, ...] = ()
    speed_m_per_s: _NotNegative = 0.0
    journeys: Journeys | None = None
    """Instead of crowds and a speed."""
    login_s: _SecondsRange = (0.0, 0.0)
    subscribe_s: _SecondsRange = (0.0, 0.0)
    subscriptions: _CountRange
    channels: _CountRange | None = None
    popularity: Literal["uniform", "zipf", "communities", "local"] = "uniform"
    exponent: _NotNegative = 1.0
    """For `zipf`: 0 is uniform."""
    groups: _Some = 1
    """For `communities`: each has its own part of the subscriptions, and its members live anywhere. For `local`, those
    who live in the same area of the city are a community."""
    inside: _Share = 1.0
    """For `communities` and `local`: the share of a subscriber's subscriptions that is from its community's part."""
    mean_online_s: _Seconds = 0.0
    """How long a subscriber stays online, on average; 0 is for good."""
    mean_offline_s: _Seconds = 0.0
    changes_per_hour: _NotNegative = 0.0
    """How often each subscriber exchanges one subscription for another."""


class Fluctuation(_Section, frozen=True, kw_only=True):
    """Every so often a share of the backend subscriptions is chosen: their rates rise soon, and fall back later."""

    share: _Share = 0.0
    channels: _Some | None = None
    """Only subscriptions of so many channels, which the seed picks, are chosen; None: of all channels."""
    every_s: _SomeSeconds = 60.0
    rises_within_s: _Seconds = 180.0
    falls_after_s: _SecondsRange = (240.0, 360.0)
    factor: _NotNegative = 2.0


class Failure(_Section, frozen=True, kw_only=True):
    """A broker dies, and begins again from its store after a while, or never."""

    broker: _Name
    at_s: _Seconds
    back_after_s: _SomeSeconds | None = None


class Balancing(_Section, frozen=True, kw_only=True):
    """The stages: see `coordinator.load.controller`. A stage whose policy has no name is off."""

    rule: Rule = Rule.WORTHWHILE
    least_worth: _NotNegative = 5.0
    rates: Literal["lasting", "window"] = "lasting"
    placement: str = "nearest"
    migration: str = "group"
    shuffle: str = "sharing"
    alpha: _NotNegative = 0.15
    beta: _NotNegative = 0.0
    gamma: _NotNegative = 0.5
    theta: _NotNegative = 0.0
    hits: _Some = 3
    shuffle_hits: _Some = 2
    settle_s: _Seconds = 60.0
    rest_s: _Seconds = 300.0
    idle_below: _Share = 0.1
    max_moves: _Some | None = None
    every_s: _SomeSeconds = 10.0
    begins_at_s: _Seconds = 0.0
    reach_ms: _Positive | None = None
    rates_window_s: _SomeSeconds = 60.0
    moves_in_flight: _Some = 100
    moves_per_s: _Positive = 50.0
    """At most this many moves are under way, and begin each second, for each source and each destination."""


class Scenario(_Section, frozen=True, kw_only=True):
    name: _Name
    title: str = ""
    seed: _Count = 1
    duration_s: _SomeSeconds
    sample_every_s: _SomeSeconds = 10.0
    city: City = City()
    reports: Reports | None = None
    network: NetworkTiming = NetworkTiming()
    sites: Sites | None = None
    brokers: tuple[Broker, ...] | BrokerLayout
    channels: tuple[Channel, ...] | ChannelLayout
    subscribers: Subscribers
    fluctuation: Fluctuation = Fluctuation()
    failures: tuple[Failure, ...] = ()
    balancing: Balancing = Balancing()

    @property
    def broker_names(self) -> tuple[str, ...]:
        if isinstance(self.brokers, BrokerLayout):
            return _numbered("broker", self.brokers.count)
        return tuple(sorted(one.name for one in self.brokers))

    def all_channels(self) -> tuple[Channel, ...]:
        """In the order of their names."""
        channels = self.channels
        if not isinstance(channels, ChannelLayout):
            return tuple(self._sized(one) for one in sorted(channels, key=lambda one: one.name))
        return tuple(
            Channel(
                name=name,
                period_s=channels.periods_s[number % len(channels.periods_s)],
                subscriptions=channels.subscriptions,
                rate=channels.rate,
            )
            for number, name in enumerate(_numbered("channel", channels.count))
        )

    def own_choices(self, channel: Channel) -> int:
        """How many of the channel's subscriptions are a subscriber's own; 0 if everybody may make all of them."""
        if channel.reports is None or channel.reports.where != "person":
            return 0
        return self._sized(channel).subscriptions // self.subscribers.count

    def _sized(self, channel: Channel) -> Channel:
        matching = channel.reports
        if matching is None:
            return channel
        wheres = {"anywhere": 1, "location": self.city.districts, "person": self.subscribers.count}[matching.where]
        types = self.reports.types if matching.by_type and self.reports else 1
        subscriptions = max(1, wheres * max(1, len(matching.radii_m)) * types)
        return msgspec.structs.replace(channel, subscriptions=subscriptions)


def _numbered(kind: str, count: int) -> tuple[str, ...]:
    """Names whose order is that of their numbers.

    >>> _numbered("broker", 10)[:2]
    ('broker-01', 'broker-02')
    """
    digits = len(str(count))
    return tuple(f"{kind}-{number:0{digits}d}" for number in range(1, count + 1))
