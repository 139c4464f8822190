"""`tocsin demo`: the emergency application, start to finish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tocsin.cli.terminal import AsJson
from tocsin.experiments.emergency.demo import DemoOptions
from tocsin.experiments.emergency.demo import run_demo as run_emergency_demo


def run_demo(
    seconds: Annotated[float, typer.Option(help="How long to publish.")] = 40.0,
    users: Annotated[int, typer.Option(help="People who move about.")] = 60,
    subscriptions: Annotated[int, typer.Option(help="Subscriptions over the seven channels.")] = 140,
    reports_per_s: Annotated[int, typer.Option(help="Emergency reports a second.")] = 10,
    seed: Annotated[int, typer.Option(help="The same seed makes the same city and reports.")] = 0,
    roads: Annotated[Path | None, typer.Option(help="A WKT file whose LINESTRINGs are the city's roads.")] = None,
    brokers: Annotated[int, typer.Option(min=1, max=20, help="Brokers that share the people.")] = 3,
    as_json: AsJson = False,
) -> None:
    """Run the emergency application, from publishers to people who are told; ends by itself with a summary.

    Everything is real: a cluster, a coordinator, brokers, one of which is taken down on the way, and subscribers.
    """
    options = DemoOptions(seconds, users, subscriptions, reports_per_s, seed, roads, brokers)
    raise typer.Exit(run_emergency_demo(options, as_json=as_json))
