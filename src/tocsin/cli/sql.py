"""`tocsin sql`: statements from the command line, a file or standard input."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.connecting import DEFAULT_URL, Token, Url, connected
from tocsin.cli.terminal import AsJson, fail, out, print_json, print_rows


def run_sql(
    statements: Annotated[
        str, typer.Argument(help="Statements separated by semicolons; `-` reads standard input.")
    ] = "",
    file: Annotated[
        Path | None, typer.Option("--file", "-f", help="Read statements from a file.", exists=True, dir_okay=False)
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Carry out statements: CREATE, LOAD, INSERT, SELECT, SHOW, DESCRIBE, EXPLAIN, PAUSE and RESUME CHANNEL, DROP."""
    if file is not None:
        statements = file.read_text()
    elif statements == "-":
        statements = sys.stdin.read()
    if not statements.strip():
        fail("no statement given; try: tocsin sql 'SHOW CHANNELS'")
    with connected(url, token) as client:
        answers = client.sql(statements)
    if as_json:
        print_json(answers)
        return
    for answer in answers:
        if not answer["columns"]:
            out.print(answer["message"], markup=False)
        elif answer["columns"] == ["part", "text"]:
            for part, text in answer["rows"]:
                out.print(f"[bold]{part}[/bold]")
                out.print(text, markup=False, soft_wrap=True)
        else:
            print_rows(answer["columns"], answer["rows"])
            more = "; there are more" if answer["truncated"] else ""
            out.print(f"{answer['message']}{more}", style="dim", markup=False)
