"""docs/guides/secure.md says who can do what, and it is so: each role asks for each route of the real applications."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.routing import Mount, Route

from documentation import ROOT
from tocsin.broker.shell import server as broker_server
from tocsin.broker.shell.coordination import _KEYS
from tocsin.broker.shell.store import SessionStore
from tocsin.broker.shell.websocket import PATH as CONNECT
from tocsin.cluster.api import access as cluster_access
from tocsin.cluster.api import brokers, catalogue, dead_letters, feeds, statements
from tocsin.cluster.api.access import Access, CheckAccess
from tocsin.coordinator.api import dependencies
from tocsin.coordinator.server import make_app
from tocsin.dashboard.mount import dashboard
from tocsin.protocol import pings
from tocsin.protocol.incarnations import IDENTITY_HEADER
from tocsin.settings import BrokerSettings, CoordinatorSettings

pytestmark = pytest.mark.shell

_PAGE = ROOT / "docs" / "guides" / "secure.md"
_ROLES = ("Operator", "Viewer", "Broker", "Publisher", "User", "Anybody")
_REFUSED = (401, 403)
#: As a broker registers that is called north.
_REGISTRATION = {"url": "http://north:1", "location": None, "capacity": 1, "identity": "north's", "start": "1"}
#: What FastAPI serves by itself, beside what is declared.
_DESCRIPTION = ("GET", "/openapi.json")

_Route = tuple[str, str, str]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[_Route, set[str]]:
    """Who is not refused, for each route of all three."""
    return asyncio.run(_found(tmp_path_factory.mktemp("rights")))


def test_the_page_says_who_can_do_what(found: dict[_Route, set[str]]) -> None:
    """Each route of cluster, coordinator and brokers is open to the roles that the table names, and to no other."""
    rows = list(_rows())
    for (where, method, path), allowed in found.items():
        written = next(marks for location, fits, marks in rows if location == where and fits(method, path))
        assert {role for role, mark in written.items() if mark} == allowed, f"{where}: {method} {path}"


def test_the_page_names_no_route_that_is_not_there(found: dict[_Route, set[str]]) -> None:
    """What was renamed or removed must be renamed or removed in the table too."""
    written = {(cells[0], *route.split()) for cells in _cells() for route in _listed(cells[1])}
    assert written <= found.keys()


def test_what_is_a_brokers_own_is_said_to_be() -> None:
    """Where the table says *own*, the name in the address has to be the broker's, and nowhere else."""
    own = {
        ("cluster", *route)
        for route, calls in _declared(_cluster())
        if cluster_access.own_name_only in calls or route == ("PUT", "/v1/brokers/{broker}")
    } | {
        ("coordinator", *route)
        for route, calls in _declared(make_app(CoordinatorSettings(api_token="o")))
        if dependencies.own_name_only in calls or route == ("PUT", "/v1/brokers/{name}")
    }
    written = {
        (cells[0], *route.split())
        for cells in _cells()
        for route in _listed(cells[1])
        if dict(zip(_ROLES, cells[2:], strict=True))["Broker"] == "own"
    }
    assert written == own


# What the page says


