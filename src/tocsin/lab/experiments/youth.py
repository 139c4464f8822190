"""Whether a committed report is young: whether the code that is here would make it again.

A report keeps a fingerprint of the code that made it. Comments, docstrings and layout do not count. Much of that code
has nothing to do with the figures, so a report keeps the figures of a few small runs too, its probe: if the code has
changed and the probe comes out as before, the report is still young.
"""

from __future__ import annotations

import ast
import hashlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from tocsin.simulator.outputs import json_bytes, write_file

#: What decides in the network, in a simulation as in life.
DECIDING = (
    "balancing",
    "broker/core",
    "client/core",
    "coordinates",
    "coordinator/load",
    "coordinator/moves",
    "coordinator/registry",
    "model",
    "simulator",
)

Probe = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Youth:
    """`probe` makes the figures of some small runs; an experiment on real processes has none."""

    packages: tuple[str, ...]
    probe: Callable[[], Probe] | None = None

    def mark(self) -> dict[str, Any]:
        """What a report that is being made keeps."""
        return {"fingerprint": fingerprint(self.packages), "probe": self.probe() if self.probe else {}}

    def is_young(self, mark: Mapping[str, Any]) -> bool:
        """Whether the report with this mark would be made again."""
        if fingerprint(self.packages) in (mark.get("fingerprint"), mark.get("confirmed")):
            return True
        known = mark.get("probe")
        return bool(known) and self.probe is not None and known == self.probe()

    def confirm(self, file: Path) -> bool:
        """If the report would be made again, write into its JSON that this code would: the probe is then not needed."""
        document = json.loads(file.read_text())
        mark = document.get("made_by", {})
        if not self.is_young(mark):
            return False
        confirmed = {**mark, "confirmed": fingerprint(self.packages)}
        write_file(file, json_bytes({**document, "made_by": confirmed}))
        return True


def fingerprint(packages: Iterable[str]) -> str:
    """Of the code and the presets in these packages or modules of Tocsin, by their paths."""
    digest = hashlib.sha256()
    for path in packages:
        for name, text in _sources(files("tocsin").joinpath(path), path):
            digest.update(f"{name}\n{text}\n".encode())
    return digest.hexdigest()


def _sources(where: Traversable, path: str) -> Iterable[tuple[str, str]]:
    if where.is_dir():
        for one in sorted(where.iterdir(), key=lambda one: one.name):
            yield from _sources(one, f"{path}/{one.name}")
    elif path.endswith(".py"):
        yield path, code_of(where.read_text("utf-8"))
    elif path.endswith(".toml"):
        yield path, repr(tomllib.loads(where.read_text("utf-8")))


def code_of(text: str) -> str:
    """A module's code without what does nothing.

    >>> code_of('x = 1  # because') == code_of('"About."\\n\\nx = (1)')
    True
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            # A text by itself says something and does nothing.
            node.body = [one for one in node.body if not _is_text(one)] or [ast.Pass()]
    return ast.unparse(tree)


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
