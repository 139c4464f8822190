"""`tocsin up`, `status` and `down` as a new user meets them, in an empty folder, on real processes.

Most run with the coordinator alone (`small_up.py`): it starts within a second, and what is tested is the same for all.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import psutil
import pytest
from typer.testing import CliRunner

from integration.live import wait_until
from tocsin.cli.main import app
from tocsin.runtime.folders import locked_folder
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import stop
from tocsin.runtime.run_records import processes_of, read_record

_TESTS = Path(__file__).parents[1]
#: What has to be said is said within 2 s on a quiet machine. On one with ten times the work Python alone takes 15 s:
#: this tells what hangs from what is slow.
_SAID_WITHIN_S = 60.0
#: A process that is stuck is given one second here (`small_up.py`).
_ENDED_WITHIN_S = 20.0


class Folder:
    """An empty folder, and the commands that somebody types there."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.data = folder / "data"

    def start(self, *options: str, only: str = "coordinator") -> subprocess.Popen[str]:
        command = ["up", "--json", f"--{only}-port", str(self.port), *options]
        return subprocess.Popen(
            [sys.executable, "-m", "integration.small_up", *command],
            cwd=self.folder,
            env=_environment() | {"SMALL_UP": only},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[str]]:
        """`tocsin up`, ready; it is ended with the block."""
        process = self.start()
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("{"), line
            yield process
        finally:
            stop(process)  # type: ignore[arg-type]
            assert process.stdout is not None
            process.stdout.close()

    def run(self, *arguments: str) -> tuple[int, str]:
        """A command's exit code and what it printed. It takes no longer than anybody would wait."""
        done = subprocess.run(
            [sys.executable, "-m", "integration.small_up", *arguments],
            cwd=self.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_SAID_WITHIN_S,
            check=False,
        )
        return done.returncode, done.stdout.strip()

    def ask(self, *arguments: str) -> tuple[int, str]:
        """The same for a command that starts nothing, and need not be a process of its own."""
        with chdir(self.folder):
            done = CliRunner().invoke(app, arguments)
        return done.exit_code, done.output.strip()

    def status(self) -> tuple[int, dict[str, Any]]:
        code, text = self.ask("status", "--json")
        return code, json.loads(text)

    @property
    def pid_files(self) -> dict[str, int]:
        return {file.stem: int(file.read_text()) for file in (self.data / "logs").glob("*.pid")}


def _environment() -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("TOCSIN_")}
    path = os.pathsep.join(filter(None, (str(_TESTS), str(_TESTS.parent / "src"), plain.get("PYTHONPATH"))))
    return plain | {"PYTHONPATH": path}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_up_twice_in_one_folder_is_refused_and_the_first_goes_on(folder: Folder) -> None:
    """One line, exit code 1, and what runs keeps its processes, its pid files and its readiness."""
    with folder.up() as up:
        before = folder.pid_files
        code, said = folder.run("up", "--coordinator-port", str(free_port()))
        assert code == 1
        assert said.startswith("the data folder data is in use: `tocsin up` runs there since ")
        assert f"(process {up.pid})" in said
        assert "`tocsin status` shows it, `tocsin down` ends it" in said
        assert len(said.splitlines()) == 1
        assert folder.pid_files == before == {"coordinator": before["coordinator"]}
        assert folder.status()[0] == 0


def test_a_busy_port_is_said_in_one_line_and_nothing_is_started(folder: Folder) -> None:
    """Though what answers there says that it is ready: it is not taken for ours, and neither touched."""

    class Foreign(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"state": "ready"}')

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", folder.port), Foreign)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        code, said = folder.run("up", "--coordinator-port", str(folder.port))
        assert code == 1
        assert said.startswith(f"coordinator: port {folder.port} is in use by process {os.getpid()} (")
        assert said.endswith("give another with --coordinator-port")
        assert not (folder.data / "logs").exists()
        assert httpx.get(f"http://127.0.0.1:{folder.port}").text == '{"state": "ready"}'
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("command", ["up", "cluster", "coordinator", "broker"])
def test_a_folder_that_cannot_be_used_is_said_at_once(folder: Folder, command: str) -> None:
    """By whoever would use it: one line that names the folder and why, exit code 1."""
    code, said = folder.run(command, "--data-dir", "/proc/nope")
    assert code == 1
    assert "data folder /proc/nope can't be used: " in said
    assert len(said.splitlines()) == 1


