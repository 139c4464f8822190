"""Arrived items that the application has not taken: one lane per subscription, bounded together.

The reader of connections enforces the bound: when `is_full`, it stops reading until there is room. So a slow
application slows the broker down rather than filling the memory.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(slots=True)
class _Lane(Generic[Item]):
    #: Arrival number, item, size in bytes.
    items: deque[tuple[int, Item, int]] = field(default_factory=deque)
    #: Set while there is an item to take, and when nothing will come any more.
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False


class Inbox(Generic[Item]):
    """Items are taken from one lane, or from all of them in the order of arrival; each is taken once."""

    def __init__(self, max_count: int, max_bytes: int) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._lanes: dict[int, _Lane[Item]] = {}
        #: Arrival number to lane, oldest first. The oldest of a lane is always the oldest of it here.
        self._order: OrderedDict[int, int] = OrderedDict()
        self._arrived = 0
        self._bytes = 0
        self._stirred = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._ended = False

    def __len__(self) -> int:
        return len(self._order)

    @property
    def is_full(self) -> bool:
        return not self._room.is_set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    def open_lane(self, lane: int) -> None:
        self._lanes[lane] = _Lane()

    def put(self, lane: int, item: Item, size_bytes: int) -> None:
        """An item of no open lane is dropped: nobody can take it."""
        found = self._lanes.get(lane)
        if found is None or found.ended or self._ended:
            return
        self._arrived += 1
        self._bytes += size_bytes
        found.items.append((self._arrived, item, size_bytes))
        self._order[self._arrived] = lane
        found.stirred.set()
        self._stirred.set()
        if len(self._order) >= self._max_count or self._bytes >= self._max_bytes:
            self._room.clear()

    async def take(self, lane: int) -> Item | None:
        """The next item of a lane, when there is one; None when nothing will come any more."""
        found = self._lanes.get(lane)
        while found is not None:
            if found.items:
                return self._pop(found)
            if found.ended or self._ended:
                break
            await found.stirred.wait()
        return None

    async def take_any(self) -> Item | None:
        """The item that has waited longest, of any lane."""
        while True:
            if self._order:
                return self._pop(self._lanes[next(iter(self._order.values()))])
            if self._ended:
                return None
            await self._stirred.wait()

    def end_lane(self, lane: int, *, drop: bool) -> None:
        """Nothing more goes in; items in it can still be taken, unless `drop`."""
        found = self._lanes.get(lane)
        if found is None:
            return
        while drop and found.items:
            self._pop(found)
        found.ended = True
        found.stirred.set()

    def end(self) -> None:
        """Nothing more goes in; items in it can still be taken. Nobody waits for room any more."""
        self._ended = True
        self._stirred.set()
        self._room.set()
        for lane in self._lanes.values():
            lane.stirred.set()

    def _pop(self, lane: _Lane[Item]) -> Item:
        number, item, size_bytes = lane.items.popleft()
        del self._order[number]
        self._bytes -= size_bytes
        if not (lane.items or lane.ended or self._ended):
            lane.stirred.clear()
        if not (self._order or self._ended):
            self._stirred.clear()
        # At half the bound, so that reading goes on for a while before it has to stop again.
        if len(self._order) <= self._max_count // 2 and self._bytes <= self._max_bytes // 2:
            self._room.set()
        return item
