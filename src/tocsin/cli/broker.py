"""`tocsin broker`: run a broker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.terminal import fail
from tocsin.errors import TocsinError
from tocsin.runtime.folders import refuse_locked
from tocsin.settings import BrokerSettings


def run_broker(
    name: Annotated[
        str | None, typer.Option(help="Its name, for the cluster and the coordinator. [default: broker-1]")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="The folder of its sessions. [default: data/NAME]")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on. [default: 127.0.0.1]")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on. [default: 8700]")] = None,
    url: Annotated[str | None, typer.Option(help="Its address for subscribers, if that is not host and port.")] = None,
    location: Annotated[str | None, typer.Option(help="Its location, in metres: x,y.")] = None,
    capacity: Annotated[
        float | None, typer.Option(help="Its capacity, relative to other brokers. [default: 1]")
    ] = None,
    cluster_url: Annotated[str | None, typer.Option(help="Data cluster. [default: http://127.0.0.1:8600]")] = None,
    coordinator_url: Annotated[str | None, typer.Option(help="Coordinator. [default: http://127.0.0.1:8500]")] = None,
    drain_timeout_s: Annotated[
        float | None, typer.Option(help="Seconds that moving its subscribers away may take when it ends. [default: 20]")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings, in a table named broker.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error. [default: info]")] = None,
) -> None:
    """Run a broker: subscribers connect to it, by WebSocket or Server-Sent Events.

    On SIGTERM or Ctrl-C it moves its subscribers to other brokers, then ends. After a crash, start it again: that
    is the whole recovery.
    """
    from tocsin.runtime.logs import configure_logging

    overrides = {
        "name": name,
        "data_dir": data_dir if data_dir is not None or name is None else Path("data") / name,
        "host": host,
        "port": port,
        "url": url,
        "location": location,
        "capacity": capacity,
        "cluster_url": cluster_url,
        "coordinator_url": coordinator_url,
        "drain_timeout_s": drain_timeout_s,
        "log_level": log_level,
    }
    try:
        settings = BrokerSettings.load(config, overrides=overrides)
        configure_logging(settings.log_level)
        refuse_locked(settings.data_dir, "the broker's data folder")
        from tocsin.broker.shell.server import serve

        serve(settings)
    except TocsinError as exc:
        fail(str(exc))
