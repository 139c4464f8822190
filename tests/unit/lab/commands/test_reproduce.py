"""`tocsin reproduce debs19`: what it prints and leaves behind. The simulations themselves are made by hand here."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tocsin.cli.main import app
from tocsin.errors import InvalidValue
from tocsin.lab.experiments.debs19 import evaluation, probe, report
from tocsin.lab.experiments.debs19.claims import CLAIMS
from tocsin.lab.experiments.debs19.running import Job, Ran
from tocsin.lab.experiments.youth import Youth
from tocsin.simulator.timeline import Run
from worlds.made_runs import made_plan, made_run

pytestmark = pytest.mark.shell


def hand_made(jobs: Sequence[Job], done: Callable[[str], None], kept: Path | None) -> Ran:
    runs: dict[int, dict[str, Run]] = {}
    for job in jobs:
        made = made_run([[1e6, 2e6]] * 31, plans=[made_plan()])
        runs.setdefault(job.seed, {})[job.variant.name] = made
        done(job.variant.name)
    return Ran(runs, 1.0 if kept is None else 0.0)


@pytest.fixture(autouse=True)
def _no_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "run_jobs", hand_made)
    monkeypatch.setattr(probe, "YOUTH", Youth(("model",), lambda: {"made by hand": {"cov": 0.1}}))


def test_json_is_one_object() -> None:
    """For machines, with every claim; claims that fail are findings, and the exit code is 0."""
    result = CliRunner().invoke(app, ["reproduce", "debs19", "--seed", "7", "--seeds", "2", "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["seeds"] == [7, 8]
    assert [one["id"] for one in document["claims"]] == [claim.id for claim in CLAIMS]
    assert not all(one["holds"] for one in document["claims"])
    assert document["wall_s"] >= 0
    assert document["cpu_s"] == 1.0
    assert document["experiments"]
    assert "DEBS" in document["paper"]


def test_the_table_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints the claims and writes the page; what is written does not depend on how long it took."""
    monkeypatch.setattr(report, "paper_figures", lambda _: [])
    arguments = ["reproduce", "debs19", "--seeds", "1", "--out", str(tmp_path / "report")]
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    assert "nearest-is-skewed" in result.stdout
    assert (tmp_path / "report" / "report.html").exists()
    claims = (tmp_path / "report" / "claims.json").read_text()
    assert "wall" not in claims
    assert json.loads(claims)["made_by"]["probe"] == {"made by hand": {"cov": 0.1}}


def test_a_quick_look_is_no_report_to_keep(tmp_path: Path) -> None:
    """Its page does not claim to be made by the code as it is: it is not the evaluation."""
    result = CliRunner().invoke(app, ["reproduce", "debs19", "--quick", "--out", str(tmp_path / "report")])
    assert result.exit_code == 0, result.output
    assert "made_by" not in (tmp_path / "report" / "claims.json").read_text()


def test_what_goes_wrong_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(app, ["reproduce", "debs19", "--out", str(tmp_path / "file")])
    assert result.exit_code == 1
    assert "in its way" in result.stderr

    def refused(*_: object) -> Ran:
        raise InvalidValue("no such preset")

    monkeypatch.setattr(evaluation, "run_jobs", refused)
    assert CliRunner().invoke(app, ["reproduce", "debs19"]).exit_code == 1


def test_a_report_can_be_confirmed(tmp_path: Path) -> None:
    """Without running anything but its probe; a report that would come out otherwise is refused."""
    arguments = ["reproduce", "debs19", "--seeds", "1", "--out", str(tmp_path)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    confirm = ["reproduce", "debs19", "--confirm", str(tmp_path)]
    assert "would be made again" in CliRunner().invoke(app, confirm).stdout
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert claims["made_by"]["confirmed"] == claims["made_by"]["fingerprint"]
    (tmp_path / "claims.json").write_text(json.dumps({**claims, "made_by": {}}))
    refused = CliRunner().invoke(app, confirm)
    assert refused.exit_code == 1
    assert "is old" in refused.stderr
    assert CliRunner().invoke(app, ["reproduce", "debs19", "--confirm", str(tmp_path / "none")]).exit_code == 1
