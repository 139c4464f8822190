"""Pages that say what to type are typed, those of examples too: what they print is held against what they were given.

All that need a whole Tocsin are in this file: in another file, another process might start another one for them. The
tutorial comes first: it expects one that nobody has used.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

from documentation import ROOT
from e2e.conftest import System, shell_environment
from e2e.reading import Reader
from tocsin.client import ClusterClient
from tocsin.testing.network import running_coordinator
from worlds.acting_broker import ActingBroker

pytestmark = pytest.mark.shell

_QUOTES = ROOT / "examples" / "quotes"
_ALERT = re.compile(r"(?P<channel>\w+): .* \((?P<quote>\S+)\)")


def test_the_tutorial_does_what_it_says(system: System) -> None:
    """From the first statement to the last drop, on a real cluster, coordinator and three brokers."""
    with Reader(system.folder, system.environment, system.adapt, {"up": system.up}) as reader:
        assert reader.read(ROOT / "docs" / "tutorial.md") > 20


def test_stock_quotes_alert_when_they_should_and_only_then(system: System) -> None:
    """Every crossing of a threshold and every large move is told once, and nothing else is."""
    folder = system.folder / "quotes"
    shutil.copytree(_QUOTES, folder)
    with Reader(folder, system.environment, system.adapt) as reader:
        reader.read(_QUOTES / "README.md")
        # What is committed later comes later: once the last alert is there, all before it are.
        with ClusterClient(system.cluster_url) as cluster:
            last = {"id": "last", "symbol": "ACME", "previous": 100, "price": 200}
            cluster.publish("quotes", [last], wait_commit=True)
        alerts = reader.terminal("alerts")
        alerts.expect("MyMoves: …, +20000.00 for you (last)")
        alerts.interrupt()
        printed = [found.group("channel", "quote") for found in map(_ALERT.fullmatch, alerts.lines()) if found]
    expected = Counter([("RisesAbove", "last"), ("MyMoves", "last")])
    for quotes in _publish_module().walk(seed=1, rounds=12):
        for quote in quotes:
            before, price = quote["previous"], quote["price"]
            expected["RisesAbove", quote["id"]] += quote["symbol"] == "ACME" and before <= 101 < price
            expected["FallsBelow", quote["id"]] += quote["symbol"] == "WAYN" and before >= 98 > price
            expected["MyMoves", quote["id"]] += quote["symbol"] == "ACME" and abs(200 * (price - before)) >= 400
    assert Counter(printed) == +expected
    assert len(printed) > 6


def test_the_example_is_as_short_as_it_says() -> None:
    files = [file for file in _QUOTES.iterdir() if file.suffix in {".sql", ".py"}]
    assert sum(len(file.read_text().splitlines()) for file in files) < 100


def _publish_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quotes_publish", _QUOTES / "publish.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_guide_to_policies_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its package's policies are found by the simulator and by a coordinator, and its own tests pass."""
    page = ROOT / "docs" / "guides" / "policies.md"
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "calm"), os.environ.get("PYTHONPATH", "")]))
    with Reader(tmp_path, {}) as reader:
        reader.save_files(page)
    _install(tmp_path / "calm")
    # Nobody sends heartbeats for these brokers.
    with (
        running_coordinator(tmp_path / "coordinator", {"dead_after_s": 600}) as coordinator,
        ActingBroker(coordinator.url) as client,
        Reader(tmp_path, {**shell_environment(tmp_path), "TOCSIN_COORDINATOR_URL": coordinator.url}) as reader,
    ):
        _let_a_crowd_come(client)
        assert reader.read(page) == 5


def _install(folder: Path) -> None:
    """As pip would, but for copying."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = folder / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    groups = project["entry-points"].items()
    lines = [
        line for group, ours in groups for line in (f"[{group}]", *(f"{name} = {at}" for name, at in ours.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))


def _let_a_crowd_come(client: ActingBroker) -> None:
    """Six people at the first of two brokers."""
    for name in ("a", "b"):
        client.register_broker(name, f"http://{name}")
    claimed = client.claim("a", [f"u{number}/phone" for number in range(6)])
    held = [{"channel": "EmergenciesOfType", "parameters": {"etype": "flood"}, "position": "1-0"}]
    changed = [
        {"subscriber": one, "generation": generation, "connected": True, "subscriptions": held}
        for one, generation in claimed.items()
    ]
    client.heartbeat("a", {"changed": changed})
