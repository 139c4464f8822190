"""All commands of `tocsin`, loaded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from tocsin.cli.commands import LazyCommand
from tocsin.cli.main import app


def commands_of(group: Any = None, path: str = "tocsin") -> Iterator[tuple[str, Any]]:
    """Each with its words: `tocsin users add`."""
    for name, listed in (group or typer.main.get_command(app)).commands.items():
        command = listed.load() if isinstance(listed, LazyCommand) else listed
        if hasattr(command, "commands"):
            yield from commands_of(command, f"{path} {name}")
        else:
            yield f"{path} {name}", command
