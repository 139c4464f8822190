"""TLS by two settings."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from integration.live import PATIENCE_S, wait_until
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import start_server, stop
from unit.runtime.certificates import write_certificate


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[int]:
    """A broker that serves TLS, though it finds neither cluster nor coordinator; its port."""
    certificate, key = write_certificate(tmp_path)
    port, nobody = free_port(), f"http://127.0.0.1:{free_port()}"
    options = ["--cluster-url", nobody, "--coordinator-url", nobody]
    settings = {"tls_certificate": certificate, "tls_key": key}
    process = start_server("broker", tmp_path / "data", port, tmp_path / "broker.log", settings, options)
    try:
        yield port
    finally:
        stop(process)


def test_websockets_over_tls(broker: int, tmp_path: Path) -> None:
    """A client that trusts the certificate is served; one that does not, or speaks no TLS, gets nowhere."""
    trusting = ssl.create_default_context(cafile=tmp_path / "certificate.pem")

    def is_up() -> bool:
        try:
            # It serves, and says that it can't do its work yet.
            return httpx.get(f"https://localhost:{broker}/healthz", verify=trusting).status_code == 503
        except httpx.ConnectError:
            return False

    wait_until(is_up, "the broker serves TLS")
    with connect(f"wss://localhost:{broker}/v1/connect", ssl=trusting, compression=None) as socket:
        socket.send(json.dumps({"type": "hello", "token": "x"}))
        assert json.loads(socket.recv(PATIENCE_S))["temporary"]
    with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(f"https://localhost:{broker}/healthz")
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"http://localhost:{broker}/healthz")
