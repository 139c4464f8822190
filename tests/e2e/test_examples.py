"""The examples are run as their pages say, and what they print is held against what they were given."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections import Counter
from types import ModuleType

import pytest

from documentation import ROOT
from e2e.conftest import System
from e2e.reading import Reader
from tocsin.client import ClusterClient

pytestmark = pytest.mark.shell

_QUOTES = ROOT / "examples" / "quotes"
_ALERT = re.compile(r"(?P<channel>\w+): .* \((?P<quote>\S+)\)")


def test_stock_quotes_alert_when_they_should_and_only_then(system: System) -> None:
    """Every crossing of a threshold and every large move is told once, and nothing else is."""
    folder = system.folder / "quotes"
    shutil.copytree(_QUOTES, folder)
    with Reader(folder, system.environment, system.adapt) as reader:
        reader.read(_QUOTES / "README.md")
        # What is committed later comes later: once the last alert is there, all before it are.
        with ClusterClient(system.cluster_url) as cluster:
            last = {"id": "last", "symbol": "ACME", "previous": 100, "price": 200}
            cluster.publish("quotes", [last], wait_commit=True)
        alerts = reader.terminal("alerts")
        alerts.expect("MyMoves: …, +20000.00 for you (last)")
        alerts.interrupt()
        printed = [found.group("channel", "quote") for found in map(_ALERT.fullmatch, alerts.lines()) if found]
    expected = Counter([("RisesAbove", "last"), ("MyMoves", "last")])
    for quotes in _publish_module().walk(seed=1, rounds=12):
        for quote in quotes:
            before, price = quote["previous"], quote["price"]
            expected["RisesAbove", quote["id"]] += quote["symbol"] == "ACME" and before <= 101 < price
            expected["FallsBelow", quote["id"]] += quote["symbol"] == "WAYN" and before >= 98 > price
            expected["MyMoves", quote["id"]] += quote["symbol"] == "ACME" and abs(200 * (price - before)) >= 400
    assert Counter(printed) == +expected
    assert len(printed) > 6


def test_the_example_is_as_short_as_it_says() -> None:
    files = [file for file in _QUOTES.iterdir() if file.suffix in {".sql", ".py"}]
    assert sum(len(file.read_text().splitlines()) for file in files) < 100


def _publish_module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quotes_publish", _QUOTES / "publish.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
