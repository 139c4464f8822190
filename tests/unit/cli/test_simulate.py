"""`tocsin simulate`, from its arguments to what it prints."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.cli.main import app
from unit.simulator.scenarios import SMALL

pytestmark = pytest.mark.shell


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return str(path)


def test_policies_are_shown_side_by_side(file: str) -> None:
    """One run for each combination, in one table."""
    ran = CliRunner().invoke(app, ["simulate", file, "--compare", "none,gsh", "--seed", "3", "--set", "duration_s=60"])
    assert ran.exit_code == 0, ran.output
    assert "nearest/none" in ran.output
    assert "nearest/gsh" in ran.output
    assert "60 s of 150 subscribers at 4 brokers" in " ".join(ran.output.split())


def test_presets_are_listed() -> None:
    """As JSON for programs, with the paper's among them."""
    ran = CliRunner().invoke(app, ["simulate", "--list", "--json"])
    assert {"paper", "city-million"} <= json.loads(ran.stdout).keys()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "no scenario is given"),
        (["papr"], "no scenario 'papr'; did you mean paper?"),
        (["paper", "--set", "alpha"], "give a key and a value"),
        (["paper", "--set", "balancing.alfa=1"], "--set balancing.alfa=1: [balancing] alfa is no key here"),
        (["paper", "--compare", "ldn"], "'ldn' is no policy; did you mean ldm?"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(arguments: list[str], said: str) -> None:
    ran = CliRunner().invoke(app, ["simulate", *arguments])
    assert ran.exit_code == 1
    assert said in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.output
