"""The table of commands: where each is, and which extra it needs. A command is imported when it is called, so that the
others work without its packages, and start without waiting for them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


@dataclass(frozen=True, slots=True)
class Entry:
    """`target` is a function, or an app with commands of its own. Its docstring begins with `help`."""

    target: str
    help: str
    #: Empty if the plain installation has all packages that the command needs.
    extra: str = ""


_BROKERS = "tocsin.cli.brokers"
COMMANDS = {
    "up": Entry("tocsin.cli.up:run_up", "Run a data cluster, a coordinator and brokers", "cluster"),
    "status": Entry("tocsin.cli.status:run_status", "Show the processes that `tocsin up` runs in a folder", "server"),
    "down": Entry("tocsin.cli.down:run_down", "End the processes that `tocsin up` runs in a folder", "server"),
    "cluster": Entry("tocsin.cli.cluster:run_cluster", "Run the data cluster", "cluster"),
    "coordinator": Entry("tocsin.cli.coordinator:run_coordinator", "Run the coordinator", "server"),
    "broker": Entry("tocsin.cli.broker:run_broker", "Run a broker", "server"),
    "sql": Entry("tocsin.cli.sql:run_sql", "Carry out statements"),
    "publish": Entry("tocsin.cli.publish:run_publish", "Publish records"),
    "subscribe": Entry("tocsin.cli.subscribe:run_subscribe", "Subscribe to channels and print notifications"),
    "results": Entry("tocsin.cli.results:run_results", "Show the results for a broker's subscriptions"),
    "forget": Entry("tocsin.cli.forget:run_forget", "Remove a person for good"),
    "dead-letters": Entry("tocsin.cli.dead_letters:app", "List, show, replay and discard dead letters"),
    "users": Entry("tocsin.cli.users:app", "Register users, list and remove them, get tokens for them"),
    "brokers": Entry(f"{_BROKERS}:app", "List brokers, cordon and drain them, choose the placement policy"),
    "drain": Entry(f"{_BROKERS}:drain", "Empty a broker"),
    "cordon": Entry(f"{_BROKERS}:cordon", "Send no new subscribers to a broker"),
    "uncordon": Entry(f"{_BROKERS}:uncordon", "Let a broker take new subscribers again"),
    "plan": Entry("tocsin.cli.plan:run_plan", "Make, show and carry out plans that even out the load"),
    "balance": Entry(
        "tocsin.cli.balance:run_balance", "Show how even the load is, and the settings of automatic balancing"
    ),
    "audit": Entry("tocsin.cli.balance:run_audit", "Show the audit log, newest first"),
    "doctor": Entry("tocsin.cli.doctor:run_doctor", "Check Python, Java, packages, memory, disk", "server"),
    "prepare": Entry("tocsin.cli.prepare:run_prepare", "Compile balancing's loops, archive Spark's classes", "cluster"),
    "simulate": Entry("tocsin.cli.simulate:run_simulate", "Simulate a network", "lab"),
    "demo": Entry("tocsin.lab.commands.demo:run_demo", "Run the emergency application", "lab"),
    "bench": Entry("tocsin.lab.commands.bench:app", "Measure: each figure beside a peer, in the same run", "lab"),
    "reproduce": Entry("tocsin.lab.commands.reproduce:app", "Reproduce a paper's evaluation, claim by claim", "lab"),
    "experiment": Entry("tocsin.lab.commands.experiment:app", "Live experiments, on processes of their own", "lab"),
}


class LazyCommand(TyperCommand):
    """Stands for a command in the listing, and loads it when it is called."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=f"{entry.help}.")
        self._entry = entry

    def load(self) -> Any:
        module, _, name = self._entry.target.partition(":")
        target = getattr(import_module(module), name)
        if isinstance(target, typer.Typer):
            return typer.main.get_group(target)
        app = typer.Typer(add_completion=False)
        app.command(self.name)(target)
        return typer.main.get_command(app)

    def make_context(self, *arguments: Any, **options: Any) -> Any:
        return self.load().make_context(*arguments, **options)


class CommandTable(TyperGroup):
    """The commands of `COMMANDS`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in COMMANDS.items():
            self.add_command(LazyCommand(name, entry))

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as exc:
            command = str(ctx.invoked_subcommand)
            extra, package = COMMANDS[command].extra, (exc.name or "").partition(".")[0]
            if not extra or package == "tocsin":
                raise
            from tocsin.cli.terminal import fail

            fail(f"`tocsin {command}` needs {package}, which is not installed: pip install 'tocsin[{extra}]'")
