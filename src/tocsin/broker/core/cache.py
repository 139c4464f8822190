"""Recent results in memory, so that catching up seldom goes to the cluster.

For each backend subscription the cache holds *everything* after some sequence, `complete_after`; otherwise it would not
know which results it lacks. So it makes room by evicting a subscription's oldest results; the policy chooses whose.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from tocsin.errors import InvalidValue
from tocsin.protocol.ports import Delivery

#: A result's memory beside its bytes: the object, its numbers, its entry in a list. Measured: 180 bytes.
_OVERHEAD_BYTES = 180
#: How much room is made at a time, as a part of the whole: to choose the results, the policy looks at all shelves.
_SLACK = 0.1

_sequence = attrgetter("sequence")


@dataclass(slots=True)
class Shelf:
    """The recent results of one backend subscription, all those after `complete_after`."""

    complete_after: int
    deliveries: list[Delivery] = field(default_factory=list)
    times_s: list[float] = field(default_factory=list)


#: The subscriptions to evict results from, in that order. `left` is the number of a subscription's subscribers who are
#: away or behind and may still need its results.
Policy = Callable[[Mapping[int, Shelf], Callable[[int], int]], Iterator[int]]


def least_recently_used(shelves: Mapping[int, Shelf], left: Callable[[int], int]) -> Iterator[int]:  # noqa: ARG001
    """Shelves are kept in the order in which they were last used."""
    return iter(list(shelves))


def oldest(shelves: Mapping[int, Shelf], left: Callable[[int], int]) -> Iterator[int]:  # noqa: ARG001
    return iter(sorted(shelves, key=lambda one: shelves[one].times_s[0] if shelves[one].times_s else float("inf")))


def least_subscribers_left(shelves: Mapping[int, Shelf], left: Callable[[int], int]) -> Iterator[int]:
    return iter(sorted(shelves, key=left))


POLICIES: dict[str, Policy] = {
    "lru": least_recently_used,
    "ttl": oldest,
    "least-subscribers-left": least_subscribers_left,
}


class ResultCache:
    def __init__(self, policy: str, *, max_bytes: int, ttl_s: float, left: Callable[[int], int]) -> None:
        if policy not in POLICIES:
            raise InvalidValue(f"no cache policy called {policy!r}; one of {', '.join(POLICIES)}")
        self._policy = POLICIES[policy]
        self._ttl_s = ttl_s if policy == "ttl" else 0.0
        self._max_bytes = max_bytes
        self._left = left
        self._shelves: OrderedDict[int, Shelf] = OrderedDict()
        self.size_bytes = 0
        self.hits = 0
        self.misses = 0

    def open(self, subscription: int, complete_after: int) -> None:
        """From now on, everything of `subscription` after `complete_after` is put here."""
        self.drop(subscription)
        self._shelves[subscription] = Shelf(complete_after)

    def drop(self, subscription: int) -> None:
        shelf = self._shelves.pop(subscription, None)
        if shelf is not None:
            self.size_bytes -= sum(map(_cost_bytes, shelf.deliveries))

    def put(self, subscription: int, deliveries: Sequence[Delivery], now_s: float) -> None:
        """Add the newest results of a subscription; it must be open."""
        shelf = self._shelves[subscription]
        shelf.deliveries.extend(deliveries)
        shelf.times_s.extend([now_s] * len(deliveries))
        self._shelves.move_to_end(subscription)
        self.size_bytes += sum(map(_cost_bytes, deliveries))
        if self.size_bytes > self._max_bytes:
            self._make_room()

    def put_history(self, subscription: int, after: int, deliveries: Sequence[Delivery], now_s: float) -> None:
        """Add older results: all those after `after`, up to where the shelf begins or beyond."""
        shelf = self._shelves.get(subscription)
        if shelf is None or after >= shelf.complete_after:
            return
        older = [one for one in deliveries if one.sequence <= shelf.complete_after]
        cost_bytes = sum(map(_cost_bytes, older))
        if self.size_bytes + cost_bytes > self._max_bytes:
            return  # It would push out newer results.
        shelf.deliveries[:0] = older
        shelf.times_s[:0] = [now_s] * len(older)
        shelf.complete_after = after
        self.size_bytes += cost_bytes

    def after(self, subscription: int, sequence: int) -> list[Delivery] | None:
        """All results of a subscription after `sequence`; None if some of them are not here."""
        shelf = self._shelves.get(subscription)
        if shelf is None or sequence < shelf.complete_after:
            self.misses += 1
            return None
        self.hits += 1
        self._shelves.move_to_end(subscription)
        return shelf.deliveries[bisect_right(shelf.deliveries, sequence, key=_sequence) :]

    def reaches_back_to(self, subscription: int) -> int | None:
        """The sequence after which everything of a subscription is here."""
        shelf = self._shelves.get(subscription)
        return None if shelf is None else shelf.complete_after

    def expire(self, now_s: float) -> None:
        """Evict results that are older than the time to live, if the policy has one."""
        if not self._ttl_s:
            return
        for shelf in self._shelves.values():
            self._take(shelf, bisect_right(shelf.times_s, now_s - self._ttl_s))

    def empty(self) -> None:
        """Evict everything: subscribers who need results get them from the cluster, as they are there by now."""
        for shelf in self._shelves.values():
            self._take(shelf, len(shelf.deliveries))

    def _make_room(self) -> None:
        wanted_bytes = int(self._max_bytes * (1 - _SLACK))
        for subscription in self._policy(self._shelves, self._left):
            shelf = self._shelves[subscription]
            freed_bytes = 0
            count = 0
            for count, one in enumerate(shelf.deliveries, 1):  # noqa: B007 the number taken is what is wanted
                freed_bytes += _cost_bytes(one)
                if self.size_bytes - freed_bytes <= wanted_bytes:
                    break
            self._take(shelf, count)
            if self.size_bytes <= wanted_bytes:
                return

    def _take(self, shelf: Shelf, count: int) -> None:
        if count:
            taken = shelf.deliveries[:count]
            shelf.complete_after = taken[-1].sequence
            self.size_bytes -= sum(map(_cost_bytes, taken))
            del shelf.deliveries[:count]
            del shelf.times_s[:count]


def _cost_bytes(delivery: Delivery) -> int:
    return len(delivery.wire) + _OVERHEAD_BYTES
