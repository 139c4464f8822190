"""A whole network of real processes on loopback: data cluster, coordinator and brokers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from tocsin.client import ClusterClient
from tocsin.runtime.processes import ServerProcess, running_server

#: A cluster is ready within 20 s on two cores; a busy machine gets some more.
_READY_TIMEOUT_S = 120.0

Settings = Mapping[str, Any]


class ClusterProcess(ServerProcess):
    """The Spark driver, with its Java and Python children."""

    __slots__ = ()

    def client(self) -> ClusterClient:
        return ClusterClient(self.url)


class RunningNetwork:
    """Processes that have been started. The cluster's are not among them if an existing cluster is used."""

    def __init__(
        self, folder: Path, cluster_url: str, cluster: ClusterProcess | None, coordinator: ServerProcess
    ) -> None:
        self.folder = folder
        self.cluster_url = cluster_url
        self.coordinator = coordinator
        self.brokers: dict[str, ServerProcess] = {}
        self._cluster = cluster

    @property
    def cluster(self) -> ClusterProcess:
        assert self._cluster is not None, "the cluster is somebody else's"
        return self._cluster

    @property
    def servers(self) -> dict[str, ServerProcess]:
        """All processes, by name."""
        own = {} if self._cluster is None else {"cluster": self._cluster}
        return {**own, "coordinator": self.coordinator, **self.brokers}

    def wait_ready(self, timeout_s: float = _READY_TIMEOUT_S) -> None:
        """Returns once all servers are ready; raises TimeoutError with the end of a log."""
        for server in self.servers.values():
            server.wait_ready(timeout_s)

    def register(self, users: Iterable[str]) -> dict[str, str]:
        """Tokens of new users. An operator registers them without passwords, which would take long to hash."""
        tokens = {}
        with httpx.Client(base_url=self.coordinator.url, timeout=30, trust_env=False) as http:
            for user in users:
                tokens[user] = str(http.post("/v1/users", json={"name": user}).raise_for_status().json()["token"])
        return tokens

    def running_broker(self, name: str, settings: Settings | None = None) -> AbstractContextManager[ServerProcess]:
        """One more broker, ready."""
        return running_broker(name, self.folder / name, self.cluster_url, self.coordinator.url, settings)


@contextmanager
def starting_network(
    folder: Path,
    *,
    cluster: Settings | None = None,
    cluster_url: str = "",
    coordinator: Settings | None = None,
    brokers: Mapping[str, Settings] | None = None,
    with_dashboard: bool = False,
) -> Iterator[RunningNetwork]:
    """Starts all processes side by side, with these settings; with `cluster_url`, beside a running cluster. When the
    block ends all are stopped; their logs stay."""
    with ExitStack() as stack:
        own = None if cluster_url else stack.enter_context(running_cluster(folder / "cluster", cluster))
        url = own.url if own else cluster_url
        settings = {**(coordinator or {}), **({"cluster_url": url} if with_dashboard else {})}
        server = stack.enter_context(running_server("coordinator", folder / "coordinator", settings))
        network = RunningNetwork(folder, url, own, server)
        for name, of_broker in (brokers or {}).items():
            started = _starting_broker(name, folder / name, url, server.url, of_broker)
            network.brokers[name] = stack.enter_context(started)
        yield network


@contextmanager
def running_network(folder: Path, *, schema: str = "", **settings: Any) -> Iterator[RunningNetwork]:
    """As `starting_network`, once everything is ready and the statements of `schema` have been carried out."""
    with starting_network(folder, **settings) as network:
        network.wait_ready()
        if schema:
            with network.cluster.client() as client:
                client.sql(schema)
        yield network


@contextmanager
def running_cluster(folder: Path, settings: Settings | None = None) -> Iterator[ClusterProcess]:
    """`tocsin cluster` on `folder`, not waiting until it is ready. When the block ends it is stopped; its log stays."""
    with running_server("cluster", folder, settings) as server:
        yield ClusterProcess(server.url, server.process, server.log)


@contextmanager
def running_coordinator(folder: Path, settings: Settings | None = None) -> Iterator[ServerProcess]:
    """`tocsin coordinator` on `folder`, ready. When the block ends it is stopped; its log stays."""
    with running_server("coordinator", folder, settings) as server:
        server.wait_ready()
        yield server


@contextmanager
def running_broker(
    name: str, folder: Path, cluster_url: str, coordinator_url: str, settings: Settings | None = None
) -> Iterator[ServerProcess]:
    """`tocsin broker` on `folder`, ready. When the block ends it is stopped; its log stays."""
    with _starting_broker(name, folder, cluster_url, coordinator_url, settings) as server:
        server.wait_ready()
        yield server


def _starting_broker(
    name: str, folder: Path, cluster_url: str, coordinator_url: str, settings: Settings | None
) -> AbstractContextManager[ServerProcess]:
    options = ["--name", name, "--cluster-url", cluster_url, "--coordinator-url", coordinator_url]
    return running_server("broker", folder, settings, options)
