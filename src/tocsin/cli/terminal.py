"""What the commands share: where the cluster is, how errors and tables look."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.table import Table

from tocsin import variables
from tocsin.client import ClusterClient, ServerError
from tocsin.errors import StatementError, TocsinError

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Url = Annotated[str, typer.Option("--url", envvar=variables.CLUSTER_URL, help="Address of the cluster.")]
Token = Annotated[
    str, typer.Option("--token", envvar=variables.CLUSTER_TOKEN, help="The cluster's API token.", show_default=False)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

DEFAULT_URL = "http://127.0.0.1:8600"


def end_on_sigterm() -> None:
    """As Ctrl-C does: who is told to stop takes down the servers that it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


@contextmanager
def connected(url: str, token: str) -> Iterator[ClusterClient]:
    """A client of the cluster; what goes wrong is told in one line, with exit code 1."""
    try:
        with ClusterClient(url, token=token) as client:
            yield client
    except ServerError as exc:
        fail(str(exc))
    except httpx.TransportError as exc:
        fail(f"no cluster answers at {url} ({exc}); start one with `tocsin cluster`, or give --url")
    except TocsinError as exc:
        fail(exc.pointed() if isinstance(exc, StatementError) else str(exc))


def fail(message: str) -> None:
    err.print(message, style="red", markup=False)
    raise typer.Exit(1)


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=str))


def print_rows(columns: list[str], rows: list[list[Any]]) -> None:
    table = Table(*columns, header_style="bold", show_edge=False)
    for row in rows:
        table.add_row(*("NULL" if value is None else str(value) for value in row))
    out.print(table)
