"""The dashboard's pages and routes in the coordinator's process: who may ask what, and what bad input gets."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tocsin.coordinator.node import CoordinatorNode
from tocsin.coordinator.registry.events import BrokerRegistered, Counted, HeartbeatReceived, ReportedSession, Traffic
from tocsin.coordinator.server import make_app
from tocsin.dashboard.locations import MAX_SHOWN, Locations
from tocsin.dashboard.mount import STATIC, dashboard
from tocsin.errors import InvalidValue
from tocsin.model.latencies import LatencyCounts
from tocsin.settings import CoordinatorSettings

_OPERATOR = {"Authorization": "Bearer operators"}
_VIEWER = {"Authorization": "Bearer viewers"}
_SOURCES = Path(__file__).parents[3] / "dashboard"

pytestmark = pytest.mark.shell


def settings(folder: Path, **changes: Any) -> CoordinatorSettings:
    settings = {"api_token": "operators", "viewer_token": "viewers", "rates_window_s": 1.0, **changes}
    return CoordinatorSettings(data_dir=folder, **settings)


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[FastAPI]:
    roads = tmp_path / "roads.wkt"
    roads.write_text("LINESTRING (0 0, 100 0)")
    app = make_app(settings(tmp_path / "data", map_roads=str(roads)), mounts=[dashboard])
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def http(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://coordinator", headers=_OPERATOR) as http:
        yield http


def node_of(app: FastAPI) -> CoordinatorNode:
    node = app.state.node
    assert isinstance(node, CoordinatorNode)
    return node


async def arrive(node: CoordinatorNode, broker: str, people: int, **more: Any) -> None:
    await node.happened(BrokerRegistered(node.now_s(), broker, f"http://{broker}", (5.0, 6.0)))
    changed = tuple(ReportedSession(f"{broker}-{number}/d", 0, connected=True) for number in range(people))
    locations = {one.subscriber: (float(number), 1.0) for number, one in enumerate(changed)}
    await node.happened(
        HeartbeatReceived(node.now_s(), broker, Traffic(people, 10.0, 20.0), changed, locations=locations, **more)
    )


async def test_the_page_is_served_under_a_strict_policy(http: httpx.AsyncClient) -> None:
    """Anybody gets the page, which holds no data; it may load and talk to nothing but this coordinator."""
    http.headers.clear()
    front = await http.get("/")
    assert (front.status_code, front.headers["location"]) == (307, "/dashboard/")
    page = await http.get("/dashboard/")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].startswith("default-src 'self';")
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-cache"
    script = next(part for part in page.text.split('"') if part.endswith(".js"))
    built = await http.get(f"/dashboard/{script.removeprefix('./')}")
    assert built.status_code == 200
    assert "immutable" in built.headers["cache-control"]
    assert "<script>" not in page.text
    assert (await http.get("/dashboard/../pyproject.toml")).status_code == 404
    assert (await http.get("/dashboard/nowhere.js")).status_code == 404


async def test_who_may_look(http: httpx.AsyncClient) -> None:
    """Without a token nothing but sign-in answers; operators and viewers are told apart."""
    for path in ("me", "live", "history", "locations", "roads", "policies", "cluster", "dead-letters?dataset=x"):
        answer = await http.get(f"/dashboard/api/{path}", headers={"Authorization": "Bearer guessed"})
        assert answer.status_code == 401, path
    http.headers.clear()
    assert (await http.get("/dashboard/api/sign-in")).json() == {"needs_token": True}
    assert (await http.get("/dashboard/api/me", headers=_OPERATOR)).json()["role"] == "operator"
    answer = (await http.get("/dashboard/api/me", headers=_VIEWER)).json()
    assert answer["role"] == "viewer"
    assert (answer["has_cluster"], answer["has_roads"]) == (False, True)


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "/v1/balancing", {"alpha": 1}),
        ("PUT", "/v1/placement-policy", {"policy": "random"}),
        ("POST", "/v1/plans", {}),
        ("POST", "/v1/users/ann/revoke", None),
        ("DELETE", "/v1/brokers/b", None),
        ("POST", "/v1/brokers/b/heartbeats", {}),
        ("POST", "/dashboard/api/channels", {"channel": "c", "paused": True}),
        ("POST", "/dashboard/api/dead-letters/replay", {"dataset": "d"}),
        ("POST", "/dashboard/api/dead-letters/discard", {"dataset": "d"}),
        ("POST", "/dashboard/api/try", {"channel": "c"}),
    ],
)
async def test_viewers_change_nothing(http: httpx.AsyncClient, method: str, path: str, body: Any) -> None:
    """403 says what the matter is, wherever it is tried: in the dashboard's routes and in the API's."""
    answer = await http.request(method, path, json=body, headers=_VIEWER)
    assert answer.status_code == 403
    assert "allows reading only" in answer.json()["error"]["message"]
    assert (await http.request(method, path, json=body, headers={"Authorization": ""})).status_code == 401


async def test_viewers_do_not_register_users(tmp_path: Path) -> None:
    """Where registration is for operators, a viewer is none."""
    app = make_app(settings(tmp_path, open_registration=False))
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c")
    async with app.router.lifespan_context(app), client as http:
        body = {"name": "ann", "password": "correct horse"}
        assert (await http.post("/v1/users", json=body, headers=_VIEWER)).status_code == 401
        assert (await http.get("/v1/users", headers=_VIEWER)).status_code == 200


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("dead-letters?dataset=Reports&limit=0", 422, "limit"),
        ("dead-letters?dataset=Reports", 404, "no dataset called Reports"),
        ("events?dataset=Reports&after=-1", 422, "after"),
        ("events?limit=1", 422, "dataset"),
    ],
)
async def test_bad_questions_about_the_cluster(tmp_path: Path, path: str, status: int, reason: str) -> None:
    """Parameters are checked, and names are those of the catalogue, which is empty while the cluster is away."""
    app = make_app(settings(tmp_path, cluster_url="http://127.0.0.1:9"), mounts=[dashboard])
    client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://c", headers=_OPERATOR)
    async with app.router.lifespan_context(app), client as http:
        answer = await http.get(f"/dashboard/api/{path}")
        assert (answer.status_code, reason in answer.json()["error"]["message"]) == (status, True), answer.text


def test_a_viewers_token_needs_an_operators(tmp_path: Path) -> None:
    """Else it would promise what is not kept; nor can both be the same."""
    with pytest.raises(InvalidValue, match="viewer_token: without api_token"):
        CoordinatorNode(CoordinatorSettings(data_dir=tmp_path, viewer_token="v"))
    with pytest.raises(InvalidValue, match="viewer_token: it must differ"):
        CoordinatorNode(CoordinatorSettings(data_dir=tmp_path, api_token="v", viewer_token="v"))


def test_roads_that_can_not_be_read_are_told_at_the_start(tmp_path: Path) -> None:
    """The setting and the file are named."""
    with pytest.raises(InvalidValue, match=r"map_roads: .*nowhere.wkt can't be read"):
        make_app(settings(tmp_path, map_roads=str(tmp_path / "nowhere.wkt")), mounts=[dashboard])


async def test_what_is_seen_live(app: FastAPI, http: httpx.AsyncClient) -> None:
    """Brokers with what they measured and what the model says, how even it is, latencies and the cache."""
    node = node_of(app)
    empty = (await http.get("/dashboard/api/live")).json()
    assert (empty["brokers"], empty["overall"]["cov"]) == ([], None)
    counted = LatencyCounts()
    counted.observe(0.1, 50)
    await arrive(node, "b1", 3, counted=Counted(tuple(counted.counts), 3, 1))
    await arrive(node, "b2", 1)
    app.state.dashboard.recorder._seen_s = float("-inf")
    live = (await http.get("/dashboard/api/live")).json()
    first, second = live["brokers"]
    assert (first["name"], first["in"], first["out"], first["location"]) == ("b1", 10.0, 20.0, [5.0, 6.0])
    assert first["p50_s"] == pytest.approx(0.1, rel=0.2)
    assert (first["hit_rate"], second["p50_s"]) == (0.75, None)
    assert live["overall"]["p99_s"] == pytest.approx(0.1, rel=0.42)
    assert live["overall"]["hit_rate"] == 0.75
    assert live["overall"]["rate"] == 5.0
    assert live["balancing"]["alpha"] == 0.15
    assert live["audited"] == 0
    await http.put("/v1/balancing", json={"alpha": 0.2, "by": "ada"})
    await http.put("/v1/placement-policy", json={"policy": "nearest", "by": "ada"})
    app.state.dashboard.recorder._seen_s = float("-inf")
    live = (await http.get("/dashboard/api/live")).json()
    assert (live["audited"], live["placement"]) == (2, "nearest")
    entries = (await http.get("/v1/audit")).json()["entries"]
    assert {one["who"] for one in entries} == {"ada"}
    app.state.dashboard.recorder.history.add(_sample(live))
    history = (await http.get("/dashboard/api/history?back_s=60")).json()
    assert history["brokers"]["b1"]["out"][-1] == 20.0
    assert (await http.get("/dashboard/api/policies")).json()["migration"]


def _sample(live: dict[str, Any]) -> Any:
    from tocsin.dashboard.sampling import sample_of

    return sample_of(live)


async def test_places_are_compact_and_bounded(app: FastAPI, http: httpx.AsyncClient) -> None:
    """x, y and the broker's number for each; names for who does not have them; of very many, always the same few."""
    node = node_of(app)
    await arrive(node, "b1", 2)
    answer = (await http.get("/dashboard/api/locations")).json()
    assert answer["brokers"] == ["b1"]
    assert answer["points"] == [0.0, 1.0, 0, 1.0, 1.0, 0]
    assert answer["names"] == ["b1-0/d", "b1-1/d"]
    again = (await http.get(f"/dashboard/api/locations?version={answer['version']}")).json()
    assert "names" not in again
    await arrive(node, "b2", 3 * MAX_SHOWN)
    locations = Locations(node)
    shown = locations.now(-1)
    assert MAX_SHOWN / 2 < len(shown["names"]) <= MAX_SHOWN
    assert len(shown["points"]) == 3 * len(shown["names"])
    assert locations.now(shown["version"])["points"] == shown["points"]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("history?back_s=5", 422, "back_s"),
        ("history?back_s=all", 422, "back_s"),
        ("locations?version=x", 422, "version"),
        ("events?dataset=Reports", 404, "no data cluster"),
        ("cluster", 404, "cluster_url"),
        ("nowhere", 404, "no route"),
    ],
)
async def test_bad_questions_are_told(http: httpx.AsyncClient, path: str, status: int, reason: str) -> None:
    """Each with its status and a reason that names what is wrong."""
    answer = await http.get(f"/dashboard/api/{path}")
    assert answer.status_code == status, answer.text
    if path != "nowhere":
        assert reason in answer.json()["error"]["message"]


