"""How the servers of the three processes are put together: what holds for one holds for all that strangers reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from tocsin.broker.shell import server as broker
from tocsin.cluster import server as cluster
from tocsin.cluster.cluster import Cluster
from tocsin.coordinator import server as coordinator
from tocsin.errors import InvalidValue
from tocsin.runtime.connections import BoundedHttp
from tocsin.runtime.ports import free_port
from tocsin.settings import BrokerSettings, ClusterSettings, CoordinatorSettings

pytestmark = pytest.mark.shell


def _cluster_settings(folder: Path, **others: Any) -> ClusterSettings:
    return ClusterSettings(data_dir=folder / "data", scratch_dir=str(folder / "scratch"), **others)


def _coordinator_settings(folder: Path, **others: Any) -> CoordinatorSettings:
    return CoordinatorSettings(data_dir=folder / "data", **others)


def _broker_app(folder: Path) -> FastAPI:
    settings = BrokerSettings(data_dir=folder / "data")
    return broker.make_app(settings, *broker.make_node(settings), lambda _code: None)


SERVERS = [
    pytest.param(cluster.serve, _cluster_settings, id="cluster"),
    pytest.param(coordinator.serve, _coordinator_settings, id="coordinator"),
]
APPS = [
    pytest.param(lambda folder: cluster.make_app(Cluster(_cluster_settings(folder))), id="cluster"),
    pytest.param(lambda folder: coordinator.make_app(_coordinator_settings(folder)), id="coordinator"),
    pytest.param(_broker_app, id="broker"),
]


@pytest.mark.parametrize(("serve", "settings_in"), SERVERS)
def test_who_is_reached_by_others_needs_a_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[Any], None], settings_in: Callable[..., Any]
) -> None:
    """Else everybody who reaches it is an operator. It is refused before anything is made or listened on."""
    monkeypatch.setattr(uvicorn, "run", lambda *_arguments, **_options: None)
    with pytest.raises(InvalidValue, match="set api_token, or listen on"):
        serve(settings_in(tmp_path, host="0.0.0.0"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("serve", "settings_in"), SERVERS)
def test_requests_that_do_not_arrive_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, serve: Callable[[Any], None], settings_in: Callable[..., Any]
) -> None:
    """uvicorn's own protocol waits for ever for the rest of a request."""
    options: dict[str, Any] = {}
    monkeypatch.setattr(uvicorn, "run", lambda _app, **given: options.update(given))
    serve(settings_in(tmp_path, port=free_port()))
    assert issubclass(options["http"], BoundedHttp)


@pytest.mark.parametrize("make", APPS)
def test_no_page_loads_scripts_from_elsewhere(tmp_path: Path, make: Callable[[Path], FastAPI]) -> None:
    """FastAPI's own pages of documentation do."""
    app = make(tmp_path)
    paths = {getattr(route, "path", "") for route in app.routes}
    assert paths.isdisjoint({"/docs", "/redoc", "/docs/oauth2-redirect"})
    assert "/openapi.json" in paths
