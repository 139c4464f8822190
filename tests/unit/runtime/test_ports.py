"""Ports: which one is free, and who listens on it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tocsin.errors import InvalidValue
from tocsin.runtime import ports
from tocsin.runtime.ports import check_port, is_listening

pytestmark = pytest.mark.shell


@pytest.fixture
def busy() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_busy_port_is_refused_with_who_has_it(busy: int) -> None:
    """And with what to do about it."""
    answer = rf"the broker: port {busy} is in use by process {os.getpid()} \(.*\); give another with --port"
    with pytest.raises(InvalidValue, match=answer):
        check_port("127.0.0.1", busy, "the broker")


def test_who_has_a_port_is_said_in_one_line() -> None:
    """Though what was typed to start it has several."""
    program = "import socket, sys\nserver = socket.create_server(('127.0.0.1', 0))\n"
    program += "print(server.getsockname()[1], flush=True)\nsys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        with pytest.raises(InvalidValue) as refused:
            check_port("127.0.0.1", port, "the broker")
        other.communicate()
    assert f"process {other.pid} ({sys.executable} -c import socket" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_free_port_passes_and_stays_free(busy: int) -> None:
    """Also one that was in use a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()
    check_port("127.0.0.1", port, "the broker")
    check_port("127.0.0.1", port, "the broker")


@pytest.mark.parametrize(("host", "port"), [("192.0.2.1", 8700), ("127.0.0.1", 70_000)])
def test_what_cannot_be_listened_on_is_said(host: str, port: int) -> None:
    """An address that is not this machine's, a number that is no port."""
    with pytest.raises(InvalidValue, match="the broker: "):
        check_port(host, port, "the broker")


def test_an_answer_is_only_as_good_as_who_gives_it(busy: int) -> None:
    """Somebody listens there, and it is this process and no other."""
    assert is_listening(os.getpid(), busy)
    assert not is_listening(os.getppid(), busy)
    assert not is_listening(2**22, busy)


def test_no_port_is_given_twice() -> None:
    """However many ask at once: the second of two would answer for the first, and the first would be gone."""
    with ThreadPoolExecutor(16) as pool:
        given = list(pool.map(lambda _: ports.free_port(), range(200)))
    assert len(set(given)) == 200


def test_a_port_that_somebody_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(ports, "_PORTS", (port, port + 2))
        monkeypatch.setattr(ports, "_given", set())
        assert ports.free_port() != port