def test_what_up_has_started_ends_with_it_however_it_ends(folder: Folder) -> None:
    """kill -9 of `tocsin up` leaves nothing behind, and the next one starts as if nothing had been."""
    with folder.up() as up:
        (pid,) = folder.pid_files.values()
        child = psutil.Process(pid)
        up.kill()
        up.wait()
        child.wait(2)
    assert folder.pid_files, "nobody was there to remove them"
    assert folder.ask("status") == (1, "nothing runs in data: start it with `tocsin up`")
    with folder.up():
        assert folder.pid_files["coordinator"] != pid
        assert folder.status()[0] == 0


def test_java_ends_with_up_too(folder: Folder) -> None:
    """The cluster's Java process is nobody's child when both are killed, and ends all the same."""

    def found() -> list[str]:
        record = read_record(folder.data)
        return [one.name() for one in processes_of(record.run)] if record is not None else []

    with folder.start(only="cluster") as up:
        wait_until(lambda: "java" in found(), "Java runs")
        up.kill()
        wait_until(lambda: not found(), "nothing is left")


def test_stale_records_of_a_reboot_are_nobodys(folder: Folder) -> None:
    """Process ids that others have by now: nothing runs, nobody is ended, and `tocsin up` starts."""
    (folder.data / "logs").mkdir(parents=True)
    with subprocess.Popen(["sleep", "60"]) as innocent:
        try:
            process = {"url": f"http://127.0.0.1:{folder.port}", "pid": innocent.pid, "began_at_us": 1, "starts": 1}
            record = {"run": "0" * 32, "pid": innocent.pid, "began_at_us": 1, "processes": {"coordinator": process}}
            (folder.data / "up.json").write_text(json.dumps(record))
            (folder.data / "logs" / "coordinator.pid").write_text(f"{innocent.pid}\n")
            (folder.data / "logs" / "broker-9.pid").write_text(f"{innocent.pid}\n")
            assert folder.status()[1]["running"] is False
            with folder.up() as up:
                assert set(folder.pid_files) == {"coordinator"}
                assert folder.status()[1]["pid"] == up.pid
            (folder.data / "up.json").write_text(json.dumps(record))
            assert folder.ask("down") == (0, "nothing runs in data")
            assert innocent.poll() is None
        finally:
            innocent.kill()


def test_status_tells_what_runs_where_since_when(folder: Folder) -> None:
    """With exit code 0 when all is ready, else 1; as a table and as JSON."""
    assert folder.ask("status") == (1, "nothing runs in data: start it with `tocsin up`")
    assert folder.status()[1] == {
        "data_dir": "data",
        "running": False,
        "ready": False,
        "pid": None,
        "since": None,
        "processes": [],
    }
    with folder.up() as up:
        code, found = folder.status()
        (process,) = found["processes"]
        assert (code, found["running"], found["ready"], found["pid"]) == (0, True, True, up.pid)
        assert process["state"] == "ready"
        assert process["url"] == f"http://127.0.0.1:{folder.port}"
        assert process["pid"] == folder.pid_files["coordinator"]
        code, said = folder.ask("status")
        assert code == 0
        assert all(text in said for text in ("coordinator", "ready", str(process["pid"]), process["url"]))
        os.kill(process["pid"], signal.SIGSTOP)
        code, found = folder.status()
        assert (code, found["running"], found["ready"]) == (1, True, False)
        assert found["processes"][0]["state"] == "no answer"
        os.kill(process["pid"], signal.SIGCONT)
        os.kill(process["pid"], signal.SIGKILL)
        wait_until(lambda: folder.status()[0] == 0, "it is ready again")
        assert folder.status()[1]["processes"][0]["starts"] == 2


