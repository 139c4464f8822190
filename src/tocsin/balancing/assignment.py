"""Which subscriber is at which broker and holds which subscriptions: the frozen view of migration and shuffle (pure).

Names are sorted and everything else refers to them by number, so that a million subscribers fit in arrays, and the
order in which they were listed makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tocsin.balancing.reach import EVERYWHERE, within_reach
from tocsin.coordinates.coordinate import Coordinate
from tocsin.coordinates.located import Located
from tocsin.errors import InvalidValue
from tocsin.protocol.subscription_keys import KeyText

Floats = NDArray[np.float64]
#: Numbers of brokers and of subscriptions.
Numbers = NDArray[np.int32]
#: Indices into `holds`.
Offsets = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Hold(Protocol):
    """One subscription of a session."""

    @property
    def key(self) -> KeyText: ...


class AssignedSession(Protocol):
    """The part of a session that balancing needs."""

    @property
    def subscriber(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def connected(self) -> bool: ...
    @property
    def subscriptions(self) -> Sequence[Hold]: ...


@dataclass(frozen=True, slots=True)
class AssignedBroker:
    """A broker as the assignment knows it. A broker that does not `take` gets no subscribers; plans may relieve it."""

    name: str
    capacity: float = 1.0
    takes: bool = True
    coordinate: Coordinate | None = None


@dataclass(frozen=True, slots=True, eq=False)
class AssignmentView:
    """`holds[offsets[i]:offsets[i + 1]]` are the subscriptions of subscriber `i`, who is at broker `owners[i]`.

    For subscribers that are not `connected`, their broker fetches but sends nothing. Only the `movable` may be moved,
    and only to brokers `within_reach`: see `reach.py`; it is empty if there is no limit.
    """

    brokers: tuple[str, ...]
    capacities: Floats
    takes: Flags
    subscribers: Sequence[str]
    owners: Numbers
    connected: Flags
    movable: Flags
    subscriptions: Sequence[str]
    rates: Floats
    offsets: Offsets
    holds: Numbers
    within_reach: Flags = field(default_factory=lambda: EVERYWHERE)

    @staticmethod
    def of(
        brokers: Iterable[AssignedBroker],
        sessions: Iterable[AssignedSession],
        rate_of: Callable[[KeyText], float],
        resting: Collection[str] = frozenset(),
        leaving: Collection[str] = frozenset(),
        reach_ms: float | None = None,
        located_of: Callable[[str], Located | None] = lambda _: None,
    ) -> AssignmentView:
        """Sessions of brokers that are not among these are left out; those `resting` were moved a short while ago. If
        brokers are `leaving`, exactly their subscribers may be moved, including those that are away. `located_of` says
        where subscribers are in the network; with `reach_ms`, they may be moved only within that round trip."""
        candidates = sorted(brokers, key=lambda one: one.name)
        names = tuple(one.name for one in candidates)
        number_of = {name: number for number, name in enumerate(names)}
        present = sorted((one for one in sessions if one.owner in number_of), key=lambda one: one.subscriber)
        held = [hold.key for one in present for hold in one.subscriptions]
        keys = sorted(set(held))
        offsets, holds = _numbered(held, keys, [len(one.subscriptions) for one in present])
        connected = np.array([one.connected for one in present], np.bool_)
        if leaving:
            there = [one.owner in leaving and (one.connected or bool(one.subscriptions)) for one in present]
            movable = np.array(there, np.bool_)
        else:
            movable = connected & np.array([one.subscriber not in resting for one in present], np.bool_)
        subscribers = tuple(one.subscriber for one in present)
        owners = np.array([number_of[one.owner] for one in present], np.int32)
        coordinates = {one.name: one.coordinate for one in candidates if one.coordinate is not None}
        return AssignmentView(
            names,
            np.array([one.capacity for one in candidates], np.float64),
            np.array([one.takes for one in candidates], np.bool_),
            subscribers,
            owners,
            connected,
            movable,
            tuple(keys),
            np.array([rate_of(key) for key in keys], np.float64),
            offsets,
            holds,
            within_reach(reach_ms, names, subscribers, owners, located_of, coordinates),
        )

    def may_be_at(self, subscriber: int, broker: int) -> bool:
        """Whether the broker is within reach."""
        return not self.within_reach.size or bool(self.within_reach[subscriber, broker])

    def kept_within_reach(self, owners: Numbers) -> Numbers:
        """The same owners, except that those out of reach are the present ones."""
        if not self.within_reach.size:
            return owners
        return np.where(self.within_reach[np.arange(len(owners)), owners], owners, self.owners).astype(np.int32)

    @property
    def confined(self) -> int:
        """How many of the movable may go to no other broker, since none that takes subscribers is within reach."""
        if not self.within_reach.size:
            return 0
        elsewhere = self.within_reach & self.takes
        elsewhere[np.arange(len(self.owners)), self.owners] = False
        return int(np.count_nonzero(self.movable & ~elsewhere.any(axis=1)))

    def __post_init__(self) -> None:
        subscribers, brokers, subscriptions = len(self.subscribers), len(self.brokers), len(self.subscriptions)
        if not brokers:
            raise InvalidValue("an assignment needs at least one broker")
        if len(self.owners) != subscribers or len(self.offsets) != subscribers + 1:
            raise InvalidValue("every subscriber needs an owner and a list of holds")
        if self.within_reach.size and self.within_reach.shape != (subscribers, brokers):
            raise InvalidValue("every subscriber needs to know of every broker whether it is within reach")
        if len(self.capacities) != brokers or not np.all(self.capacities > 0):
            raise InvalidValue("every broker needs a capacity above 0")
        if len(self.rates) != subscriptions or not np.all(np.isfinite(self.rates) & (self.rates >= 0)):
            raise InvalidValue("every subscription needs a rate of 0 or more")
        if subscribers and not (self.owners.min() >= 0 and self.owners.max() < brokers):
            raise InvalidValue(f"owners are numbers from 0 to {brokers - 1}")
        if len(self.holds) and not (self.holds.min() >= 0 and self.holds.max() < subscriptions):
            raise InvalidValue(f"holds are numbers from 0 to {subscriptions - 1}")


def _numbered(held: Sequence[KeyText], keys: Sequence[KeyText], counts: Sequence[int]) -> tuple[Offsets, Numbers]:
    """The numbers of the subscriptions that each subscriber holds, in order and each once. `held` are all of them, one
    subscriber's after the other's, and `counts` says how many each has."""
    number_of = {key: number for number, key in enumerate(keys)}
    numbers = np.fromiter(map(number_of.__getitem__, held), np.int64, len(held))
    whose = np.repeat(np.arange(len(counts)), np.array(counts, np.int64))
    # One number for each pair of subscriber and subscription, so that one sort puts all of them in order.
    pairs = np.sort(whose * len(keys) + numbers)
    is_new = np.ones(len(pairs), np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=is_new[1:])
    subscribers, holds = np.divmod(pairs[is_new], max(1, len(keys)))
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.bincount(subscribers, minlength=len(counts)), out=offsets[1:])
    return offsets, holds.astype(np.int32)
