"""Row 16: origins, TLS, what is in logs, and what the project is made of."""

from __future__ import annotations

import contextlib
import json
import random
import ssl
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import httpx
from websockets.exceptions import InvalidStatus

from audit.checks import locked_packages
from documentation import ROOT
from scorecard.row import Effort, Outcome, Row
from scorecard.secured import CHANNEL, Secured, secured
from tocsin.runtime.ports import free_port
from tocsin.runtime.processes import start_server, stop
from unit.runtime.certificates import write_certificate

_PASSWORD = "canary-password-2718281828"
_AUDIT = "Advisories are looked up, and bills of materials written, by `make audit`, where the registries serve them."


def _hygiene(effort: Effort) -> Outcome:
    bad: list[str] = []
    with secured() as system:
        token = system.register("alice", _PASSWORD)
        refused = _try_origins(system, effort, bad)
        _use_secrets(system, token)
        tokens = (system.cluster_token, system.operator_token, system.broker_token, system.publisher_token)
        lines = _look_for_canaries(system, (token, _PASSWORD, *tokens), bad)
    handshakes = _try_tls(bad)
    packages = locked_packages((ROOT / "requirements.lock").read_text())
    figures = {"log lines read": lines, "TLS handshakes tried": handshakes, "packages": len(packages)}
    return Outcome({"origins": refused}, tuple(bad), figures, (_AUDIT,))


def _try_origins(system: Secured, effort: Effort, bad: list[str]) -> int:
    chance = random.Random(effort.seed)
    own = f"http://{system.broker.host}:{system.broker.port}"
    odd = [
        "null",
        "file://",
        f"{own}.evil.example",
        f"https://{system.broker.host}:{system.broker.port}",
        own + "@evil",
    ]
    refused = 0
    for number in range(effort["origins"]):
        origin = odd[number] if number < len(odd) else f"https://{chance.randbytes(4).hex()}.example"
        try:
            with system.socket(origin=origin):
                bad.append(f"the origin {origin} was let in")
        except InvalidStatus as exc:
            refused += exc.response.status_code == 403
    with system.socket(origin=own):
        pass  # A page of its own may come.
    return refused


def _use_secrets(system: Secured, token: str) -> None:
    """Everything that is secret goes over the wire, in right and in wrong places."""
    httpx.post(f"{system.coordinator.url}/v1/tokens", json={"name": "alice", "password": _PASSWORD})
    httpx.post(f"{system.coordinator.url}/v1/tokens", json={"name": "alice", "password": _PASSWORD + "!"})
    httpx.post(f"{system.coordinator.url}/v1/users", json={"name": "alice", "password": _PASSWORD})
    httpx.post(f"{system.coordinator.url}/v1/tokens", content=_PASSWORD)
    for server in system.servers():
        for secret in (token, system.cluster_token, system.operator_token, system.broker_token, system.publisher_token):
            httpx.get(f"{server.url}/v1/status", headers={"Authorization": f"Bearer {secret}"})
            httpx.get(f"{server.url}/v1/nothing?token={secret}", headers={"Authorization": f"Bearer {secret}"})
    with system.socket() as socket:
        socket.send(json.dumps({"type": "hello", "token": token, "device": "phone"}))
        socket.recv(30)
        socket.send(json.dumps({"type": "subscribe", "channel": CHANNEL, "parameters": {"topic": 1}, "request": 1}))
        socket.send(json.dumps({"type": "hello", "token": token}))
        socket.recv(30)
    with system.socket() as socket:
        socket.send(json.dumps({"type": "hello", "token": token + "x"}))
        socket.recv(30)


def _look_for_canaries(system: Secured, canaries: tuple[str, ...], bad: list[str]) -> int:
    count = 0
    for log in system.folder.rglob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            count += 1
            bad += [f"{log.name} holds a secret: {line[:80]}…" for canary in canaries if canary in line]
    return count


def _try_tls(bad: list[str]) -> int:
    """Old versions are refused; the current ones work."""
    tried = 0
    with tempfile.TemporaryDirectory(prefix="tocsin-scorecard-") as made:
        certificate, key = write_certificate(Path(made))
        with _tls_broker(Path(made), certificate, key) as port:
            for version, works in (
                (ssl.TLSVersion.TLSv1, False),
                (ssl.TLSVersion.TLSv1_1, False),
                (ssl.TLSVersion.TLSv1_2, True),
                (ssl.TLSVersion.TLSv1_3, True),
            ):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DeprecationWarning)  # Old versions are what is tried.
                    context = ssl.create_default_context(cafile=str(certificate))
                    context.set_ciphers("DEFAULT:@SECLEVEL=0")
                    context.maximum_version = ssl.TLSVersion.TLSv1_3
                    context.minimum_version = version
                    context.maximum_version = version
                tried += 1
                if _is_served(port, context) != works:
                    bad.append(f"{version.name} is {'refused' if works else 'taken'}")
    return tried


@contextlib.contextmanager
def _tls_broker(folder: Path, certificate: Path, key: Path) -> Iterator[int]:
    """A broker that serves TLS, though it finds neither cluster nor coordinator; its port."""
    port, nobody = free_port(), f"http://127.0.0.1:{free_port()}"
    options = ["--cluster-url", nobody, "--coordinator-url", nobody]
    settings = {"tls_certificate": certificate, "tls_key": key}
    process = start_server("broker", folder / "data", port, folder / "broker.log", settings, options)
    try:
        trusting = ssl.create_default_context(cafile=str(certificate))
        deadline_s = time.monotonic() + 60
        while not _is_served(port, trusting) and time.monotonic() < deadline_s:
            time.sleep(0.1)  # It is another process that has no port yet.
        yield port
    finally:
        stop(process)


def _is_served(port: int, context: ssl.SSLContext) -> bool:
    with contextlib.suppress(httpx.TransportError):
        # It has no cluster, and says so with 503.
        return httpx.get(f"https://localhost:{port}/healthz", verify=context).status_code in (200, 503)
    return False


HYGIENE = Row(
    16,
    "Origins, TLS, secrets in logs, bill of materials",
    "all bad origins refused, 0 secrets in logs",
    full={"origins": 100},
    brief={"origins": 100},
    run=_hygiene,
)
