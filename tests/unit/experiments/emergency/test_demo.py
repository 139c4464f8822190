"""The demonstration, against a cluster that is pretended."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tocsin.experiments.emergency import demo
from tocsin.experiments.emergency.demo import DemoOptions, run_demo


class PretendedCluster:
    """Accepts everything, and gives each subscription one result for the first report."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.subscriptions: list[dict[str, Any]] = []
        self.report: dict[str, Any] | None = None
        self.silent_channel = ""
        self.rejected = 0
        self.refuse_statements = False
        self.busy = 1

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.001)  # as a network would, let others go on
        self.calls.append(f"{request.method} {request.url.path}")
        match request.method, request.url.path:
            case "POST", "/v1/statements" if self.refuse_statements:
                return httpx.Response(400, json={"error": {"code": "statement", "message": "no such thing"}})
            case "POST", "/v1/brokers/demo/subscriptions":
                wanted = json.loads(request.content)["subscriptions"]
                distinct = {json.dumps(item): number for number, item in enumerate(wanted)}
                self.subscriptions = [{"id": distinct[json.dumps(item)], "position": "0-0", **item} for item in wanted]
                return httpx.Response(200, json={"subscriptions": self.subscriptions})
            case "POST", "/v1/feeds/reports/records" if self.busy:
                self.busy -= 1
                return httpx.Response(429, headers={"Retry-After": "0"})
            case "POST", path if path.startswith("/v1/feeds/"):
                records = [json.loads(line) for line in request.content.splitlines()]
                if path == "/v1/feeds/reports/records" and self.report is None:
                    self.report = records[0]
                return httpx.Response(200, json={"accepted": len(records) - self.rejected, "rejected": self.rejected})
            case "GET", "/v1/brokers/demo/results":
                return self.results(request)
            case _:
                return httpx.Response(200, json={"results": []})

    def results(self, request: httpx.Request) -> httpx.Response:
        lines = []
        if self.report is not None and request.url.params.get("after") != "all":
            each = {item["id"]: item for item in self.subscriptions if item["channel"] != self.silent_channel}
            for item in each.values():
                payload = {**self.report, "metres": 12.0}
                where = {"subscription": item["id"], "channel": item["channel"], "position": f"{item['id']}-4194304"}
                lines.append(json.dumps({**where, "payload": payload}))
        cursor = "all" if lines or request.url.params.get("after") == "all" else "none"
        return httpx.Response(200, text="\n".join(lines), headers={"Tocsin-Cursor": cursor})


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PretendedCluster:
    pretended = PretendedCluster()

    @contextlib.asynccontextmanager
    async def started(folder: Path, say: object) -> AsyncIterator[demo._Api]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(pretended), base_url="http://pretended") as client:
            yield demo._Api(client, folder / "cluster.log")

    monkeypatch.setattr(demo, "_cluster", started)
    monkeypatch.setattr(demo, "longest_period_s", lambda statements: 0.01)
    monkeypatch.setattr(demo, "_PUBLISH_EVERY_S", 0.01)
    return pretended


def run(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    code = run_demo(DemoOptions(seconds=2), as_json=True)
    return code, json.loads(capsys.readouterr().out)


def test_success(cluster: PretendedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """All records accepted and every channel with results: exit code 0, and the figures in one JSON object."""
    code, told = run(capsys)
    assert code == 0
    assert told["succeeded"]
    assert told["records"]["published"] == told["records"]["accepted"] == 60 + 2 * (10 + 60)
    distinct = {json.dumps([item["channel"], item["parameters"]]) for item in cluster.subscriptions}
    assert told["notifications"] == len(distinct)
    assert sum(channel["results"] for channel in told["channels"].values()) == len(distinct)
    assert all(channel["runs_with_results"] == 1 for channel in told["channels"].values())
    assert cluster.busy == 0


def test_silent_channel_is_a_failure(cluster: PretendedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """A channel without results shows in the exit code."""
    cluster.silent_channel = "EmergenciesNearMe"
    code, told = run(capsys)
    assert code == 1
    assert told["channels"]["EmergenciesNearMe"]["results"] == 0


def test_rejected_record_is_a_failure(cluster: PretendedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """So does a record that was not accepted."""
    cluster.rejected = 1
    code, told = run(capsys)
    assert code == 1
    assert told["records"]["rejected"] == 5


def test_refusal_is_told_in_the_clusters_words(cluster: PretendedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """What the cluster refuses ends the demonstration with its message."""
    cluster.refuse_statements = True
    assert run_demo(DemoOptions(seconds=1)) == 1
    assert "POST /v1/statements was answered with 400" in capsys.readouterr().out


def test_summary_for_people(cluster: PretendedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json, each notification is a line and the end is a table."""
    assert run_demo(DemoOptions(seconds=1)) == 0
    shown = capsys.readouterr().out
    assert "12 m away" in shown
    assert "EmergenciesOfTypeAtLocationWithShelter" in shown
    assert "records published" in shown