async def test_trying_without_a_broker(http: httpx.AsyncClient) -> None:
    """What keeps a channel from being tried is the answer, with its own status."""
    answer = await http.post("/dashboard/api/try", json={"channel": "Near", "parameters": {"x": 1}})
    assert answer.status_code == 503
    assert "broker" in answer.json()["error"]["message"]
    for body in ({}, {"channel": ""}, {"channel": "Near", "parameters": {"x": [1]}}, {"channel": "x" * 256}):
        assert (await http.post("/dashboard/api/try", json=body)).status_code == 422


def test_the_page_was_built_since_it_was_changed() -> None:
    """Whoever changes the page's sources runs `make dashboard`, and keeps what it builds."""
    hashed = hashlib.sha256()
    names = ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"]
    files = [path for name in names for path in [_SOURCES / name, *(_SOURCES / name).rglob("*")] if path.is_file()]
    for file in sorted(files, key=lambda one: one.relative_to(_SOURCES).as_posix()):
        hashed.update(f"{file.relative_to(_SOURCES).as_posix()}\n".encode() + file.read_bytes() + b"\n")
    assert (STATIC / "sources.sha256").read_text().strip() == hashed.hexdigest(), "run `make dashboard`"


def test_the_page_is_small_and_names_its_licences() -> None:
    """It loads quickly on a phone, and what it is made from is named as its licences ask for."""
    scripts = sum(one.stat().st_size for one in (STATIC / "assets").glob("*.js"))
    assert scripts < 700_000
    licences = (STATIC / "licenses.md").read_text()
    assert all(name in licences for name in ("echarts", "zrender", "preact", "Apache Software Foundation"))
