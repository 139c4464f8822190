"""What the commands share: where the cluster is, how errors and tables look."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console
from rich.markup import escape
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
        fail(describe_failure(str(exc), exc.error.get("script")))
    except httpx.TransportError as exc:
        fail(f"no cluster answers at {url} ({exc}); start one with `tocsin up` or `tocsin cluster`, or give --url")
    except TocsinError as exc:
        fail(exc.pointed() if isinstance(exc, StatementError) else str(exc))


def fail(message: str) -> None:
    # The terminal wraps: a line break put in here would move the caret of a pointed message away from its place.
    err.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)


def describe_failure(message: str, script: Mapping[str, Any] | None) -> str:
    """A refusal and, of a script, what was carried out before and which statement failed.

    >>> script = {"statement": 2, "statements": 3, "line": 5, "done": ["feed f created"]}
    >>> print(describe_failure("no dataset called x", script))
    statement 1 of 3: feed f created
    statement 2 of 3, at line 5, failed; those after it were not carried out:
    no dataset called x
    """
    if not script:
        return message
    count = script["statements"]
    lines = [f"statement {number} of {count}: {text}" for number, text in enumerate(script["done"], 1)]
    if not lines:
        lines = ["nothing was carried out"]
    failed = f"statement {script['statement']} of {count}, at line {script['line']}, failed"
    rest = "; those after it were not carried out" if script["done"] and script["statement"] < count else ""
    return "\n".join([*lines, f"{failed}{rest}:", message])


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=str))


def print_rows(columns: list[str], rows: list[list[Any]]) -> None:
    """A table if it is not wider than the terminal, else a block of lines for each row, as wrapped columns can't be
    read. What goes to a file or a pipe is always a table."""
    texts = [["NULL" if value is None else str(value) for value in row] for row in rows]
    widths = [
        max((len(line) for text in column for line in text.splitlines()), default=0)
        for column in zip(columns, *texts, strict=True)
    ]
    # Two spaces and a line between columns.
    width = sum(widths) + 3 * len(columns)
    if out.is_terminal and width > out.width:
        _print_blocks(columns, texts)
        return
    table = Table(*columns, header_style="bold", show_edge=False)
    for row in texts:
        table.add_row(*map(escape, row))
    Console(file=out.file, width=max(width, out.width), highlight=False).print(table)


def _print_blocks(columns: list[str], rows: list[list[str]]) -> None:
    indent = max(map(len, columns), default=0)
    for number, row in enumerate(rows, 1):
        out.print(f"row {number}", style="bold", markup=False)
        for name, value in zip(columns, row, strict=True):
            out.print(f"  {name:{indent}}  {value}", markup=False, soft_wrap=True)
