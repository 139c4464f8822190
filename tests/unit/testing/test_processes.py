"""Servers that start side by side get ports of their own."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from tocsin.testing import processes


def test_no_port_is_given_twice() -> None:
    """However many ask at once: the second of two would answer for the first, and the first would be gone."""
    with ThreadPoolExecutor(16) as pool:
        ports = list(pool.map(lambda _: processes.free_port(), range(200)))
    assert len(set(ports)) == 200


def test_a_port_that_somebody_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setattr(processes, "_PORTS", (port, port + 2))
        monkeypatch.setattr(processes, "_given", set())
        assert processes.free_port() != port
