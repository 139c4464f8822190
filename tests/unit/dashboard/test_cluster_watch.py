"""What the page shows of the cluster: rates from counts, names that are checked, errors in the cluster's words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tocsin.dashboard.cluster_watch import ClusterWatch
from tocsin.errors import InvalidValue, NotFound, Unavailable
from tocsin.runtime.clock import Clock

_XY = [{"name": "X", "type": "DOUBLE"}, {"name": "y", "type": "INT"}]
_CATALOGUE = {
    "datasets": [
        {"name": "Reports", "kind": "ACTIVE", "columns": [*_XY, {"name": "etype", "type": "STRING"}]},
        {"name": "People", "kind": "KEYED", "columns": _XY},
        {"name": "Notes", "kind": "ACTIVE", "columns": [{"name": "x", "type": "STRING"}]},
    ],
    "channels": [
        {
            "name": "Fires",
            "parameters": [
                {"name": "etype", "type": "STRING"},
                {"name": "user_id", "type": "STRING", "filled_by": "USER"},
            ],
            "granted_to": ["medics"],
        }
    ],
    "feeds": [{"name": "reports", "publishers": ["station"]}],
}


class StandingClock(Clock):
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic_s(self) -> float:
        return self.now

    def now_us(self) -> int:
        return round(self.now * 1e6)


class Cluster:
    """Answers as a cluster does, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes]] = []
        self.accepted = 0
        self.answers: dict[str, httpx.Response] = {}
        self.is_up = True

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.decode()
        self.asked.append((request.method, path, request.content))
        if not self.is_up:
            raise httpx.ConnectError("refused")
        if (given := self.answers.get(path.partition("?")[0])) is not None:
            return given
        if path == "/v1/status":
            feed = {"name": "reports", "dataset": "Reports", "accepted": self.accepted, "rejected": 3}
            channels = [{"name": "Fires", "is_paused": False}]
            return httpx.Response(200, json={"state": "ready", "feeds": [feed], "channels": channels})
        if path == "/v1/catalogue":
            return httpx.Response(200, json=_CATALOGUE)
        return httpx.Response(404, json={"error": {"code": "not_found", "message": f"no route {path}"}})


Watching = tuple[ClusterWatch, Cluster, StandingClock]


@pytest.fixture
async def watching(monkeypatch: pytest.MonkeyPatch) -> Any:
    cluster, clock = Cluster(), StandingClock()
    real: Callable[..., httpx.AsyncClient] = httpx.AsyncClient
    monkeypatch.setattr(
        httpx, "AsyncClient", lambda **given: real(**given | {"transport": httpx.MockTransport(cluster)})
    )
    watch = ClusterWatch("http://cluster", "secret", clock)
    await watch.refresh()
    yield watch, cluster, clock
    await watch.close()


async def test_rates_follow_from_counts(watching: Watching) -> None:
    """Records per second are those of the last seconds; a cluster that began anew has no negative rate."""
    watch, cluster, clock = watching
    assert watch.now()["feeds"][0]["accepted_per_s"] == 0
    clock.now, cluster.accepted = 110.0, 500
    await watch.refresh()
    feed = watch.now()["feeds"][0]
    assert (feed["accepted_per_s"], feed["rejected_per_s"], feed["accepted"]) == (50.0, 0.0, 500)
    clock.now, cluster.accepted = 115.0, 10
    await watch.refresh()
    assert watch.now()["feeds"][0]["accepted_per_s"] >= 0


async def test_what_is_on_the_map(watching: Watching) -> None:
    """Active datasets with numbers x and y are; names count whatever their case."""
    watch, _, _ = watching
    assert {one["name"]: one["on_map"] for one in watch.now()["datasets"]} == {
        "Reports": True,
        "People": False,
        "Notes": False,
    }


async def test_who_may_use_what_is_shown(watching: Watching) -> None:
    """Classes that may subscribe, publishers that may publish, and what is filled in, which nobody is asked for."""
    watch, _, _ = watching
    (channel,) = watch.now()["channels"]
    assert channel["parameters"] == [{"name": "etype", "type": "STRING"}]
    assert channel["filled"] == [{"name": "user_id", "filled_by": "USER"}]
    assert channel["granted_to"] == ["medics"]
    assert watch.now()["feeds"][0]["publishers"] == ["station"]


async def test_events_are_cut_to_what_is_drawn(watching: Watching) -> None:
    """Place, type and a text; rows without a place are left out, long texts cut."""
    watch, cluster, _ = watching
    rows = [[1.5, 2, "fire", "x" * 500], [None, 2, "fire", "nowhere"], [3, 4, None, None]]
    answer = {"dataset": "Reports", "commit": 9, "columns": ["X", "y", "etype", "message"], "rows": rows}
    cluster.answers["/v1/datasets/Reports/recent"] = httpx.Response(200, json=answer)
    answer = await watch.events("reports", 5, 100)
    assert answer == {"dataset": "Reports", "commit": 9, "rows": [[1.5, 2, "fire", "x" * 200], [3, 4, "", ""]]}
    with pytest.raises(InvalidValue, match="People is not on the map"):
        await watch.events("People", 0, 10)


@pytest.mark.parametrize("name", ["../../v1/brokers", "Reports/../x", "Fires; DROP CHANNEL Fires", "Nowhere", "%2e%2e"])
async def test_only_names_of_the_catalogue_reach_the_cluster(watching: Watching, name: str) -> None:
    """Whatever a page sends as a name, no other route and no other statement comes of it."""
    watch, cluster, _ = watching
    before = len(cluster.asked)
    for call in (
        watch.pause(name, paused=True),
        watch.dead_letters(name, 10),
        watch.replay(name, None),
        watch.discard(name, None),
        watch.events(name, 0, 10),
    ):
        with pytest.raises(NotFound, match="has no"):
            await call
    assert len(cluster.asked) == before


async def test_pausing_says_it_to_the_cluster(watching: Watching) -> None:
    """The catalogue's own spelling goes into the statement, quoted."""
    watch, cluster, _ = watching
    cluster.answers["/v1/statements"] = httpx.Response(200, json={"results": [{"message": "channel Fires paused"}]})
    assert await watch.pause("fires", paused=True) == "channel Fires paused"
    assert ("POST", "/v1/statements", b'{"sql":"PAUSE CHANNEL `Fires`"}') in cluster.asked


async def test_the_clusters_errors_are_passed_on(watching: Watching) -> None:
    """In its words if it answers; as trouble, beside what was known, if it does not."""
    watch, cluster, _ = watching
    error = {"code": "invalid_value", "message": "positions: too many"}
    cluster.answers["/v1/datasets/Reports/dead-letters/replay"] = httpx.Response(422, json={"error": error})
    with pytest.raises(InvalidValue, match="positions: too many"):
        await watch.replay("Reports", ["1:1"])
    cluster.answers["/v1/datasets/Reports/dead-letters"] = httpx.Response(401, json={"error": {"code": "x"}})
    with pytest.raises(Unavailable, match="cluster_token"):
        await watch.dead_letters("Reports", 1)
    cluster.is_up = False
    await watch.refresh()
    assert "does not answer" in watch.now()["trouble"]
    assert watch.now()["channels"]
    with pytest.raises(Unavailable, match="does not answer"):
        await watch.dead_letters("Reports", 1)
