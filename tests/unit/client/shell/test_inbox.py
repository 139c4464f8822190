"""The inbox: each item is taken once, in order, and there is a bound."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tocsin.client.shell.inbox import Inbox


async def taken(inbox: Inbox[int], lane: int | None) -> int | None:
    """What can be taken right now; None if nothing."""
    try:
        async with asyncio.timeout(0):
            return await (inbox.take_any() if lane is None else inbox.take(lane))
    except TimeoutError:
        return None


@given(st.lists(st.tuples(st.sampled_from(["put", "take", "any"]), st.integers(0, 2)), max_size=40))
def test_taken_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    """However lanes and all of them together are mixed."""

    async def play() -> None:
        inbox: Inbox[int] = Inbox(1000, 1 << 20)
        lanes: dict[int, list[int]] = {lane: [] for lane in range(3)}
        for lane in lanes:
            inbox.open_lane(lane)
        for number, (step, lane) in enumerate(steps):
            waiting = min((items[0] for items in lanes.values() if items), default=None)
            if step == "put":
                inbox.put(lane, number, 10)
                lanes[lane].append(number)
            elif step == "take":
                assert await taken(inbox, lane) == (lanes[lane].pop(0) if lanes[lane] else None)
            else:
                assert await taken(inbox, None) == waiting
                for items in lanes.values():
                    if items and items[0] == waiting:
                        items.pop(0)
        assert len(inbox) == sum(map(len, lanes.values()))

    asyncio.run(play())


async def test_is_full_by_count_or_bytes() -> None:
    """Full at the bound, and not before it is half empty has it room again."""
    for size_bytes in (1, 250):
        inbox: Inbox[int] = Inbox(4, 1000)
        inbox.open_lane(1)
        for number in range(4):
            assert not inbox.is_full
            inbox.put(1, number, size_bytes)
        waiter = asyncio.create_task(inbox.wait_for_room())
        await inbox.take(1)
        assert inbox.is_full
        await inbox.take_any()
        assert not inbox.is_full
        await waiter


async def test_whoever_waits_is_woken() -> None:
    """By an item, by the end of a lane, by the end of all."""
    inbox: Inbox[int] = Inbox(10, 1000)
    for lane in (1, 2, 3):
        inbox.open_lane(lane)
    takers = [asyncio.create_task(inbox.take(lane)) for lane in (1, 2, 3)]
    await asyncio.sleep(0)
    inbox.put(1, 5, 1)
    inbox.end_lane(2, drop=True)
    async with asyncio.timeout(5):
        assert await takers[0] == 5
        assert await takers[1] is None
        inbox.end()
        assert await takers[2] is None
        assert await inbox.take_any() is None


async def test_what_is_there_outlasts_the_end() -> None:
    """Unless it is to be dropped."""
    inbox: Inbox[int] = Inbox(10, 1000)
    for lane in (1, 2):
        inbox.open_lane(lane)
        inbox.put(lane, lane, 1)
    inbox.end_lane(1, drop=True)
    inbox.put(1, 3, 1)
    inbox.end()
    assert await inbox.take(1) is None
    assert await inbox.take_any() == 2
