"""Settings: defaults, file, environment and command line, in that order, and a page that lists them all."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest

from tocsin.errors import InvalidValue
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_later_sources_win(tmp_path: Path) -> None:
    """The command line beats the environment, which beats the file, which beats the defaults."""
    file = tmp_path / "tocsin.toml"
    file.write_text('[cluster]\nport = 1\nhost = "file"\nselect_timeout_s = 5\nimport_folders = ["/a", "/b"]\n')
    environment = {"TOCSIN_CLUSTER_PORT": "2", "TOCSIN_CLUSTER_HOST": "environment", "OTHER": "x"}
    settings = ClusterSettings.load(file, environment, {"port": 3, "host": None})
    assert (settings.port, settings.host, settings.select_timeout_s) == (3, "environment", 5.0)
    assert settings.import_folders == (Path("/a"), Path("/b"))
    assert ClusterSettings.load(environment={}) == ClusterSettings()
    folders = ClusterSettings.load(environment={"TOCSIN_CLUSTER_IMPORT_FOLDERS": "/a:/b"}).import_folders
    assert folders == (Path("/a"), Path("/b"))


def test_mistakes_are_told(tmp_path: Path) -> None:
    """An unknown name or a value of the wrong type names the setting."""
    file = tmp_path / "tocsin.toml"
    file.write_text("[cluster]\nprot = 1\n")
    with pytest.raises(InvalidValue, match="unknown settings prot"):
        ClusterSettings.load(file, {})
    with pytest.raises(InvalidValue, match="variable TOCSIN_CLUSTER_PORT: 'many' is not a int"):
        ClusterSettings.load(environment={"TOCSIN_CLUSTER_PORT": "many"})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("[clutser]\nport = 1\n", "unknown tables clutser; known: cluster, coordinator, broker"),
        ("cluster = 1\n", "cluster is not a table"),
        ("[cluster]\nport = \n", "at line 2, column 8"),
        ("[cluster]\nport = 'many'\n", "setting port: 'many' is not a int"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, text: str, answer: str) -> None:
    """Nothing in a file is ignored: neither a table of an unknown name nor what is no TOML."""
    file = tmp_path / "tocsin.toml"
    file.write_text(text)
    with pytest.raises(InvalidValue, match=re.escape(answer)) as refused:
        ClusterSettings.load(file, {})
    assert str(file) in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """As an error of settings, since that is what was asked for."""
    with pytest.raises(InvalidValue, match=r"none\.toml: No such file"):
        ClusterSettings.load(tmp_path / "none.toml", {})


@pytest.mark.parametrize(
    ("title", "kind"),
    [("The data cluster", ClusterSettings), ("The coordinator", CoordinatorSettings), ("Brokers", BrokerSettings)],
)
def test_the_page_lists_every_setting(title: str, kind: type[Any]) -> None:
    """docs/reference/settings.md has each setting with its default, and no other."""
    section = _PAGE.read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    written = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, re.MULTILINE))
    expected = {
        field.name: ":".join(map(str, field.default)) if isinstance(field.default, tuple) else str(field.default)
        for field in dataclasses.fields(kind)
    }
    assert written == {name: default or " " for name, default in expected.items()}


def test_each_process_has_its_own_table(tmp_path: Path) -> None:
    """One file serves all processes; numbers may be written whole where fractions are allowed."""
    file = tmp_path / "tocsin.toml"
    file.write_text("[cluster]\nport = 1\n[coordinator]\nport = 2\ndead_after_s = 3\n[broker]\nport = 4\n")
    assert ClusterSettings.load(file, {}).port == 1
    coordinator = CoordinatorSettings.load(file, {"TOCSIN_COORDINATOR_HEARTBEAT_EVERY_S": "0.5"})
    assert (coordinator.port, coordinator.dead_after_s, coordinator.heartbeat_every_s) == (2, 3.0, 0.5)
    assert BrokerSettings.load(file, {"TOCSIN_BROKER_ALLOWED_ORIGINS": "http://a:1, http://b"}).allowed_origins == (
        "http://a:1",
        "http://b",
    )
