"""The workload of a scenario and a seed: brokers, backend subscriptions, and every subscriber's actions (pure).

All of it is drawn before the run begins, so that it is the same whatever the brokers do. Everything is in arrays, so
that a million subscribers fit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.simulator.chance import stream
from tocsin.simulator.interests import Popularity, draw_interests
from tocsin.simulator.living import LivingCity, draw_city, folded
from tocsin.simulator.scenario import Broker, BrokerLayout, Channel, Crowd, Fluctuation, Rate, Scenario

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]

#: No rate is below this part of its mean: normally distributed rates would sometimes be negative.
_LEAST_RATE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """One kind of subscribers' actions, in the order of time."""

    times_s: Floats
    subscribers: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Subscribers who exchange the subscription at a `slot` (a part of all they have) for another one."""

    times_s: Floats
    subscribers: Numbers
    slots: Floats
    wanted: Numbers


@dataclass(frozen=True, slots=True, eq=False)
class RateSteps:
    """Backend subscriptions whose rates rise (1) and fall back (-1), in the order of time."""

    times_s: Floats
    backends: Numbers
    steps: NDArray[np.int8]


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """Backend subscriptions are numbered by channel, `bounds[c]` to `bounds[c + 1]`, then by parameter value.

    `holds[offsets[i]:offsets[i + 1]]` are the subscriptions of subscriber `i`.
    """

    brokers: tuple[Broker, ...]
    channels: tuple[Channel, ...]
    bounds: NDArray[np.int64]
    rates_bytes_per_s: Floats
    rate_steps: RateSteps
    locations: Floats
    velocities: Floats
    size_m: Floats
    offsets: NDArray[np.int64]
    holds: Numbers
    logins: Moments
    logouts: Moments
    subscribing: Moments
    changes: Changes
    city: LivingCity

    @property
    def subscribers(self) -> int:
        return len(self.locations)

    @property
    def backends(self) -> int:
        return len(self.rates_bytes_per_s)

    def location(self, subscriber: int, now_s: float) -> tuple[float, float]:
        """A subscriber's location: on its journeys; or it walks straight on, and turns at the edges of the city."""
        if self.city.ways is not None:
            x, y = self.city.ways.location(subscriber, now_s)
        else:
            x, y = folded(self.locations[subscriber] + self.velocities[subscriber] * now_s, self.size_m)
        return float(x), float(y)


def draw(scenario: Scenario, seed: int) -> Workload:
    channels = scenario.all_channels()
    bounds = np.zeros(len(channels) + 1, np.int64)
    np.cumsum([one.subscriptions for one in channels], out=bounds[1:])
    subscribers = scenario.subscribers
    size_m = np.array([scenario.city.width_m, scenario.city.height_m])
    locations = _locations(subscribers.count, subscribers.crowds, size_m, seed)
    popularity = Popularity.of(subscribers, int(bounds[-1]), locations, size_m, seed)
    own = np.array([scenario.own_choices(one) for one in channels], np.int64)
    offsets, holds = draw_interests(subscribers, bounds, own, popularity, seed)
    logins, logouts = _coming_and_going(scenario, seed)
    return Workload(
        _brokers(scenario, seed),
        channels,
        bounds,
        _rates(channels, seed),
        _rate_steps(scenario.fluctuation, scenario.duration_s, _fluctuating(scenario.fluctuation, bounds, seed), seed),
        locations,
        _velocities(subscribers.count, subscribers.speed_m_per_s, seed),
        size_m,
        offsets,
        holds,
        logins,
        logouts,
        _moments(
            _between(subscribers.count, subscribers.subscribe_s, seed, "subscribing"),
            np.arange(subscribers.count, dtype=np.int32),
        ),
        _changes(scenario, popularity, seed),
        draw_city(scenario, size_m, seed),
    )


