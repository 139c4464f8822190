"""A PostgreSQL server of the tests' own: Debian's programs, a data folder of its own, no password, no fsync."""

from __future__ import annotations

import getpass
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

#: Debian keeps the programs of each version apart, and puts only clients on PATH.
_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
_STARTED_WITHIN_S = 60


def programs() -> Path | None:
    """The folder of the server's programs; None if it is not installed."""
    on_path = shutil.which("initdb")
    return next(iter(_FOLDERS), Path(on_path).parent if on_path else None)


class PostgresqlServer:
    """Listens on a socket in its folder, and nowhere else unless it is given a port of the loopback."""

    def __init__(self, port: int = 0, options: Sequence[str] = ()) -> None:
        if (found := programs()) is None:
            pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
        self._programs = found
        self._user = _user()
        # Below a folder that pytest makes, another user could not reach it.
        self.folder = Path(tempfile.mkdtemp(prefix="tocsin-postgresql-"))
        self._data = self.folder / "data"
        self.port = port or 5432
        where = ["-h", "127.0.0.1" if port else "", "-p", str(self.port), "-k", str(self.folder)]
        self._options = [*where, "-c", "fsync=off", *(part for one in options for part in ("-c", one))]
        if self._user:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "-D", str(self._data), "-U", "tocsin", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8")
        self.start()

    def url(self, database: str, user: str = "tocsin") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}&port={self.port}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement as the superuser; returns its rows, columns separated by |."""
        address = f"host={self.folder} port={self.port} user=tocsin dbname={database}"
        psql = [str(self._programs / "psql"), "-XAtq", "-v", "ON_ERROR_STOP=1", "-d", address, "-c", statement]
        return subprocess.run(psql, check=True, capture_output=True, text=True, timeout=60).stdout.strip()

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self._data), *self._options],
                stdout=log,
                stderr=log,
                user=self._user,
                cwd=self.folder,
                # Ctrl-C is for the tests, which then stop the server.
                start_new_session=True,
            )
        ready = [str(self._programs / "pg_isready"), "-q", "-h", str(self.folder), "-p", str(self.port)]
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while subprocess.run(ready, check=False, timeout=60).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                raise AssertionError((self.folder / "log").read_text()[-2000:])
            time.sleep(0.05)

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all sessions and then the server; SIGQUIT does it as a crash would."""
        self._process.send_signal(number)
        self._process.wait(timeout=60)

    def restart(self, number: signal.Signals = signal.SIGINT) -> None:
        self.stop(number)
        self.start()

    def signal(self, number: signal.Signals) -> None:
        """The server and the processes of its sessions."""
        os.killpg(self._process.pid, number)

    def require_password(self) -> None:
        """From now on, of whoever comes by TCP."""
        rules = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (self._data / "pg_hba.conf").write_text(rules)
        self.sql("SELECT pg_reload_conf()")

    def close(self) -> None:
        if self._process.poll() is None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            check=False,
            capture_output=True,
            text=True,
            user=self._user,
            cwd=self.folder,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr


def _user() -> str | None:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {one.pw_name for one in pwd.getpwall()}
    return next((one for one in ("postgres", "nobody") if one in names), getpass.getuser())
