"""`tocsin bench`: the figures we promise, each beside a peer measured in the same run."""

from __future__ import annotations

import typer

app = typer.Typer(help="Measure: each figure beside a peer, in the same run.", no_args_is_help=True)
