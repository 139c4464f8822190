"""The `tocsin` command."""

from __future__ import annotations

import typer

from tocsin import __version__
from tocsin.cli import (
    balance,
    bench,
    broker,
    brokers,
    cluster,
    coordinator,
    dead_letters,
    demo,
    doctor,
    down,
    experiment,
    forget,
    plan,
    prepare,
    publish,
    reproduce,
    results,
    simulate,
    sql,
    status,
    subscribe,
    terminal,
    up,
    users,
)
from tocsin.errors import TocsinError
from tocsin.settings import check_environment

app = typer.Typer(
    name="tocsin",
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
        terminal.fail(str(exc))


app.command("up")(up.run_up)
app.command("status")(status.run_status)
app.command("down")(down.run_down)
app.command("cluster")(cluster.run_cluster)
app.command("coordinator")(coordinator.run_coordinator)
app.command("broker")(broker.run_broker)
app.command("sql")(sql.run_sql)
app.command("publish")(publish.run_publish)
app.command("subscribe")(subscribe.run_subscribe)
app.command("results")(results.run_results)
app.command("forget")(forget.run_forget)
app.command("doctor")(doctor.run_doctor)
app.command("prepare")(prepare.run_prepare)
app.command("demo")(demo.run_demo)
app.command("simulate")(simulate.run_simulate)
app.command("plan")(plan.run_plan)
app.command("balance")(balance.run_balance)
app.command("audit")(balance.run_audit)
app.command("drain")(brokers.drain)
app.command("cordon")(brokers.cordon)
app.command("uncordon")(brokers.uncordon)
app.add_typer(dead_letters.app, name="dead-letters")
app.add_typer(users.app, name="users")
app.add_typer(brokers.app, name="brokers")
app.add_typer(bench.app, name="bench")
app.add_typer(reproduce.app, name="reproduce")
app.add_typer(experiment.app, name="experiment")
