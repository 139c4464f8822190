"""The look of errors, tables and JSON, for all commands."""

from __future__ import annotations

import json
import signal
import sys
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def end_on_sigterm() -> None:
    """Make SIGTERM act as Ctrl-C does: a command that is stopped also ends the servers that it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def fail(message: str) -> None:
    # The terminal wraps lines: a line break inserted here would move the caret of an error away from its column.
    err.print(message, style="red", markup=False, soft_wrap=True)
    raise typer.Exit(1)


def written(at_us: int) -> str:
    """
    >>> written(1_700_000_000_000_000)
    '2023-11-14 22:13:20'
    """
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value, default=str))


def print_answer(answer: Any, text: str, *, as_json: bool) -> None:
    """The answer for machines, or the same in words."""
    if as_json:
        print_json(answer)
    else:
        out.print(text, markup=False, soft_wrap=True)


def print_listing(answer: Any, columns: list[str], rows: list[list[Any]], *, as_json: bool) -> None:
    """The answer for machines, or a table of it."""
    if as_json:
        print_json(answer)
    else:
        print_rows(columns, rows)


def print_rows(columns: list[str], rows: list[list[Any]]) -> None:
    """A table if it is not wider than the terminal, else a block of lines for each row, as wrapped columns can't be
    read. In a file or a pipe it is always a table."""
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
