"""Environment variables: one meaning each, and a misspelt one is an error."""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_tree import commands_of
from tocsin.cli.main import app
from tocsin.errors import InvalidValue
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings, check_environment
from tocsin.variables import COMMANDS, RUN, variable_of

_KINDS = (ClusterSettings, CoordinatorSettings, BrokerSettings)
_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def test_no_variable_has_two_meanings() -> None:
    """No two processes read the same variable, and commands read none that sets a process."""
    settings = [variable_of(kind.TABLE, field.name) for kind in _KINDS for field in dataclasses.fields(kind)]
    assert [name for name, count in Counter([*settings, *COMMANDS]).items() if count > 1] == []


def test_a_setting_reaches_its_process_alone() -> None:
    """The broker's address is not the cluster's, though both are called url or port somewhere."""
    environment = {"TOCSIN_CLUSTER_URL": "http://c:1", "TOCSIN_BROKER_URL": "http://b:2", "TOCSIN_CLUSTER_PORT": "3"}
    broker = BrokerSettings.load(environment=environment)
    assert (broker.url, broker.port, broker.cluster_url) == ("http://b:2", 8700, "http://127.0.0.1:8600")
    assert CoordinatorSettings.load(environment=environment) == CoordinatorSettings()
    assert ClusterSettings.load(environment=environment).port == 3


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TOCSIN_CLUSTER_PROT", "TOCSIN_CLUSTER_PORT"),
        ("TOCSIN_BROKER_MAX_CONECTIONS", "TOCSIN_BROKER_MAX_CONNECTIONS"),
        ("TOCSIN_COORDINATER_URL", "TOCSIN_COORDINATOR_URL"),
        ("TOCSIN_PASSWROD", "TOCSIN_PASSWORD"),
        ("TOCSIN_URL", "TOCSIN_CLUSTER_URL or TOCSIN_COORDINATOR_URL or TOCSIN_BROKER_URL"),
        ("TOCSIN_API_TOKEN", "TOCSIN_CLUSTER_API_TOKEN or TOCSIN_COORDINATOR_API_TOKEN"),
        ("TOCSIN_SPARK_MASTER", "TOCSIN_CLUSTER_SPARK_MASTER"),
    ],
)
def test_a_misspelt_variable_is_an_error_that_names_the_nearest(name: str, meant: str) -> None:
    """A variable that lacks its process is answered with all processes that have such a setting."""
    with pytest.raises(InvalidValue) as refused:
        check_environment({"HOME": "/", name: "1"})
    assert str(refused.value) == f"environment variable {name} is not known; did you mean {meant}?"
    with pytest.raises(InvalidValue, match=name):
        BrokerSettings.load(environment={name: "1"})


def test_one_that_is_like_none_names_the_page() -> None:
    """Also what other programs make of our name."""
    with pytest.raises(InvalidValue, match=r"TOCSIN_8600 is not known; docs/reference/settings\.md lists all"):
        check_environment({"TOCSIN_8600": "1"})


def test_every_command_refuses_a_misspelt_variable() -> None:
    """In one line, with exit code 1, before anything is done."""
    done = CliRunner().invoke(app, ["sql", "SHOW FEEDS"], env={"TOCSIN_CLUSTER_ULR": "http://127.0.0.1:1"})
    assert done.exit_code == 1
    assert "TOCSIN_CLUSTER_ULR is not known; did you mean TOCSIN_CLUSTER_URL?" in " ".join(done.stderr.split())


def test_commands_read_only_variables_that_are_known_and_on_the_page() -> None:
    """What a command's option may be given by is in `COMMANDS`, and docs/reference/settings.md says what it means."""
    read = {option.envvar for _, command in commands_of() for option in command.params if option.envvar}
    assert read <= set(COMMANDS)
    assert set(COMMANDS) - {RUN} <= read
    page = _PAGE.read_text()
    assert [name for name in COMMANDS if f"`{name}`" not in page] == []
