"""The reference leaves nothing out: pages are held against the code that they tell of."""

from __future__ import annotations

import json
import re
import types
import typing
from collections.abc import Iterator
from typing import Any

import msgspec

from command_tree import commands_of
from documentation import ROOT, blocks_of
from tocsin import errors
from tocsin.broker.api import router as broker_router
from tocsin.cluster.channels.compiler import statements as st
from tocsin.coordinator.load.stages import BalancingSettings
from tocsin.model.catalogue import ChannelKind, DatasetKind, FeedSource
from tocsin.simulator.scenario import Scenario
from unit.cluster.channels.emergency import parse_script

_REFERENCE = ROOT / "docs" / "reference"


def test_every_command_is_there() -> None:
    """docs/reference/commands.md names each command, and no other."""
    rows = re.findall(r"^\| (`tocsin .*?) \|", (_REFERENCE / "commands.md").read_text(), re.MULTILINE)
    written = {name for row in rows for name in re.findall(r"`(tocsin [^`]+)`", row)}
    assert written == {path for path, _ in commands_of()}


def test_every_statement_is_there() -> None:
    """docs/reference/statements.md shows each statement, and each kind of what statements are about."""
    blocks = [block for block in blocks_of(_REFERENCE / "statements.md") if block.language == "sql"]
    shown = [one for block in blocks for one in parse_script(block.text)]
    assert {type(one) for one in shown} == set(typing.get_args(st.Statement))
    assert {one.listing for one in shown if isinstance(one, st.Show)} == set(st.Listing)
    assert {one.kind for one in shown if isinstance(one, st.Describe)} == set(st.Kind)
    assert {one.kind for one in shown if isinstance(one, st.Drop)} == set(st.Kind)
    assert {one.dataset.kind for one in shown if isinstance(one, st.CreateDataset)} == set(DatasetKind)
    assert {one.channel.kind for one in shown if isinstance(one, st.CreateChannel)} == set(ChannelKind)
    assert {one.feed.source for one in shown if isinstance(one, st.CreateFeed)} == set(FeedSource)
    page = (_REFERENCE / "statements.md").read_text()
    assert all(f"`{one}`" in page for one in st.FileFormat)


def test_every_error_is_there() -> None:
    """docs/reference/http-api.md has each code that a request may be answered with, under its status."""
    table = (_REFERENCE / "http-api.md").read_text().partition("\n## Errors\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", table, re.MULTILINE)
    written = {(int(status), code) for status, codes in rows for code in re.findall(r"`(\w+)`", codes)}
    roots = {errors.TocsinError, errors.RequestError}
    kinds = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.TocsinError)}
    assert written == {(kind.http_status, kind.code) for kind in kinds - roots} | {(405, "http")}


def test_every_route_of_brokers_is_there() -> None:
    """docs/reference/broker-api.md has each route, and no other."""
    written = set(re.findall(r"^### `(\w+) (/\S*)`", (_REFERENCE / "broker-api.md").read_text(), re.MULTILINE))
    routes: list[Any] = list(broker_router.routes)
    assert written == {(method, route.path) for route in routes for method in route.methods}


def test_every_balancing_setting_is_there() -> None:
    """docs/reference/coordinator-api.md shows each setting with its default, and says what it does."""
    blocks = [json.loads(one.text) for one in blocks_of(_REFERENCE / "coordinator-api.md") if one.language == "json"]
    (shown,) = [block["settings"] for block in blocks if "verdict" in block]
    assert shown == BalancingSettings().listed()
    section = (_REFERENCE / "coordinator-api.md").read_text().partition("\n### `PUT /v1/balancing`\n")[2]
    rows = re.findall(r"^\| (`.*?) \|", section.partition("\n### ")[0], re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row)} == set(shown)


def test_every_key_of_a_scenario_is_there() -> None:
    """docs/guides/simulate.md names each key that a scenario may have."""
    page = (ROOT / "docs" / "guides" / "simulate.md").read_text()
    table = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    missing = [key for key in _keys(Scenario) if not re.search(rf"[`\[]{key}[`\]]", table)]
    assert missing == []


def _keys(kind: Any) -> Iterator[str]:
    """Those of a struct, and of the structs in it."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        for field in msgspec.structs.fields(kind):
            yield field.name
            yield from _keys(field.type)
    elif isinstance(kind, types.UnionType) or typing.get_origin(kind) is not None:
        for one in typing.get_args(kind):
            yield from _keys(one)
