"""The `tocsin` command."""

from __future__ import annotations

import typer

from tocsin import __version__
from tocsin.cli.commands import CommandTable
from tocsin.errors import TocsinError
from tocsin.settings import check_environment

app = typer.Typer(
    name="tocsin",
    cls=CommandTable,
    help="Big Active Data on Spark: people subscribe to queries, not topics.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Big Active Data on Spark: people subscribe to queries, not topics."""
    del version
    try:
        check_environment()
    except TocsinError as exc:
        from tocsin.cli.terminal import fail

        fail(str(exc))
