"""`tocsin doctor`: checks that a cluster has everything it needs."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import httpx
import psutil
import typer

from tocsin.cli.connecting import DEFAULT_URL, Token, Url
from tocsin.cli.terminal import AsJson, out, print_json
from tocsin.client import ClusterClient, ServerError
from tocsin.errors import TocsinError
from tocsin.runtime.java import archive_of, find_java

_NEEDED_MEMORY_GB = 4
_NEEDED_DISK_GB = 2


def run_doctor(
    data_dir: Annotated[Path, typer.Option(help="The cluster's data directory.")] = Path("data"),
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Check Python, Java, packages, memory, disk and, if one runs, the cluster. Exit code 1 if something is wrong."""
    checks = [_python(), _java(), _packages(), _memory(), _disk(data_dir), _sync_speed(data_dir), _cluster(url, token)]
    if as_json:
        print_json({"healthy": all(check["ok"] for check in checks), "checks": checks})
    else:
        for check in checks:
            out.print(
                f"{'[green]ok[/green]   ' if check['ok'] else '[red]wrong[/red]'} {check['name']:9} {check['found']}"
            )
    if not all(check["ok"] for check in checks):
        raise typer.Exit(1)


def _check(name: str, ok: bool, found: str) -> dict[str, Any]:
    return {"name": name, "ok": ok, "found": found}


def _python() -> dict[str, Any]:
    return _check("python", sys.version_info >= (3, 11), f"{sys.version.split()[0]} at {sys.executable}")


def _java() -> dict[str, Any]:
    try:
        java = find_java()
    except TocsinError as exc:
        return _check("java", False, str(exc))
    found = f"{java.version} from {java.source} at {java.home}"
    if not archive_of(java).is_file():
        found += "; Spark's classes are not archived: `tocsin prepare` makes clusters start faster"
    return _check("java", True, found)


def _packages() -> dict[str, Any]:
    names = ("pyspark", "deltalake", "pyarrow", "sqlglot")
    try:
        return _check("packages", True, ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))
    except importlib.metadata.PackageNotFoundError as exc:
        return _check("packages", False, f"{exc.name} is not installed: pip install 'tocsin[cluster]'")


def _memory() -> dict[str, Any]:
    free_gb = psutil.virtual_memory().available / 2**30
    return _check("memory", free_gb >= _NEEDED_MEMORY_GB, f"{free_gb:.1f} GB free; a cluster needs {_NEEDED_MEMORY_GB}")


def _disk(data_dir: Path) -> dict[str, Any]:
    folder = data_dir if data_dir.exists() else Path()
    free_gb = shutil.disk_usage(folder).free / 2**30
    return _check("disk", free_gb >= _NEEDED_DISK_GB, f"{free_gb:.1f} GB free at {folder.resolve()}")


def _sync_speed(data_dir: Path) -> dict[str, Any]:
    """How long a sync of the disk takes: an acknowledgement waits for one."""
    with tempfile.NamedTemporaryFile(dir=data_dir if data_dir.exists() else None) as file:
        begin = time.perf_counter()
        for _ in range(10):
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        each_ms = (time.perf_counter() - begin) * 100
    return _check("sync", each_ms < 100, f"{each_ms:.1f} ms to put a record on disk")


def _cluster(url: str, token: str) -> dict[str, Any]:
    try:
        with ClusterClient(url, token=token, timeout_s=5) as client:
            status = client.status()
    except httpx.TransportError:
        port = httpx.URL(url).port or 80
        with socket.socket() as probe:
            taken = probe.connect_ex(("127.0.0.1", port)) == 0
        found = (
            f"something else listens on port {port}" if taken else f"none at {url} (fine if you have not started one)"
        )
        return _check("cluster", not taken, found)
    except ServerError as exc:
        return _check("cluster", False, f"{url} answers: {exc}")
    failing = [channel["name"] for channel in status["channels"] if channel["last_error"]]
    pending = status["landing"]["pending_bytes"]
    found = f"{status['state']}, {len(status['channels'])} channels, {pending} bytes pending"
    return _check(
        "cluster", status["state"] == "ready" and not failing, found + (f"; failing: {failing}" if failing else "")
    )
