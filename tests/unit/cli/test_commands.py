"""The table of commands: it tells the truth, and a missing extra is said in one line."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys

import pytest
import typer

from tocsin.cli.commands import COMMANDS

_PLAIN = [name for name, entry in COMMANDS.items() if not entry.extra]
#: Runs `tocsin` as if nothing but the plain installation's packages were there.
_LIGHT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in {absent}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
from tocsin.cli.main import app
{program}
"""
_OF_EXTRAS = {
    *("alembic", "cryptography", "deltalake", "fastapi", "jwt", "matplotlib", "numba", "numpy", "pandas"),
    *("prometheus_client", "psutil", "pyarrow", "pyspark", "sqlalchemy", "sqlglot", "structlog", "uvicorn"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_listing_says_what_the_command_says_of_itself(name: str) -> None:
    """The table's line is how the docstring begins."""
    entry = COMMANDS[name]
    module, _, target = entry.target.partition(":")
    found = getattr(importlib.import_module(module), target)
    text = found.info.help if isinstance(found, typer.Typer) else found.__doc__
    assert " ".join(text.split()).startswith(entry.help)


@pytest.mark.shell
def test_plain_commands_need_no_extra() -> None:
    """The listing, and each command of the plain installation."""
    program = "; ".join(f"LazyCommand({name!r}, COMMANDS[{name!r}]).load()" for name in _PLAIN)
    loading = f"from tocsin.cli.commands import COMMANDS, LazyCommand; {program}; app(['--help'])"
    done = _light(loading)
    assert done.returncode == 0, done.stderr
    assert "experiment" in done.stdout


@pytest.mark.shell
@pytest.mark.parametrize(
    ("arguments", "extra"),
    [(["status"], "server"), (["broker"], "server"), (["cluster"], "cluster"), (["bench", "channels"], "lab")],
    ids=lambda one: one if isinstance(one, str) else " ".join(one),
)
def test_a_missing_extra_is_said_in_one_line(arguments: list[str], extra: str) -> None:
    """With what to install, and exit code 1."""
    done = _light(f"app({arguments!r})")
    assert done.returncode == 1, done.stderr
    needs = rf"`tocsin {arguments[0]}` needs \w+, which is not installed: pip install 'tocsin\[{extra}\]'\n"
    assert re.fullmatch(needs, done.stderr), done.stderr


def _light(program: str) -> subprocess.CompletedProcess[str]:
    source = _LIGHT.format(absent=_OF_EXTRAS, program=program)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=False)
