"""`tocsin cluster`: run the data cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.terminal import fail
from tocsin.errors import TocsinError
from tocsin.runtime.folders import refuse_locked
from tocsin.settings import ClusterSettings


def run_cluster(
    data_dir: Annotated[Path | None, typer.Option(help="The folder of all durable data. [default: data]")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8600]")] = None,
    master: Annotated[str | None, typer.Option(help="Spark master. [default: local[*]]")] = None,
    import_folder: Annotated[
        list[Path] | None, typer.Option(help="LOAD and FOLDER feeds may read below this folder too; may be repeated.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings, in a table named cluster.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. [default: info]")] = None,
) -> None:
    """Run the data cluster: datasets, feeds, channels and results, with its HTTP API.

    Stops cleanly on SIGTERM or Ctrl-C. After a crash, start it again: that is the whole recovery.
    """
    from tocsin.runtime.logs import configure_logging

    overrides = {
        "data_dir": data_dir,
        "host": host,
        "port": port,
        "spark_master": master,
        "import_folders": tuple(import_folder) if import_folder else None,
        "log_level": log_level,
    }
    try:
        settings = ClusterSettings.load(config, overrides=overrides)
        configure_logging(settings.log_level)
        refuse_locked(settings.data_dir / "landing", "the landing log")
        # Spark and related packages take a second to import; whoever is refused should not wait for them.
        from tocsin.cluster.server import serve

        serve(settings)
    except TocsinError as exc:
        fail(str(exc))