def _brokers(scenario: Scenario, seed: int) -> tuple[Broker, ...]:
    brokers = scenario.brokers
    if not isinstance(brokers, BrokerLayout):
        return tuple(sorted(brokers, key=lambda one: one.name))
    names = scenario.broker_names
    if brokers.layout == "random":
        shares = stream(seed, "brokers").random((brokers.count, 2))
    else:
        columns = int(np.ceil(np.sqrt(brokers.count)))
        rows = int(np.ceil(brokers.count / columns))
        numbers = np.arange(brokers.count)
        shares = np.stack([(numbers % columns + 0.5) / columns, (numbers // columns + 0.5) / rows], axis=1)
    locations = shares * [scenario.city.width_m, scenario.city.height_m]
    return tuple(
        Broker(
            name=name,
            location=(float(locations[number, 0]), float(locations[number, 1])),
            capacity=brokers.capacities[number % len(brokers.capacities)],
        )
        for number, name in enumerate(names)
    )


def _rates(channels: tuple[Channel, ...], seed: int) -> Floats:
    """Without those of channels whose subscriptions match reports."""
    drawn = [_drawn(one.rate, one.subscriptions, stream(seed, f"rates of {one.name}")) for one in channels]
    return np.concatenate(drawn)


def _drawn(rate: Rate | None, count: int, chance: np.random.Generator) -> Floats:
    if rate is None:
        return np.zeros(count)
    mean, std = rate.mean_bytes_per_s, rate.std_bytes_per_s
    if rate.shape == "lognormal":
        variance = np.log1p((std / mean) ** 2)
        return chance.lognormal(np.log(mean) - variance / 2, np.sqrt(variance), count)
    return np.maximum(chance.normal(mean, std, count), mean * _LEAST_RATE)


def _fluctuating(fluctuation: Fluctuation, bounds: NDArray[np.int64], seed: int) -> Numbers:
    """The backend subscriptions whose rates may change."""
    channels = len(bounds) - 1
    if fluctuation.channels is None:
        return np.arange(bounds[-1], dtype=np.int32)
    chosen = np.sort(stream(seed, "fluctuating channels").choice(channels, fluctuation.channels, replace=False))
    return np.concatenate([np.arange(bounds[one], bounds[one + 1], dtype=np.int32) for one in chosen])


def _rate_steps(fluctuation: Fluctuation, duration_s: float, candidates: Numbers, seed: int) -> RateSteps:
    chance = stream(seed, "fluctuation")
    size = round(fluctuation.share * len(candidates))
    rounds = int(np.ceil(duration_s / fluctuation.every_s)) if size else 0
    chosen, rises, falls = [], [], []
    for number in range(rounds):
        chosen.append(candidates[chance.choice(len(candidates), size, replace=False)])
        rise = number * fluctuation.every_s + chance.uniform(0, fluctuation.rises_within_s, size)
        rises.append(rise)
        falls.append(rise + chance.uniform(*fluctuation.falls_after_s, size))
    if not rounds:
        return RateSteps(np.zeros(0), np.zeros(0, np.int32), np.zeros(0, np.int8))
    times_s = np.concatenate(rises + falls)
    numbers = np.concatenate(chosen + chosen)
    steps = np.repeat(np.array([1, -1], np.int8), rounds * size)
    order = np.argsort(times_s, kind="stable")
    return RateSteps(times_s[order], numbers[order], steps[order])


def _locations(count: int, crowds: tuple[Crowd, ...], size_m: Floats, seed: int) -> Floats:
    # Another name would draw other locations: published figures depend on these.
    chance = stream(seed, "places")
    anywhere = chance.random((count, 2)) * size_m
    offsets = chance.normal(size=(count, 2))
    which = chance.random(count)
    locations = anywhere
    low = 0.0
    for crowd in sorted(crowds, key=lambda one: (one.location, one.spread_m, one.share)):
        inside = (which >= low) & (which < low + crowd.share)
        near = np.asarray(crowd.location) + offsets[inside] * crowd.spread_m
        locations[inside] = np.clip(near, 0.0, size_m)
        low += crowd.share
    return locations


def _velocities(count: int, speed_m_per_s: float, seed: int) -> Floats:
    angles = stream(seed, "directions").random(count) * 2 * np.pi
    return speed_m_per_s * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def _between(count: int, window_s: tuple[float, float], seed: int, purpose: str) -> Floats:
    low_s, high_s = window_s
    return low_s + stream(seed, purpose).random(count) * (high_s - low_s)


def _coming_and_going(scenario: Scenario, seed: int) -> tuple[Moments, Moments]:
    subscribers = scenario.subscribers
    at_s = _between(subscribers.count, subscribers.login_s, seed, "logins")
    who = np.arange(subscribers.count, dtype=np.int32)
    chance = stream(seed, "coming and going")
    logins, logouts = [(at_s, who)], []
    while subscribers.mean_online_s and len(who):
        at_s = at_s + chance.exponential(subscribers.mean_online_s, len(who))
        at_s, who = at_s[at_s < scenario.duration_s], who[at_s < scenario.duration_s]
        logouts.append((at_s, who))
        at_s = at_s + chance.exponential(subscribers.mean_offline_s, len(who))
        at_s, who = at_s[at_s < scenario.duration_s], who[at_s < scenario.duration_s]
        logins.append((at_s, who))
    return _joined(logins), _joined(logouts)


def _joined(parts: list[tuple[Floats, Numbers]]) -> Moments:
    if not parts:
        return Moments(np.zeros(0), np.zeros(0, np.int32))
    return _moments(np.concatenate([times for times, _ in parts]), np.concatenate([who for _, who in parts]))


def _moments(times_s: Floats, subscribers: Numbers) -> Moments:
    order = np.argsort(times_s, kind="stable")
    return Moments(times_s[order], subscribers[order])


def _changes(scenario: Scenario, popularity: Popularity, seed: int) -> Changes:
    subscribers = scenario.subscribers
    chance = stream(seed, "changes")
    count = int(chance.poisson(subscribers.count * subscribers.changes_per_hour * scenario.duration_s / 3600))
    times_s = np.sort(chance.random(count) * scenario.duration_s)
    who = chance.integers(subscribers.count, size=count).astype(np.int32)
    return Changes(times_s, who, chance.random(count), popularity.choose(chance, who))
