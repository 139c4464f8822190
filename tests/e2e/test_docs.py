"""Pages that say what to type are typed. This one comes first: the tutorial expects a Tocsin that nobody has used."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest

from documentation import ROOT
from e2e.conftest import System, shell_environment
from e2e.reading import Reader
from tocsin.testing.network import running_coordinator
from worlds.acting_broker import ActingBroker

pytestmark = pytest.mark.shell


def test_the_tutorial_does_what_it_says(system: System) -> None:
    """From the first statement to the last drop, on a real cluster, coordinator and three brokers."""
    with Reader(system.folder, system.environment, system.adapt, {"up": system.up}) as reader:
        assert reader.read(ROOT / "docs" / "tutorial.md") > 20


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
