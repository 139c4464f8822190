"""Round trips over the coordinator's HTTP API: from brokers' heartbeats to operators' tables, limits and verdicts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.coordinator.server import make_app
from tocsin.settings import CoordinatorSettings

_HELD = {"channel": "C", "parameters": {}, "position": "7-1"}


def _at(x_ms: float) -> dict[str, Any]:
    return {"vector": [x_ms, *[0.0] * 7], "height_ms": 1.0, "adjustment_ms": 0.0, "error": 0.1}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """Two brokers that are 300 ms apart, and ann, who is at east and near to it."""
    app = make_app(CoordinatorSettings(data_dir=tmp_path))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c") as client:
        client.look = app.state.node.balancer.look  # type: ignore[attr-defined]
        for name, x_ms in (("east", 0.0), ("west", 300.0)):
            await _done(client.put(f"/v1/brokers/{name}", json={"url": f"http://{name}:1"}))
            other = {"east": "west", "west": "east"}[name]
            answer = await _beat(client, name, coordinate=_at(x_ms), round_trips_ms={other: 290.0})
            assert answer["state"] == "active"
        await _done(client.post("/v1/brokers/east/claims", json={"subscribers": ["ann/d"]}))
        ann = {"subscriber": "ann/d", "generation": 1, "connected": True, "subscriptions": [_HELD]}
        await _beat(client, "east", changed=[ann], located={"ann/d": {"coordinate": _at(5.0)}})
        yield client
        await app.state.node.stop()


async def _done(asking: Any) -> Any:
    answer = await asking
    assert answer.status_code == 200, answer.text
    return answer.json()


async def _beat(http: httpx.AsyncClient, broker: str, **heartbeat: Any) -> Any:
    return await _done(http.post(f"/v1/brokers/{broker}/heartbeats", json=heartbeat))


async def test_operators_see_what_was_measured_and_what_is_estimated(http: httpx.AsyncClient) -> None:
    """Of all brokers, of one, and where a subscriber is; of a broker that is not there, they are told so."""
    pairs = (await _done(http.get("/v1/round-trips")))["round_trips"]
    assert [(one["source"], one["destination"], one["answered"]) for one in pairs] == [
        ("east", "west", True),
        ("west", "east", True),
    ]
    # West was not known yet when east said what it had measured.
    assert (pairs[0]["measured_ms"], pairs[1]["measured_ms"], pairs[1]["estimated_ms"]) == (None, 290.0, 302.0)
    assert pairs[1]["error"] == pytest.approx(12 / 290, abs=1e-4)
    assert (await _done(http.get("/v1/round-trips", params={"broker": "west"})))["round_trips"][0]["source"] == "west"
    assert (await http.get("/v1/round-trips", params={"broker": "north"})).status_code == 404
    (ann,) = (await _done(http.get("/v1/subscribers")))["subscribers"]
    assert ann["located"]["coordinate"] == _at(5.0)
    assert (await _done(http.get("/v1/brokers/west")))["coordinate"] == _at(300.0)


async def test_a_heartbeat_names_the_peers_once(http: httpx.AsyncClient) -> None:
    """And again as soon as there are others."""
    first = await _beat(http, "east")
    assert first["peers"] == {"west": "http://west:1"}
    assert (await _beat(http, "east", peers_seen=first["peers_version"]))["peers"] is None
    await _done(http.put("/v1/brokers/north", json={"url": "http://north:1"}))
    assert (await _beat(http, "east", peers_seen=first["peers_version"]))["peers"].keys() == {"north", "west"}


@pytest.mark.parametrize(
    "wrong",
    [
        {"coordinate": {"vector": [1, 2]}},
        {"coordinate": {"height_ms": 0}},
        {"round_trips_ms": {"west": 0}},
        {"round_trips_ms": {"west": 1e9}},
        {"round_trips_ms": {"a b": 1}},
        {"round_trips_ms": {f"b{number}": 1 for number in range(33)}},
        {"located": {"ann/d": {"coordinate": {"error": 9}}}},
        {"located": {"ann/d": {"coordinate": {}, "round_trips_ms": {"west": -1}}}},
    ],
)
async def test_a_heartbeat_with_what_can_not_be_is_refused_whole(
    http: httpx.AsyncClient, wrong: dict[str, Any]
) -> None:
    answer = await http.post("/v1/brokers/east/heartbeats", json=wrong)
    assert answer.status_code == 422
    (ann,) = (await _done(http.get("/v1/subscribers")))["subscribers"]
    assert ann["located"]["coordinate"] == _at(5.0)


async def test_a_drained_broker_keeps_who_has_no_other_within_reach_and_the_verdict_says_so(
    http: httpx.AsyncClient,
) -> None:
    """Without the limit, everybody goes."""
    changed = await _done(http.put("/v1/balancing", json={"reach_ms": 100}))
    assert changed["settings"]["reach_ms"] == 100
    await _done(http.put("/v1/brokers/east/state", json={"state": "draining"}))
    await http.look()  # type: ignore[attr-defined]
    verdict = (await _done(http.get("/v1/balancing")))["verdict"]
    assert verdict.startswith("1 subscribers stay at east: no other broker is within reach_ms")
    changed = await _done(http.put("/v1/balancing", json={"reach_ms": None}))
    assert changed["settings"]["reach_ms"] is None
    await http.look()  # type: ignore[attr-defined]
    assert (await _done(http.get("/v1/balancing")))["verdict"] == "east is being emptied"


@pytest.mark.parametrize("reach_ms", [0, -1, 1e9, "far"])
async def test_a_reach_that_is_none_is_refused_and_changes_nothing(http: httpx.AsyncClient, reach_ms: object) -> None:
    assert (await http.put("/v1/balancing", json={"reach_ms": reach_ms})).status_code == 422
    assert (await _done(http.get("/v1/balancing")))["settings"]["reach_ms"] is None
