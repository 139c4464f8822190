"""docs/guides/secure.md says who can do what, and it is so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from documentation import ROOT
from tocsin.cluster.api import brokers as cluster_brokers
from tocsin.cluster.api import catalogue, dead_letters, feeds, statements
from tocsin.cluster.api.access import RECORDS, Access
from tocsin.coordinator.api import (
    balancing,
    brokers,
    dependencies,
    executions,
    keys,
    operations,
    plans,
    subscribers,
    users,
)
from tocsin.dashboard import routes as dashboard
from tocsin.errors import Forbidden, Unauthorised

_PAGE = ROOT / "docs" / "guides" / "secure.md"
_CLUSTER = (statements, catalogue, feeds, dead_letters, cluster_brokers)
_COORDINATOR = (users, keys, subscribers, brokers, plans, executions, balancing, operations, dashboard)
_ROLES = ("Operator", "Viewer", "Broker", "Publisher", "User", "Anybody")


def test_the_page_says_who_can_do_what() -> None:
    """Each route of cluster and coordinator is open to the roles that the table names, and to no other."""
    rows = list(_rows())
    for where, method, path, allowed in (*_at_cluster(), *_at_coordinator()):
        written = next(roles for location, fits, roles in rows if location == where and fits(method, path))
        assert written == allowed, f"{where}: {method} {path}"


def test_the_page_names_no_route_that_is_not_there() -> None:
    """What was renamed or removed must be renamed or removed in the table too."""
    there = {(where, method, path) for where, method, path, _ in (*_at_cluster(), *_at_coordinator())}
    written = {(cells[0], *route.split()) for cells in _cells() for route in _listed(cells[1])}
    assert written <= there


def _cells() -> Iterator[list[str]]:
    table = _PAGE.read_text().partition("\n## Who can do what\n")[2].partition("\n## ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 2 + len(_ROLES) and cells[0] in ("cluster", "coordinator"):
            yield cells


def _listed(cell: str) -> list[str]:
    return re.findall(r"`([A-Z]+ /\S+)`", cell)


def _rows() -> Iterator[tuple[str, Any, set[str]]]:
    """Where, whether a route is meant, and who may."""
    for where, what, *marks in _cells():
        listed, is_rest, only_get = _listed(what), what.startswith("everything else"), "by `GET`" in what

        def fits(method: str, path: str, listed: Any = listed, rest: bool = is_rest, get: bool = only_get) -> bool:
            return f"{method} {path}" in listed or (rest and (not get or method == "GET"))

        yield where, fits, {role for role, mark in zip(_ROLES, marks, strict=True) if mark}


class _Station:
    """A publisher, to whom the feed is granted."""

    def publisher_of(self, token: bytes) -> str | None:
        return "station" if token == b"stations" else None

    def may_publish(self, publisher: str, feed: str) -> bool:
        return (publisher, feed) == ("station", "locations")


def _at_cluster() -> Iterator[tuple[str, str, str, set[str]]]:
    access = Access("operators", "brokers", locations_feed="locations", grants=_Station())
    shown = dict(zip(_ROLES, (b"operators", b"viewers", b"brokers", b"stations", b"eyJ", b""), strict=True))
    for method, path, _ in _routes(_CLUSTER):
        asked = RECORDS % "locations" if path == RECORDS % "{feed}" else path.replace("{", "").replace("}", "")
        allowed = set()
        for role, token in shown.items():
            try:
                access.admit(token, method, asked)
                allowed.add(role)
            except (Unauthorised, Forbidden):
                pass
        yield "cluster", method, path, allowed


def _at_coordinator() -> Iterator[tuple[str, str, str, set[str]]]:
    for method, path, required in _routes(_COORDINATOR):
        if dependencies.user_only in required:
            allowed = {"User"}
        elif dependencies.broker_only in required:
            allowed = {"Operator", "Broker"}
        elif dependencies.operator_only in required:
            allowed = {"Operator", "Viewer"} if method == "GET" else {"Operator"}
        else:
            allowed = set(_ROLES)
        yield "coordinator", method, path, allowed


def _routes(modules: Any) -> Iterator[tuple[str, str, set[Any]]]:
    for module in modules:
        for route in module.router.routes:
            for method in route.methods:
                yield method, route.path, set(_dependencies(route.dependant))


def _dependencies(dependant: Any) -> Iterator[Any]:
    for one in dependant.dependencies:
        yield one.call
        yield from _dependencies(one)
