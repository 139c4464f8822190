"""`pip install tocsin`, as somebody does who wants to subscribe: it is small, and it is enough."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from documentation import ROOT, blocks_of
from integration.live import PATIENCE_S
from tocsin.cli.commands import COMMANDS
from tocsin.client import ClusterClient
from tocsin.testing.network import running_network

# The README's statements need a system of their own, and the environment is made once for all tests here.
pytestmark = [pytest.mark.shell, pytest.mark.system]

#: 22 packages of 20 MB when this was written, compiled files not counted. A new version of one may be a little larger;
#: a new dependency has to be looked at.
_MOST_PACKAGES = 22
_MOST_MB = 22
_OF_SERVERS = {
    *("alembic", "deltalake", "fastapi", "matplotlib", "numba", "numpy", "pandas", "pyarrow", "pyspark", "sqlalchemy"),
    *("sqlglot", "uvicorn", "cryptography", "llvmlite", "psutil", "structlog"),
}
_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]


@dataclass(frozen=True)
class Light:
    """An environment with the wheel and what it asks for."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Somewhere else, and with nothing that leads to the sources."""
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=self.folder,
            env=_clean_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
            **options,
        )

    @contextmanager
    def running(self, program: Path) -> Iterator[subprocess.Popen[str]]:
        """Whoever waits for its output in vain reads its end instead."""
        command, output = [str(self.python), "-u", str(program)], subprocess.PIPE
        with subprocess.Popen(command, cwd=self.folder, env=_clean_environment(), stdout=output, text=True) as process:
            impatience = threading.Timer(PATIENCE_S, process.kill)
            impatience.start()
            try:
                yield process
            finally:
                impatience.cancel()
                process.kill()


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Light:
    """Versions are those of the lock, so that the same is installed every time."""
    folder = tmp_path_factory.mktemp("light")
    constraints, lock = folder / "constraints.txt", (ROOT / "requirements.lock").read_text()
    constraints.write_text("\n".join(re.findall(r"^[\w.-]+==[^\\\n]+", lock, re.MULTILINE)))
    wheel = ["wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run([*_PIP, *wheel], check=True)
    (built,) = folder.glob("*.whl")
    made = Light(folder / "venv")
    venv.create(made.folder, symlinks=True)
    install = ["install", "--no-compile", "--retries=1", "--timeout=15", f"--constraint={constraints}", str(built)]
    done = subprocess.run([*_PIP, "--python", str(made.python), *install], capture_output=True, text=True, check=False)
    if done.returncode and re.search(r"connection broken by|timed out", done.stderr):
        say = pytest.fail if os.environ.get("CI") else pytest.skip
        say("pip reaches no package registry, so the SDK can't be installed")
    assert done.returncode == 0, done.stderr
    return made


def test_it_brings_little(light: Light) -> None:
    """Few packages of few megabytes, and none of those that only servers need."""
    (packages,) = light.folder.glob("lib/python*/site-packages")
    names = {path.name.partition("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert names & _OF_SERVERS == set()
    assert "httpx" in names
    assert len(names) <= _MOST_PACKAGES, sorted(names)
    size_mb = sum(file.stat().st_size for file in packages.rglob("*") if file.suffix != ".pyc") / 1e6
    assert size_mb <= _MOST_MB


def test_commands_of_servers_say_what_to_install(light: Light) -> None:
    """All commands are listed; one whose extra is missing names it in one line, with exit code 1."""
    listing = light.run("tocsin", "--help")
    assert listing.returncode == 0, listing.stderr
    assert [name for name in COMMANDS if f" {name} " not in listing.stdout] == []
    for name, extra in (("up", "cluster"), ("broker", "server"), ("simulate", "lab")):
        done = light.run("tocsin", name)
        assert done.returncode == 1
        said = rf"`tocsin {name}` needs \w+, which is not installed: pip install 'tocsin\[{extra}\]'\n"
        assert re.fullmatch(said, done.stderr), done.stderr


def test_the_readme_works_with_it(light: Light, tmp_path: Path) -> None:
    """Its statements, its subscriber and its publisher, from an environment without Spark, on a running system."""
    readme = blocks_of(ROOT / "README.md")
    (statements,) = [block.text for block in readme if block.language == "sql"]
    (program,) = [block.text for block in readme if block.language == "python"]
    (record,) = re.findall(r"echo '(\{.*\})'", "\n".join(block.text for block in readme if block.language == "sh"))
    (tmp_path / "first.sql").write_text(statements)
    with running_network(tmp_path / "network", cluster={"warm_up_max_s": 0}, brokers={"light-1": {}}) as network:
        url, coordinator_url = network.cluster.url, network.coordinator.url
        created = light.run("tocsin", "sql", "-f", str(tmp_path / "first.sql"), "--url", url)
        assert created.returncode == 0, created.stderr
        body = {"name": "ann", "password": "correct horse"}
        httpx.post(f"{coordinator_url}/v1/users", json=body).raise_for_status()
        program = program.replace("http://127.0.0.1:8500", coordinator_url).replace("…", "correct horse")
        (tmp_path / "watch.py").write_text(f"import asyncio\n{program}\n\nasyncio.run(watch())\n")
        with light.running(tmp_path / "watch.py") as watching, network.cluster.client() as client:
            _until_subscribed(client, "EmergenciesNear")
            published = light.run("tocsin", "publish", "reports", "--wait", "--url", url, input=record)
            assert published.returncode == 0, published.stderr
            assert watching.stdout is not None
            assert watching.stdout.readline() == "Smoke over the harbour\n"


def _until_subscribed(client: ClusterClient, channel: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not next(one for one in client.status()["channels"] if one["name"] == channel)["subscriptions"]:
        assert time.monotonic() < deadline_s, "nobody has subscribed"
        time.sleep(0.05)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TOCSIN", "VIRTUAL"))}