def _cells() -> Iterator[list[str]]:
    table = _PAGE.read_text().partition("\n## Who can do what\n")[2].partition("\n## ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2 + len(_ROLES) and cells[0] in ("cluster", "coordinator", "broker"):
            yield cells


def _listed(cell: str) -> list[str]:
    return re.findall(r"`([A-Z]+ /\S*)`", cell)


def _rows() -> Iterator[tuple[str, Any, dict[str, str]]]:
    """Where, whether a route is meant, and who may."""
    for where, what, *marks in _cells():
        listed, is_rest, only_get = _listed(what), what.startswith("everything else"), "by `GET`" in what

        def fits(method: str, path: str, listed: Any = listed, rest: bool = is_rest, get: bool = only_get) -> bool:
            return f"{method} {path}" in listed or (rest and (not get or method == "GET"))

        yield where, fits, dict(zip(_ROLES, marks, strict=True))


# What is so


async def _found(folder: Path) -> dict[_Route, set[str]]:
    found: dict[_Route, set[str]] = {}
    async with _coordinator(folder / "coordinator") as (coordinator, user):
        shown = dict(zip(_ROLES, ("operators", "viewers", "brokers", "stations", user, ""), strict=True))
        keys = coordinator.state.node.keys.public_keys()
        for where, app in (
            ("cluster", _cluster()),
            ("coordinator", coordinator),
            ("broker", _broker(folder / "broker", keys)),
        ):
            routes = [route for route, _ in _declared(app)]
            assert len(routes) > 5
            for method, path in routes:
                found[where, method, path] = {
                    role for role, token in shown.items() if not await _is_refused(app, method, path, token)
                }
    # A WebSocket says in its first message who it is; before that, nobody is given anything.
    found["broker", "GET", CONNECT] = found["broker", "GET", "/v1/events"]
    return found


def _declared(router: Any) -> Iterator[tuple[tuple[str, str], set[Any]]]:
    """Each route of an application, with what it depends on; of folders of files, the folder."""
    for route in router.routes:
        if included := getattr(route, "original_router", None):
            yield from _declared(included)
        elif isinstance(route, APIRoute):
            for method in route.methods:
                yield (method, route.path), set(_dependencies(route.dependant))
        elif isinstance(route, Mount):
            yield ("GET", f"{route.path}/"), set()
        else:
            assert isinstance(route, Route)
            yield _DESCRIPTION, set()
            assert route.path == _DESCRIPTION[1]


def _dependencies(dependant: Any) -> Iterator[Any]:
    for one in dependant.dependencies:
        yield one.call
        yield from _dependencies(one)


async def _is_refused(app: FastAPI, method: str, path: str, token: str) -> bool:
    """Whether somebody who shows this token is refused, by how the answer begins: some answers never end."""
    address = path.replace("{feed}", "locations")
    for name in ("broker", "name"):
        address = address.replace(f"{{{name}}}", "north")
    address = address.replace("{", "").replace("}", "")
    query = b"subscribe=C" if address == "/v1/events" else b""
    headers = [(b"content-type", b"application/json"), (IDENTITY_HEADER.lower().encode(), b"north's")]
    if token == "brokers" and path == pings.PATH:
        headers.append((b"authorization", pings.credentials(token, "north", "a" * 32).encode()))
    elif token:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": address,
        "raw_path": address.encode(),
        "root_path": "",
        "query_string": query,
        "headers": headers,
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    status: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def receive() -> dict[str, Any]:
        # No request has such a body: who is let in is told so, and nothing is begun.
        return {"type": "http.request", "body": b"[]", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start" and not status.done():
            status.set_result(message["status"])

    answering = asyncio.create_task(app(scope, receive, send))
    try:
        await asyncio.wait([answering, status], return_when=asyncio.FIRST_COMPLETED)
        if not status.done():
            answering.result()  # What lies behind is not there: an error, and no refusal.
        return status.result() in _REFUSED
    except AttributeError:
        return False
    finally:
        answering.cancel()
        await asyncio.gather(answering, return_exceptions=True)


class _Station:
    """A publisher, to whom the feed is granted."""

    def publisher_of(self, token: bytes) -> str | None:
        return "station" if token == b"stations" else None

    def may_publish(self, publisher: str, feed: str) -> bool:
        return (publisher, feed) == ("station", "locations")


def _cluster() -> FastAPI:
    """Its routes behind its doorkeeper. What lies behind is not there: who is let in gets an error that is not a no."""
    app = FastAPI(docs_url=None, redoc_url=None)
    for module in (statements, catalogue, feeds, dead_letters, brokers):
        app.include_router(module.router)
    app.add_middleware(
        CheckAccess, access=Access("operators", "brokers", locations_feed="locations", grants=_Station())
    )
    return app


@asynccontextmanager
async def _coordinator(folder: Path) -> AsyncIterator[tuple[FastAPI, str]]:
    """With its dashboard; and a user's token."""
    tokens = {"api_token": "operators", "viewer_token": "viewers", "broker_token": "brokers"}
    app = make_app(CoordinatorSettings(data_dir=folder, **tokens), mounts=[dashboard])
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c") as http,
    ):
        user = await http.post("/v1/users", json={"name": "ann", "password": "correct horse"})
        headers = {"Authorization": "Bearer brokers"}
        assert (await http.put("/v1/brokers/north", json=_REGISTRATION, headers=headers)).status_code == 200
        yield app, user.json()["token"]


def _broker(folder: Path, keys: Any) -> FastAPI:
    """One that knows the coordinator's keys, as any does that has spoken with it once."""
    store = SessionStore(folder)
    store.store_fact(_KEYS, json.dumps(keys))
    store.close()
    settings = BrokerSettings(name="north", data_dir=folder, broker_token="brokers")
    node, metrics = broker_server.make_node(settings)
    return broker_server.make_app(settings, node, metrics, lambda _code: None)
