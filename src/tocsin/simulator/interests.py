"""Subscribers' interests: how popular subscriptions are, and which ones each subscriber has (pure)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.simulator.chance import stream
from tocsin.simulator.scenario import Subscribers

Floats = NDArray[np.float64]
Numbers = NDArray[np.int32]
Wide = NDArray[np.int64]

#: If this many rounds of drawing do not give enough different subscriptions, the missing ones are taken in order.
_MAX_ROUNDS = 60


@dataclass(frozen=True, slots=True, eq=False)
class Popularity:
    """How likely subscribers are to want each backend subscription. `ranks` lists them, the most popular first;
    `communities` has the community of each subscriber, or nothing if there are none."""

    cumulated: Floats
    ranks: Numbers
    groups: int
    communities: Numbers
    inside: float

    @staticmethod
    def of(subscribers: Subscribers, backends: int, locations: Floats, size_m: Floats, seed: int) -> Popularity:
        exponent = subscribers.exponent if subscribers.popularity == "zipf" else 0.0
        weights = np.arange(1, backends + 1, dtype=np.float64) ** -exponent
        ranks = stream(seed, "popularity").permutation(backends).astype(np.int32)
        groups, communities = 1, np.zeros(0, np.int32)
        if subscribers.popularity == "communities":
            groups = subscribers.groups
            communities = np.arange(subscribers.count, dtype=np.int32) % groups
        elif subscribers.popularity == "local":
            groups = subscribers.groups
            communities = areas(locations, size_m, groups)
            # An area's part is of neighbouring numbers, and so of as few channels as can be: what happens in a channel
            # happens in some areas. Every rank is as popular as any other.
            for group, part in enumerate(np.array_split(np.arange(backends, dtype=np.int32), groups)):
                ranks[group::groups] = part
        return Popularity(np.cumsum(weights / weights.sum()), ranks, groups, communities, subscribers.inside)

    def choose(self, chance: np.random.Generator, subscribers: Numbers) -> Numbers:
        """One subscription for each of these; the same one may come again."""
        count = len(subscribers)
        backends = len(self.ranks)
        chosen = np.minimum(np.searchsorted(self.cumulated, chance.random(count), side="right"), backends - 1)
        if self.groups > 1:
            group = self.communities[subscribers]
            # A community's part is every `groups`-th rank, beginning with the community's number.
            sizes = (backends - group + self.groups - 1) // self.groups
            within = group + self.groups * (chance.random(count) * sizes).astype(np.int64)
            chosen = np.where(chance.random(count) < self.inside, within, chosen)
        return self.ranks[chosen]


def areas(locations: Floats, size_m: Floats, count: int) -> Numbers:
    """The area that each location is in. The city is cut into a grid; cells beyond `count` belong to the last area.

    >>> areas(np.array([[1.0, 1.0], [9.0, 1.0], [9.0, 9.0]]), np.array([10.0, 10.0]), 4).tolist()
    [0, 1, 3]
    """
    columns = int(np.ceil(np.sqrt(count)))
    rows = int(np.ceil(count / columns))
    cells = (locations / size_m * [columns, rows]).astype(np.int32)
    column, row = np.minimum(cells[:, 0], columns - 1), np.minimum(cells[:, 1], rows - 1)
    area: Numbers = np.minimum(row * columns + column, count - 1).astype(np.int32)
    return area


def draw_interests(
    subscribers: Subscribers, bounds: Wide, own: Wide, popularity: Popularity, seed: int
) -> tuple[Wide, Numbers]:
    """Offsets and holds: the subscriptions of each subscriber, none twice, in the order of their numbers. Where `own`
    is not 0, each subscriber has so many of the channel's subscriptions to choose from, which are nobody else's."""
    chance = stream(seed, "interests")
    backends = int(bounds[-1])
    everybody = np.arange(subscribers.count, dtype=np.int64)
    if subscribers.channels is None:
        wanted = _counts(chance, subscribers.subscriptions, subscribers.count)
        pairs = _distinct(wanted, backends, lambda who: popularity.choose(chance, who.astype(np.int32)))
    else:
        # Draw channels first; then draw in each of them, as if every choice of a channel were a subscriber.
        channels = len(bounds) - 1
        chosen = _distinct(
            _counts(chance, subscribers.channels, subscribers.count),
            channels,
            lambda who: chance.integers(channels, size=len(who)),
        )
        who, channel = chosen // channels, chosen % channels
        sizes = np.where(own > 0, own, np.diff(bounds))[channel]
        within = _distinct(
            _counts(chance, subscribers.subscriptions, len(chosen)),
            int(sizes.max(initial=1)),
            lambda choice: (chance.random(len(choice)) * sizes[choice]).astype(np.int64),
            sizes,
        )
        choice, value = within // int(sizes.max(initial=1)), within % int(sizes.max(initial=1))
        firsts = bounds[channel] + own[channel] * who
        pairs = np.sort(who[choice] * backends + firsts[choice] + value)
    offsets = np.searchsorted(pairs, np.append(everybody, subscribers.count) * backends).astype(np.int64)
    return offsets, (pairs % backends).astype(np.int32)


def _counts(chance: np.random.Generator, between: tuple[int, int], count: int) -> Wide:
    return chance.integers(between[0], between[1] + 1, size=count)


def _distinct(
    wanted: Wide, kinds: int, choose: Callable[[Wide], NDArray[np.integer]], limits: Wide | None = None
) -> Wide:
    """`wanted[i]` different choices for each `i`, as sorted numbers `i * kinds + choice`."""
    everybody = np.arange(len(wanted), dtype=np.int64)
    found = np.zeros(0, np.int64)
    for _ in range(_MAX_ROUNDS):
        missing = wanted - np.bincount(found // kinds, minlength=len(wanted))
        who = np.repeat(everybody, missing)
        if not len(who):
            return found
        found = _union(found, who * kinds + choose(who))
    for one in np.flatnonzero(wanted - np.bincount(found // kinds, minlength=len(wanted))):
        has = found[np.searchsorted(found, one * kinds) : np.searchsorted(found, (one + 1) * kinds)] % kinds
        left = np.setdiff1d(np.arange(kinds if limits is None else limits[one]), has)
        found = _union(found, one * kinds + left[: wanted[one] - len(has)])
    return found


def _union(some: Wide, others: Wide) -> Wide:
    """As `np.union1d`, which takes several times as long for millions."""
    both = np.sort(np.concatenate([some, others]))
    is_new = np.ones(len(both), np.bool_)
    np.not_equal(both[1:], both[:-1], out=is_new[1:])
    return both[is_new]
