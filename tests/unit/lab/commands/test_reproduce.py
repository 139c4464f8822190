"""`tocsin reproduce debs19`: what it prints and leaves behind. The simulations themselves are made by hand here."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.cli.main import app
from tocsin.errors import InvalidValue
from tocsin.lab.experiments.debs19 import report, running
from tocsin.lab.experiments.debs19.claims import CLAIMS
from tocsin.lab.experiments.debs19.variants import Variant
from tocsin.simulator.timeline import Run
from worlds.made_runs import made_plan, made_run

pytestmark = pytest.mark.shell


def hand_made(variants: Iterable[Variant], seed: int, share: float, done: Callable[[str], None]) -> dict[str, Run]:
    runs = {one.name: made_run([[1e6, 2e6]] * 31, plans=[made_plan()]) for one in variants}
    for name in runs:
        done(name)
    return runs


@pytest.fixture(autouse=True)
def _no_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run_variants", hand_made)


def test_json_is_one_object() -> None:
    """For machines, with every claim; claims that fail are findings, and the exit code is 0."""
    result = CliRunner().invoke(app, ["reproduce", "debs19", "--seed", "7", "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["seed"] == 7
    assert [one["id"] for one in document["claims"]] == [claim.id for claim in CLAIMS]
    assert not all(one["holds"] for one in document["claims"])
    assert document["wall_s"] >= 0
    assert "DEBS" in document["paper"]


def test_the_table_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints the claims and writes the page; what is written does not depend on how long it took."""
    monkeypatch.setattr(report, "paper_figures", lambda _: [])
    result = CliRunner().invoke(app, ["reproduce", "debs19", "--out", str(tmp_path / "report")], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert "nearest-is-skewed" in result.stdout
    assert (tmp_path / "report" / "report.html").exists()
    assert "wall" not in (tmp_path / "report" / "claims.json").read_text()


def test_what_goes_wrong_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["reproduce", "debs19", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "in its way" in result.stderr

    def refused(*_: object) -> dict[str, Run]:
        raise InvalidValue("no such preset")

    monkeypatch.setattr(running, "run_variants", refused)
    assert CliRunner().invoke(app, ["reproduce", "debs19"]).exit_code == 1
