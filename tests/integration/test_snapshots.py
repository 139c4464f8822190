"""WITH SNAPSHOT through a whole cluster, brokers and clients: first what holds, then what is new, each once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from integration.live import PATIENCE_S, Live
from integration.network import Network, running_network
from tocsin.client import Snapshot, Subscriber, Subscription
from tocsin.runtime.processes import ServerProcess

Serve = Callable[..., AbstractContextManager[Live]]

_TOWN = """
CREATE ACTIVE DATASET Fires (id INT, zone STRING, PRIMARY KEY (id));
CREATE KEYED DATASET People (name STRING, zone STRING, PRIMARY KEY (name));
CREATE FEED fires INTO Fires FROM HTTP;
CREATE FEED people INTO People FROM HTTP;
CREATE CONTINUOUS CHANNEL FiresIn (zone STRING) WITH SNAPSHOT AS
  SELECT f.id FROM Fires f WHERE is_new(f) AND f.zone = :zone;
"""


def _fires(*ids: int, zone: str = "harbour") -> list[dict[str, Any]]:
    return [{"id": one, "zone": zone} for one in ids]


def _seen(results: list[dict[str, Any]]) -> list[Any]:
    """Kind and payload of each result."""
    return [(one.get("kind", "result"), one["payload"]) for one in results]


def _is_end(result: dict[str, Any]) -> bool:
    return result.get("kind") == "snapshot_end"


def test_a_new_subscription_gets_what_holds_and_then_what_is_new(serve: Serve) -> None:
    """At once, although no record comes; after a restart nothing comes again; a snapshot that somebody requests later
    has everything so far, and windows go on as if there were none."""
    with serve() as live:
        live.sql(_TOWN)
        assert live.channel("FiresIn")["snapshot"] is True
        described = {row["property"]: row["value"] for row in live.rows("DESCRIBE CHANNEL FiresIn")}
        assert described["snapshot"] is True
        live.publish("fires", [*_fires(1, 2), *_fires(3, zone="hill")])
        seat = live.broker("b")
        here = seat.subscribe("FiresIn", zone="harbour")
        found = seat.take_until(_is_end)
        assert {one["subscription"] for one in found} == {here}
        assert _seen(found)[0] == ("snapshot_begin", None)
        assert sorted(_seen(found)[1:-1], key=str) == [("snapshot", {"id": 1}), ("snapshot", {"id": 2})]
        assert _seen(found)[-1] == ("snapshot_end", {"results": 2, "complete": True})
        signs = ["~" in one["position"] for one in found]
        assert signs == [True, True, True, False]
        live.publish("fires", _fires(4))
        assert _seen(seat.take(1)) == [("result", {"id": 4})]
        nothing = seat.subscribe("FiresIn", zone="nowhere")
        found = seat.take_until(_is_end)
        assert [one["subscription"] for one in found] == [nothing] * 2
        assert _seen(found)[1:] == [("snapshot_end", {"results": 0, "complete": True})]
    with serve() as live:
        seat.client = live.client
        live.publish("fires", _fires(5))
        assert _seen(seat.take(1)) == [("result", {"id": 5})]
        answer = live.http.post("/v1/brokers/b/snapshots", json={"ids": [here, 999_999]}).json()
        assert answer == {"requested": 1}
        found = seat.take_until(_is_end)
        assert sorted(one["payload"]["id"] for one in found[1:-1]) == [1, 2, 4, 5]
        live.publish("fires", _fires(6))
        assert _seen(seat.take(1)) == [("result", {"id": 6})]


async def _ids(subscription: Subscription, count: int) -> list[tuple[str, int]]:
    async with asyncio.timeout(PATIENCE_S):
        return [(one.kind, one.payload["id"]) for one in [await anext(subscription) for _ in range(count)]]


def test_everybody_who_comes_gets_what_holds_and_then_what_is_new(serve: Serve, tmp_path: Path) -> None:
    """Two people ask the same at different times, a third one at another broker: each gets what holds once, then each
    new result once, although they share a subscription. Who comes back, there or elsewhere, goes on without another
    snapshot; who comes back before its snapshot has come still gets it."""
    with serve() as live:
        live.sql(_TOWN)
        live.publish("fires", _fires(1, 2))
        with running_network(live, tmp_path) as network, network.broker("one") as one, network.broker("two") as two:
            asyncio.run(_come_and_go(network, one, two))


async def _come_and_go(network: Network, one: ServerProcess, two: ServerProcess) -> None:
    tokens = {user: network.token(user) for user in ("ann", "bob", "cyd", "dan")}

    def who(user: str, broker: ServerProcess) -> Subscriber:
        return Subscriber(broker=broker.url, token=tokens[user], device="phone")

    async def publish(number: int) -> None:
        await asyncio.to_thread(network.live.publish, "fires", _fires(number))

    def held(*numbers: int) -> list[tuple[str, int]]:
        return [("snapshot", number) for number in numbers]

    async with who("ann", one) as ann:
        hers = await ann.subscribe("FiresIn", zone="harbour")
        assert sorted(await _ids(hers, 2)) == held(1, 2)
        await publish(3)
        assert await _ids(hers, 1) == [("result", 3)]
        assert hers.snapshot == Snapshot(2, complete=True)
        async with who("bob", one) as bob:
            his = await bob.subscribe("FiresIn", zone="harbour")
            assert sorted(await _ids(his, 3)) == held(1, 2, 3)
            async with who("cyd", two) as cyd:
                theirs = await cyd.subscribe("FiresIn", zone="harbour")
                assert sorted(await _ids(theirs, 3)) == held(1, 2, 3)
                await publish(4)
                for subscription in (hers, his, theirs):
                    assert await _ids(subscription, 1) == [("result", 4)]
    await publish(5)
    async with who("bob", two) as bob:
        again = await bob.subscribe("FiresIn", position=his.position, zone="harbour")
        assert await _ids(again, 1) == [("result", 5)]
        await asyncio.to_thread(network.live.sql, "PAUSE CHANNEL FiresIn")
        async with who("dan", one) as dan:
            await dan.subscribe("FiresIn", zone="harbour")
        await asyncio.to_thread(network.live.sql, "RESUME CHANNEL FiresIn")
        async with who("dan", two) as dan:
            late = await dan.subscribe("FiresIn", zone="harbour")
            assert sorted(await _ids(late, 5)) == held(1, 2, 3, 4, 5)
            await publish(6)
            for subscription in (again, late):
                assert await _ids(subscription, 1) == [("result", 6)]


def test_a_filter_is_for_snapshots_too(serve: Serve, tmp_path: Path) -> None:
    """Of what holds and of what is new, each gets what matches; the end comes to all, and counts all rows."""
    with serve() as live:
        live.sql(_TOWN)
        live.publish("fires", _fires(1, 2, 3))
        with running_network(live, tmp_path) as network, network.broker("one") as one:
            asyncio.run(_filtered(network, one))


async def _filtered(network: Network, one: ServerProcess) -> None:
    async with Subscriber(broker=one.url, token=network.token("ann"), device="phone") as ann:
        some = await ann.subscribe("FiresIn", zone="harbour", where="id >= 2")
        assert sorted(await _ids(some, 2)) == [("snapshot", 2), ("snapshot", 3)]
        async with Subscriber(broker=one.url, token=network.token("bob"), device="phone") as bob:
            none = await bob.subscribe("FiresIn", zone="harbour", where="id > 4")
            await asyncio.to_thread(network.live.publish, "fires", _fires(4, 5))
            found = await _ids(none, 1)
            assert found in ([("result", 5)], [("snapshot", 5)])  # The snapshot may be before or after it.
        assert sorted(await _ids(some, 2)) == [("result", 4), ("result", 5)]
        assert some.snapshot == Snapshot(3, complete=True)


def test_a_channel_that_becomes_one_with_exits_still_serves_who_waits(serve: Serve) -> None:
    """Brokers do not know yet that there are no snapshots any more. What one shows is not held: exits are for results
    alone."""
    query = "SELECT p.name FROM People p WHERE is_new(p) AND p.zone = :zone"
    with serve() as live:
        live.sql(_TOWN + f"CREATE CONTINUOUS CHANNEL Here (zone STRING) ONCE PER (p.name) WITH SNAPSHOT AS {query};")
        live.publish("people", [{"name": "ann", "zone": "hill"}, {"name": "bob", "zone": "harbour"}])
        seat = live.broker("b")
        here = seat.subscribe("Here", zone="hill")
        assert _seen(seat.take_until(_is_end))[1:-1] == [("snapshot", {"name": "ann"})]
        live.sql(f"CREATE OR REPLACE CONTINUOUS CHANNEL Here (zone STRING) ONCE PER (p.name) WITH EXITS AS {query};")
        live.publish("people", [{"name": "cyd", "zone": "hill"}])
        (result,) = seat.take(1)
        assert live.http.post("/v1/brokers/b/snapshots", json={"ids": [here]}).json() == {"requested": 1}
        found = seat.take_until(_is_end)
        assert sorted(_seen(found)[1:-1], key=str) == [("snapshot", {"name": "ann"}), ("snapshot", {"name": "cyd"})]
        live.publish("people", [{"name": one, "zone": "harbour"} for one in ("ann", "bob", "cyd")])
        (left,) = seat.take(1)
        assert (left["kind"], left["key"]) == ("exit", result["key"])
