"""What `tocsin up` starts, what it refuses, and what it does when a process ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tocsin.cli.system import Part, System, Wishes, parts_of
from tocsin.cli.up import banner
from tocsin.errors import InvalidValue
from tocsin.runtime.run_records import read_record


def wishes(**changes: Any) -> Wishes:
    usual = {"host": None, "cluster_port": None, "coordinator_port": None, "broker_port": None, "config": None}
    return Wishes(**{"brokers": 2, "data_dir": Path("data"), **usual, **changes})


def test_brokers_are_told_where_the_others_are() -> None:
    """By the ports that are used, whatever they are."""
    parts = {part.name: part for part in parts_of(wishes(cluster_port=1600, coordinator_port=1500), {})}
    assert {name: part.url for name, part in parts.items()} == {
        "cluster": "http://127.0.0.1:1600",
        "coordinator": "http://127.0.0.1:1500",
        "broker-1": "http://127.0.0.1:8701",
        "broker-2": "http://127.0.0.1:8702",
    }
    arguments = list(parts["broker-2"].arguments)
    assert arguments[arguments.index("--cluster-url") + 1] == "http://127.0.0.1:1600"
    assert arguments[arguments.index("--data-dir") + 1] == "data/broker-2"


def test_ports_come_from_settings_unless_the_command_line_gives_them(tmp_path: Path) -> None:
    """As for a process that is started by itself."""
    file = tmp_path / "tocsin.toml"
    file.write_text("[coordinator]\nport = 1500\n[broker]\nport = 1700\n")
    found = parts_of(wishes(config=file, coordinator_port=2500), {"TOCSIN_CLUSTER_PORT": "1600"})
    assert [part.port for part in found] == [1600, 2500, 1700, 1701]
    assert all(list(part.arguments[-2:]) == ["--config", str(file)] for part in found)


def test_servers_with_certificates_are_reached_by_tls() -> None:
    """Brokers, hints and `tocsin status` go by these addresses."""
    environment = {"TOCSIN_COORDINATOR_TLS_CERTIFICATE": "c", "TOCSIN_BROKER_HOST": "::1"}
    urls = [part.url for part in parts_of(wishes(brokers=1), environment)]
    assert urls == ["http://127.0.0.1:8600", "https://127.0.0.1:8500", "http://[::1]:8701"]


@pytest.mark.parametrize(
    ("changes", "environment", "answer"),
    [
        ({}, {"TOCSIN_BROKER_URL": "http://b:1"}, r"broker setting url: 2 brokers can't share http://b:1"),
        ({}, {"TOCSIN_CLUSTER_DATA_DIR": "/d"}, "cluster setting data_dir: `tocsin up` sets it, so '/d' would be"),
        ({}, {"TOCSIN_BROKER_NAME": "b"}, "broker setting name: `tocsin up` sets it, so 'b' would be ignored"),
        ({"host": "0.0.0.0"}, {}, "can be reached from other machines"),
        ({"cluster_port": 8702}, {}, "port 8702 would be both cluster's and broker-2's"),
        ({"broker_port": 65535}, {}, "broker-2: 65536 is no port; allowed are 1 to 65535"),
        ({"config": Path("/no/such/file.toml")}, {}, r"/no/such/file\.toml: No such file"),
    ],
)
def test_what_cannot_be_followed_is_refused(changes: dict[str, Any], environment: dict[str, str], answer: str) -> None:
    """Before anything is started, and nothing that somebody has set is ignored."""
    with pytest.raises(InvalidValue, match=answer):
        parts_of(wishes(**changes), environment)


def test_the_hints_name_the_ports_in_use() -> None:
    """With the usual ports there is nothing to be told; with others, commands have to know them."""
    usual = {"cluster": "http://127.0.0.1:8600", "coordinator": "http://127.0.0.1:8500", "broker-1": "http://b:1"}
    assert "export" not in banner(usual, Path("data"))
    hints = banner({**usual, "cluster": "http://127.0.0.1:1600"}, Path("/srv/data"))
    assert "\n  export TOCSIN_CLUSTER_URL=http://127.0.0.1:1600\n" in hints
    assert "`tocsin down --data-dir /srv/data` stops everything" in hints


async def test_a_broker_whose_name_is_anothers_is_not_started_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """That would take the name back, and end the other. One line says so; what ends otherwise is started again."""
    part = Part("broker-1", ["broker"], "127.0.0.1", 8701, "http://127.0.0.1:8701")
    system = System([part], tmp_path, "run")
    (child,) = system._children.values()
    child.log.parent.mkdir()
    child.log.write_text(
        '{"event": "this broker ends", "reason": "broker-1 was started elsewhere", "level": "error"}\n'
    )
    system.is_ready = True
    assert not system.ended(child, 78)
    assert capsys.readouterr().err == (
        "broker-1 is not started again: this broker ends: broker-1 was started elsewhere\n"
    )
    record = read_record(tmp_path)
    assert record is not None
    assert "started elsewhere" in record.processes["broker-1"].ended
    assert record.pid == os.getpid()
    assert system.ended(child, 70)
    assert "broker-1 ended with code 70; starting it again" in capsys.readouterr().err


async def test_a_process_that_was_never_ready_ends_the_start(tmp_path: Path) -> None:
    """It would end again for the same reason, for ever."""
    part = Part("coordinator", ["coordinator"], "127.0.0.1", 8500, "http://127.0.0.1:8500")
    system = System([part], tmp_path, "run")
    (child,) = system._children.values()
    child.log.parent.mkdir()
    child.log.write_text("port 8500 is in use\n")
    assert not system.ended(child, 1)
    assert system._failure == f"coordinator can't start: port 8500 is in use; see {child.log}"