@pytest.mark.parametrize("command", ["up", "status", "down"])
def test_no_folder_is_not_the_one_that_one_is_in(folder: Folder, command: str) -> None:
    """`--data-dir "$DATA"` without DATA set: files would be all over the place."""
    code, said = folder.ask(command, "--data-dir", "")
    assert code == 2
    assert "the folder's name is empty" in said
    assert list(folder.folder.iterdir()) == []


def test_hints_name_the_folder_that_was_asked_about(folder: Folder) -> None:
    """What is typed as it is written does what it says."""
    assert folder.ask("status", "--data-dir", "other")[1] == (
        "nothing runs in other: start it with `tocsin up --data-dir other`"
    )


def test_a_folder_that_somebody_else_has_is_said_with_who_it_is(folder: Folder) -> None:
    """By all three commands, in one line; whoever it is goes on."""
    held = "import sys, time; from tocsin.runtime.folders import locked_folder; from pathlib import Path\n"
    held += "with locked_folder(Path('data'), 'x'): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", held],
        cwd=folder.folder,
        env=_environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        for command in (("up",), ("status",), ("down",)):
            code, said = folder.ask(*command)
            assert code == 1
            assert f"in use by process {other.pid} (" in " ".join(said.split())
        assert other.poll() is None
        other.communicate()


def test_down_ends_what_up_has_started(folder: Folder) -> None:
    """It waits for the end, says what it did, and is content where nothing runs."""
    assert folder.ask("down") == (0, "nothing runs in data")
    with folder.up() as up:
        (pid,) = folder.pid_files.values()
        code, said = folder.ask("down")
        assert (code, said.split(" in ")[0]) == (0, "stopped coordinator")
        assert up.wait(30) == 0
        assert not psutil.pid_exists(pid)
    assert folder.pid_files == {}
    assert folder.ask("down") == (0, "nothing runs in data")


def test_up_ends_in_time_though_something_is_stuck(folder: Folder) -> None:
    """A process that does not end by itself is killed, and the rest ends in order."""
    with folder.up() as up:
        (pid,) = folder.pid_files.values()
        os.kill(pid, signal.SIGSTOP)  # It hears no SIGTERM.
        began_s = time.monotonic()
        up.send_signal(signal.SIGTERM)
        assert up.wait(_SAID_WITHIN_S) == 0
        assert time.monotonic() - began_s < _ENDED_WITHIN_S
        assert not psutil.pid_exists(pid)


def test_a_process_that_cannot_start_is_said_once(folder: Folder) -> None:
    """Not started again and again: what it said last is the reason."""
    folder.data.mkdir()
    (folder.data / "coordinator").touch()
    up = folder.start()
    said, _ = up.communicate(timeout=_SAID_WITHIN_S)
    assert up.returncode == 1
    assert "coordinator can't start: the coordinator's data folder data/coordinator can't be used: " in said
    assert "starting it again" not in said
    assert not (folder.data / "up.json").exists()


@pytest.mark.parametrize("command", ["cluster", "coordinator", "broker"])
def test_each_process_says_that_its_port_is_busy(folder: Folder, command: str) -> None:
    """In one line, exit code 1, before anything else."""
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", folder.port))
        busy.listen()
        code, said = folder.run(command, "--port", str(folder.port))
    assert code == 1
    assert f"the {command}: port {folder.port} is in use by process {os.getpid()} (" in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("command", ["cluster", "coordinator", "broker"])
def test_no_two_processes_have_one_folder(folder: Folder, command: str) -> None:
    """The second is refused in one line, with exit code 1, whatever its port."""
    with locked_folder(folder.data, "the data folder"), locked_folder(folder.data / "landing", "the landing log"):
        code, said = folder.run(command, "--data-dir", "data", "--port", str(folder.port))
    assert code == 1
    assert "is open in another process" in said
    assert len(said.splitlines()) == 1
