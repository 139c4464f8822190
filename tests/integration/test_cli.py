"""The commands against a live cluster: thin, scriptable, and plain about what goes wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from integration.live import Live
from tocsin.cli.main import app


@pytest.fixture
def tocsin(live: Live):  # type: ignore[no-untyped-def]
    def run(*arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(app, [*arguments, "--url", live.url], input=stdin, env={"COLUMNS": "200"})

    return run


def test_sql_publish_and_results_in_a_row(live: Live, tocsin, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Statements from the command line, a file or standard input; records from a file or standard input; results."""
    script = tmp_path / "schema.sql"
    script.write_text("""
        CREATE ACTIVE DATASET CliRecords (id STRING, n INT, PRIMARY KEY (id));
        CREATE FEED cli_records INTO CliRecords FROM HTTP;
        CREATE CONTINUOUS CHANNEL CliAll () AS SELECT r.id FROM CliRecords r WHERE is_new(r);
    """)
    done = tocsin("sql", "--file", str(script))
    assert done.exit_code == 0, done.output
    assert "continuous channel CliAll created" in done.output
    seat = live.broker("cli")
    seat.subscribe("CliAll")
    # Other tests of this cluster may have removed old results.
    begin = str(live.cluster.results.last_sequence)
    (tmp_path / "records.ndjson").write_text('{"id": "a", "n": 1}\n{"id": "b", "n": 2}\n')
    done = tocsin("publish", "cli_records", str(tmp_path / "records.ndjson"), "--wait", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["accepted"] == 2
    done = tocsin("publish", "cli_records", "--wait", stdin='{"id": "c"}\n{"id": "d", "n": "x"}\n')
    assert done.exit_code == 1
    assert "2 records published, 1 accepted, 1 rejected" in done.stdout
    assert "line 2" in done.stderr
    seat.take(3)
    done = tocsin("results", "cli", "--after", begin, "--json")
    results = [json.loads(line)["payload"]["id"] for line in done.stdout.splitlines()]
    assert sorted(results) == ["a", "b", "c"], done.output
    assert "CliAll" in tocsin("results", "cli", "--after", begin, "--limit", "1").stdout
    done = tocsin("sql", "-", "--json", stdin="SELECT id FROM CliRecords ORDER BY id")
    assert [row[0] for row in json.loads(done.stdout)[0]["rows"]] == ["a", "b", "c"]
    assert "Physical Plan" in tocsin("sql", "EXPLAIN CHANNEL CliAll").stdout


def test_mistakes_are_one_line_and_exit_code_1(live: Live, tocsin, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A wrong statement is shown with its place; what does not exist is named; nothing ends in a stack trace."""
    done = tocsin("sql", "SELECT * FROM Nowhere")
    assert done.exit_code == 1
    assert "Nowhere" in done.stderr
    assert "^" in done.stderr
    for arguments, words in (
        (("publish", "nowhere", str(_file(tmp_path))), "no feed called nowhere"),
        (("publish", "nowhere", str(tmp_path / "missing")), "missing"),
        (("sql", "--file", str(tmp_path / "missing")), "missing"),
        (("results", "nobody"), "no broker called nobody"),
        (("sql",), "no statement given"),
    ):
        done = tocsin(*arguments)
        assert done.exit_code in {1, 2}, (arguments, done.output)
        assert words in done.stderr
        assert "Traceback" not in done.output
        assert done.exception is None or isinstance(done.exception, SystemExit)


def test_no_cluster_is_told(tmp_path: Path) -> None:
    """Where no cluster answers, commands say so and how to start one."""
    done = CliRunner().invoke(app, ["sql", "SHOW FEEDS", "--url", "http://127.0.0.1:9"])
    assert done.exit_code == 1
    assert "tocsin cluster" in done.stderr


def test_the_doctor_looks_at_everything(live: Live, tocsin) -> None:  # type: ignore[no-untyped-def]
    """`tocsin doctor --json` reports Python, Java, packages, memory, disk, sync and the cluster."""
    done = tocsin("doctor", "--json", "--data-dir", str(live.cluster.settings.data_dir))
    report = json.loads(done.stdout)
    names = [check["name"] for check in report["checks"]]
    assert names == ["python", "java", "packages", "memory", "disk", "sync", "cluster"]
    assert report["checks"][-1]["found"].startswith("ready")
    assert done.exit_code == (0 if report["healthy"] else 1)


def _file(folder: Path) -> Path:
    file = folder / "one.ndjson"
    file.write_text('{"id": "x"}\n')
    return file
