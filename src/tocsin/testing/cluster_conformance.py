"""The promises of every cluster to its brokers (`ClusterPort`), as checks of any implementation.

A check takes a bench, raises AssertionError if a promise is broken, and leaves nothing held. With pytest::

    @pytest.mark.parametrize("check", CHECKS)
    async def test_it_keeps_what_clusters_promise(check):
        await check(MyBench())
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Protocol

from tocsin.errors import NotFound, TocsinError, WrongEntries
from tocsin.protocol.ports import ClusterPort, Delivery
from tocsin.protocol.subscription_keys import SubscriptionKey

#: The time for results to be found. A real cluster takes some seconds when it is busy.
_PATIENCE_S = 60.0
#: The wait for results that must not come.
_QUIET_S = 0.2


class ClusterBench(Protocol):
    """A cluster, and a way to make it find results."""

    @property
    def keys(self) -> Sequence[SubscriptionKey]:
        """Three keys that can be held, each with its own results."""
        ...

    def link(self, broker: str) -> ClusterPort: ...

    async def run(self) -> None:
        """Each held one of `keys` gets one result, after a while."""
        ...


Check = Callable[[ClusterBench], Awaitable[None]]


@asynccontextmanager
async def _brokers(bench: ClusterBench, *names: str) -> AsyncIterator[list[ClusterPort]]:
    """Registered brokers that hold nothing before, nor afterwards."""
    links = [bench.link(name) for name in names]
    for link in links:
        await link.register()
    try:
        yield links
    finally:
        for link in links:
            if held := [one.id for one in await link.held()]:
                await link.release(held)
            await link.close()


async def _take(link: ClusterPort, cursor: int, count: int) -> tuple[list[Delivery], int]:
    """Pull until `count` results have come, and a little longer: there must be no more."""
    taken: list[Delivery] = []
    async with asyncio.timeout(_PATIENCE_S):
        while len(taken) < count:
            found, cursor = await _pull(link, cursor, 1.0)
            taken += found
    found, cursor = await _pull(link, cursor, _QUIET_S)
    assert len(taken + found) == count, f"{count} results were to come, and there are {taken + found}"
    return taken, cursor


async def _pull(link: ClusterPort, cursor: int, wait_s: float) -> tuple[list[Delivery], int]:
    found, reached, _ = await link.pull(cursor, wait_s)
    assert reached >= cursor, f"the cursor went back from {cursor} to {reached}"
    sequences = [one.sequence for one in found]
    assert sequences == sorted(set(sequences)), f"results are to come in order, and once: {sequences}"
    assert all(cursor < one <= reached for one in sequences), f"{sequences} came between {cursor} and {reached}"
    return found, reached


def _positions(found: Sequence[Delivery], subscription: int) -> list[int]:
    return [one.sequence for one in found if one.subscription == subscription]


async def equal_keys_are_one_subscription(bench: ClusterBench) -> None:
    """Within a call, later, and at another broker; answers come in the order of the keys."""
    first, second, _ = bench.keys
    async with _brokers(bench, "equal-a", "equal-b") as (a, b):
        one, two, again = await a.acquire([first, second, first])
        assert (one.channel, dict(one.parameters)) == (first.channel, first.parameter_values())
        assert (two.channel, dict(two.parameters)) == (second.channel, second.parameter_values())
        assert one.id == again.id != two.id
        assert [hold.id for hold in await a.acquire([second, first])] == [two.id, one.id]
        assert [hold.id for hold in await b.acquire([first])] == [one.id]


async def brokers_hold_their_own(bench: ClusterBench) -> None:
    """`held` has everything of one broker and nothing of another; also after the broker has registered again."""
    first, second, third = bench.keys
    async with _brokers(bench, "own-a", "own-b") as (a, b):
        ours = {hold.id for hold in await a.acquire([first, second])}
        theirs = {hold.id for hold in await b.acquire([second, third])}
        assert {hold.id for hold in await a.held()} == ours
        await b.register()
        assert {hold.id for hold in await b.held()} == theirs


async def results_come_once_and_in_order(bench: ClusterBench) -> None:
    """To each broker that holds them, and to no other; brokers that share a subscription get the same."""
    first, second, third = bench.keys
    async with _brokers(bench, "order-a", "order-b") as (a, b):
        cursor = max(await a.register(), await b.register())
        one, two = await a.acquire([first, second])
        shared, three = await b.acquire([first, third])
        for _ in range(3):
            await bench.run()
        ours, _ = await _take(a, cursor, 6)
        theirs, _ = await _take(b, cursor, 6)
        assert {found.subscription for found in ours} == {one.id, two.id}
        assert {found.subscription for found in theirs} == {shared.id, three.id}
        assert _positions(ours, one.id) == _positions(theirs, one.id)
        assert len(_positions(ours, one.id)) == 3


async def results_come_after_the_hold(bench: ClusterBench) -> None:
    """Every result after the answer has a higher sequence than the answer says."""
    async with _brokers(bench, "after-a") as (a,):
        cursor = await a.register()
        for key in bench.keys:
            (hold,) = await a.acquire([key])
            await bench.run()
            found, cursor = await _take(a, cursor, len(await a.held()))
            assert min(_positions(found, hold.id)) > hold.sequence


async def a_cursor_loses_nothing(bench: ClusterBench) -> None:
    """A pull from an older cursor brings the same results since then again; one from the newest brings nothing."""
    async with _brokers(bench, "cursor-a") as (a,):
        start = await a.register()
        await a.acquire(bench.keys[:1])
        await bench.run()
        first, middle = await _take(a, start, 1)
        await bench.run()
        second, end = await _take(a, middle, 1)
        again, _ = await _take(a, start, 2)
        assert [one.sequence for one in again] == [one.sequence for one in first + second]
        assert await _take(a, end, 0) == ([], end)
        assert await a.register() >= second[-1].sequence, "a broker that registers would be sent old results as live"


async def history_goes_on_after_each_position(bench: ClusterBench) -> None:
    """Each subscription's results after its own sequence, and up to where they are complete."""
    first, second, _ = bench.keys
    async with _brokers(bench, "history-a") as (a,):
        cursor = await a.register()
        one, two = await a.acquire([first, second])
        await bench.run()
        earlier, cursor = await _take(a, cursor, 2)
        await bench.run()
        later, cursor = await _take(a, cursor, 2)
        after = {one.id: _positions(earlier, one.id)[0], two.id: two.sequence}
        found, reached = await a.history(after)
        assert _positions(found, one.id) == _positions(later, one.id)
        assert _positions(found, two.id) == _positions(earlier + later, two.id)
        assert reached >= later[-1].sequence


