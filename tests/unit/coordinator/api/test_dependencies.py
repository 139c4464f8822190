"""Who may call what at the coordinator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.coordinator.node import CoordinatorNode
from tocsin.coordinator.server import make_app
from tocsin.errors import InvalidValue
from tocsin.settings import CoordinatorSettings

_OPERATOR = {"Authorization": "Bearer operators"}
_BROKER = {"Authorization": "Bearer brokers"}
_OWN = {**_BROKER, "Tocsin-Identity": "north's folder"}
_FOREIGN = {**_BROKER, "Tocsin-Identity": "south's folder"}


@pytest.fixture
async def http(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(CoordinatorSettings(data_dir=tmp_path, api_token="operators", broker_token="brokers"))
    async with (
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c") as client,
        app.router.lifespan_context(app),
    ):
        yield client


async def _register(http: httpx.AsyncClient, name: str, identity: str) -> httpx.Response:
    body = {"url": f"http://{name}:1", "location": None, "capacity": 1, "identity": identity, "start": identity}
    return await http.put(f"/v1/brokers/{name}", json=body, headers=_BROKER)


_BROKERS_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("heartbeats", {"connections": 0, "bytes_in_per_s": 0, "bytes_out_per_s": 0, "cpu_cores": 0}),
    ("sessions", {"subscribers": ["ann/phone"]}),
    ("claims", {"subscribers": ["ann/phone"]}),
    ("moves", {"subscribers": ["ann/phone"]}),
]


@pytest.mark.parametrize(("call", "body"), _BROKERS_CALLS, ids=[call for call, _ in _BROKERS_CALLS])
async def test_a_broker_acts_under_its_own_name_only(http: httpx.AsyncClient, call: str, body: dict[str, Any]) -> None:
    """All brokers have the same token; the secret of its data folder says which one it is."""
    registered = await _register(http, "north", "north's folder")
    assert registered.status_code == 200, registered.text
    assert (await _register(http, "south", "south's folder")).status_code == 200
    incarnation = {"Tocsin-Incarnation": str(registered.json()["incarnation"])}
    path = f"/v1/brokers/north/{call}"
    for headers in (_FOREIGN, _BROKER):
        refused = await http.post(path, json=body, headers={**headers, **incarnation})
        assert refused.status_code == 403, refused.text
        assert "another broker's" in refused.json()["error"]["message"]
    assert (await http.post(path, json=body, headers={**_OWN, **incarnation})).status_code == 200
    assert (await http.post(path, json=body, headers={**_OPERATOR, **incarnation})).status_code == 200
    assert (await http.post(path, json=body, headers=incarnation)).status_code == 401


async def test_a_broker_can_not_do_what_operators_do(http: httpx.AsyncClient) -> None:
    """Above all it can't make tokens. Every route that is not listed here as a broker's, or as open to all, refuses."""
    await _register(http, "north", "north's folder")
    description = (await http.get("/openapi.json")).json()
    brokers = {("put", "/v1/brokers/{name}"), *(("post", f"/v1/brokers/{{name}}/{call}") for call, _ in _BROKERS_CALLS)}
    public = {("get", "/healthz"), ("post", "/v1/users"), ("post", "/v1/tokens"), ("post", "/v1/placements")}
    routes = {(method, path) for path, methods in description["paths"].items() for method in methods}
    assert brokers | public < routes
    for method, path in sorted(routes - brokers - public):
        filled = path.replace("{name}", "north").replace("{user}", "ann").replace("{device}", "phone")
        answer = await http.request(method, filled, headers=_OWN, json={})
        assert answer.status_code == 403, (method, path, answer.text)
    placement = await http.post("/v1/placements", headers=_OWN, json={})
    assert placement.status_code == 401


async def test_a_broker_without_identity_needs_an_operator(http: httpx.AsyncClient) -> None:
    """Its name could be anybody's."""
    refused = await _register(http, "north", "")
    assert refused.status_code == 403
    assert "identity" in refused.json()["error"]["message"]


def test_brokers_and_operators_have_different_tokens(tmp_path: Path) -> None:
    """Else every broker would be an operator, and nobody would notice."""
    with pytest.raises(InvalidValue, match="must differ from api_token"):
        CoordinatorNode(CoordinatorSettings(data_dir=tmp_path, api_token="same", broker_token="same"))
