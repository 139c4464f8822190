"""`tocsin coordinator`: run the coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.terminal import fail
from tocsin.errors import TocsinError
from tocsin.runtime.folders import refuse_locked
from tocsin.settings import CoordinatorSettings


def run_coordinator(
    data_dir: Annotated[
        Path | None, typer.Option(help="The folder of its database and signing key. [default: data/coordinator]")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8500]")] = None,
    placement: Annotated[
        str | None,
        typer.Option(help="nearest, round-robin, random or least-resulting-load. [default: least-resulting-load]"),
    ] = None,
    cluster_url: Annotated[
        str | None, typer.Option(help="The data cluster that the dashboard shows. [default: none]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings, in a table named coordinator.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. [default: info]")] = None,
) -> None:
    """Run the coordinator: users, tokens, brokers and placement, with its HTTP API and the dashboard.

    Stops cleanly on SIGTERM or Ctrl-C. After a crash, start it again: it remembers everything. With PostgreSQL it
    stands by while another coordinator works on the same database.
    """
    from tocsin.runtime.logs import configure_logging

    overrides = {
        "data_dir": data_dir,
        "host": host,
        "port": port,
        "placement": placement,
        "cluster_url": cluster_url,
        "log_level": log_level,
    }
    try:
        settings = CoordinatorSettings.load(config, overrides=overrides)
        configure_logging(settings.log_level)
        refuse_locked(settings.data_dir, "the coordinator's data folder")
        from tocsin.coordinator.server import serve
        from tocsin.dashboard.mount import dashboard

        serve(settings, [dashboard])
    except TocsinError as exc:
        fail(str(exc))