async def the_last_to_release_ends_it(bench: ClusterBench) -> None:
    """A subscription goes on as long as a broker holds it; a broker that asks for it after its end gets another."""
    key = bench.keys[0]
    async with _brokers(bench, "release-a", "release-b") as (a, b):
        cursor = await b.register()
        (hold,) = await a.acquire([key])
        await b.acquire([key])
        await a.release([hold.id])
        assert await a.held() == []
        await bench.run()
        await _take(b, cursor, 1)
        assert [one.id for one in await a.acquire([key])] == [hold.id]
        await a.release([hold.id])
        await b.release([hold.id])
        (anew,) = await b.acquire([key])
        assert anew.id != hold.id


async def one_wrong_key_holds_nothing(bench: ClusterBench) -> None:
    """WrongEntries names the wrong keys, with reasons."""
    unknown = SubscriptionKey.of("NoSuchChannel", {}, "")
    async with _brokers(bench, "wrong-a") as (a,):
        wrong: Mapping[int, TocsinError] = {}
        try:
            await a.acquire([bench.keys[0], unknown])
        except WrongEntries as exc:
            wrong = exc.wrong
        assert {at: type(error) for at, error in wrong.items()} == {1: NotFound}
        assert await a.held() == []


async def one_wrong_id_releases_nothing(bench: ClusterBench) -> None:
    """Another broker's hold can't be released, and neither are the other ids of the same call."""
    first, second, _ = bench.keys
    async with _brokers(bench, "theirs-a", "theirs-b") as (a, b):
        (ours,) = await a.acquire([first])
        (theirs,) = await b.acquire([second])
        try:
            await a.release([ours.id, theirs.id])
        except NotFound:
            pass
        else:
            raise AssertionError("what another broker holds was released")
        assert [one.id for one in await a.held()] == [ours.id]
        assert [one.id for one in await b.held()] == [theirs.id]


CHECKS: tuple[Check, ...] = (
    equal_keys_are_one_subscription,
    brokers_hold_their_own,
    results_come_once_and_in_order,
    results_come_after_the_hold,
    a_cursor_loses_nothing,
    history_goes_on_after_each_position,
    the_last_to_release_ends_it,
)
#: For clusters that can refuse. A simulated cluster gets no wrong requests.
REFUSALS: tuple[Check, ...] = (one_wrong_key_holds_nothing, one_wrong_id_releases_nothing)
