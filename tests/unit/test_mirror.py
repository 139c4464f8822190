"""Unit tests lie where the modules lie whose promises they state, so that either is found from the other."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from documentation import ROOT

_SOURCES = ROOT / "src" / "tocsin"
_TESTS = ROOT / "tests"
_UNIT = _TESTS / "unit"

#: Pure modules without a unit test at their place, and why.
_DECLARES = "it only declares values or ports"
_EXAMPLES = "the examples in its docstrings state all of it, and are run"
_NOT_HERE = {
    "balancing.compiled": "it only hands functions to numba",
    "broker.core.events": _DECLARES,
    "broker.core.instructions": _DECLARES,
    "client.core.events": _DECLARES,
    "client.core.options": _DECLARES,
    "cluster.channels.compiler.advice": "tests/golden/test_mistakes.py has every piece of advice as authors see it",
    "cluster.channels.compiler.allowed_nodes": _DECLARES,
    "cluster.channels.compiler.scopes": "compiler/test_resolve.py states what names mean",
    "cluster.channels.compiler.statements": _DECLARES,
    "cluster.channels.compiler.token_reader": "compiler/test_parse.py reads each kind of word, name and value with it",
    "cluster.channels.core.splitting": "tests/property/test_splitting.py",
    "cluster.datasets.core.time_columns": "only Spark can say what the SQL gives: tests/integration/test_parsing.py",
    "coordinator.registry.events": _DECLARES,
    "coordinator.registry.instructions": _DECLARES,
    "coordinator.registry.records": _EXAMPLES,
    "filters.access": "filters/test_index.py has every way in which a filter is found",
    "filters.buckets": "filters/test_index.py and tests/property/test_filters.py: what is found is what matches",
    "filters.columns": _DECLARES,
    "filters.contradictions": "filters/test_language.py has every reason",
    "filters.filter": "filters/test_normal_form.py states which form a filter has",
    "filters.postings": "filters/test_index.py and tests/property/test_filters.py: what is found is what matches",
    "filters.siblings": "filters/test_covering_set.py has sets of both sizes",
    "filters.tokens": "filters/test_language.py and protocol/test_calls.py read all kinds of tokens with it",
    "filters.words": _DECLARES,
    "model.catalogue": _DECLARES,
    "model.chance": _DECLARES,
    "model.grants": _EXAMPLES,
    "model.location": _DECLARES,
    "protocol.client_ports": _DECLARES,
    "protocol.coordination": _DECLARES,
    "protocol.frames": _EXAMPLES,
    "protocol.paths": _EXAMPLES,
    "protocol.plans": _DECLARES,
    "protocol.ports": "it only declares ports; testing/cluster_conformance states their guarantees",
    "runtime.last_words": _EXAMPLES,
    "runtime.routes": _EXAMPLES,
}


@cache
def _modules(folder: Path) -> frozenset[str]:
    """The dotted names of the modules and packages below a folder."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        parts = path.relative_to(folder).with_suffix("").parts
        found.add(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return frozenset(found)


def _stated(test: str, modules: frozenset[str]) -> str | None:
    """The module or package that a test file is for: of the same name, perhaps followed by what the file is about."""
    folder, _, name = test.rpartition(".")
    words = name.removeprefix("test_").split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    return next((one for name in names if (one := f"{folder}.{name}".lstrip(".")) in modules), None)


def _tests() -> list[str]:
    return sorted(one for one in _modules(_UNIT) if one.rpartition(".")[2].startswith("test_"))


@pytest.mark.parametrize("test", [one for one in _tests() if "." in one])
def test_every_unit_test_lies_where_its_module_lies(test: str) -> None:
    """`unit/broker/core/test_cache.py` is for `broker/core/cache.py`, and so would be `test_cache_eviction.py`. Tools
    in `tests` are mirrored like modules in `src`. Files in `unit` itself are for the repository as a whole."""
    assert _stated(test, _modules(_SOURCES)) or _stated(test, _modules(_TESTS))


def _pure() -> Iterator[str]:
    """The modules of the packages that the purity contract names."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (contract,) = [one for one in contracts if one["name"].startswith("Pure packages")]
    for name in contract["source_modules"]:
        path = _SOURCES.joinpath(*name.split(".")[1:])
        files = path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]
        for file in files:
            if file.name != "__init__.py":
                yield ".".join(file.relative_to(_SOURCES).with_suffix("").parts)


def test_every_pure_module_has_a_test_at_its_place_or_a_reason() -> None:
    """One file may be for a whole package. A reason that is not needed any more goes."""
    stated = {_stated(test, _modules(_SOURCES)) for test in _tests()}
    without = {one for one in _pure() if one not in stated and one.rpartition(".")[0] not in stated}
    assert without == set(_NOT_HERE)


@pytest.mark.parametrize("module", [name for name, reason in _NOT_HERE.items() if reason == _EXAMPLES])
def test_examples_are_there_where_they_are_the_reason(module: str) -> None:
    """A module that loses its examples loses its reason."""
    assert ">>> " in _SOURCES.joinpath(*module.split(".")).with_suffix(".py").read_text()
