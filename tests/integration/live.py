"""A cluster as programs meet it: a real HTTP server on a loopback port, with Spark behind it."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import uvicorn

from tocsin.client import ClusterClient
from tocsin.client.shell.http import usual_trust
from tocsin.settings import ClusterSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.cluster.cluster import Cluster

#: Far beyond anything a healthy cluster takes here, so that a test that waits in vain ends with a message.
PATIENCE_S = 60.0


@dataclasses.dataclass
class BrokerSeat:
    """A broker that pulls: it keeps its cursor, as brokers do."""

    client: ClusterClient
    name: str
    cursor: int

    def subscribe(self, channel: str, **parameters: Any) -> int:
        return int(self.client.subscribe(self.name, [{"channel": channel, "parameters": parameters}])[0]["id"])

    def take(self, count: int) -> list[dict[str, Any]]:
        """The next results, once there are `count`; more than that is a failure."""
        taken: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(taken) < count:
            results, self.cursor = self.client.pull(self.name, self.cursor, wait_s=2)
            taken += results
            assert time.monotonic() < deadline, f"{len(taken)} of {count} results within {PATIENCE_S:g} s: {taken[:5]}"
        assert len(taken) == count, f"{len(taken)} results instead of {count}: {taken[:10]}"
        return taken

    def take_until(self, last: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Results up to the first for which `last` holds: with it, all that came before it are there too."""
        taken: list[dict[str, Any]] = []
        deadline = time.monotonic() + PATIENCE_S
        while not any(last(result) for result in taken):
            results, self.cursor = self.client.pull(self.name, self.cursor, wait_s=2)
            taken += results
            assert time.monotonic() < deadline, f"the awaited result did not come within {PATIENCE_S:g} s: {taken[:5]}"
        return taken


@dataclasses.dataclass
class Live:
    cluster: Cluster
    url: str
    client: ClusterClient
    http: httpx.Client
    #: Why the cluster can't go on; nothing, as long as all is well.
    failures: list[str]

    @property
    def imports(self) -> Path:
        return self.cluster.settings.data_dir / "imports"

    def sql(self, text: str) -> list[dict[str, Any]]:
        return self.client.sql(text)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The rows that one statement answers with."""
        (answer,) = self.client.sql(sql)
        return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]

    def refusal(self, text: str) -> dict[str, Any]:
        """The error that statements are refused with; it is the client's fault, and a lasting one."""
        response = self.http.post("/v1/statements", json={"sql": text})
        assert 400 <= response.status_code < 500, (response.status_code, response.text)
        error: dict[str, Any] = response.json()["error"]
        assert not error["temporary"]
        return error

    def publish(self, feed: str, records: Iterable[Mapping[str, Any]] | bytes, **options: Any) -> dict[str, Any]:
        """Publish, and wait until the records are in the table."""
        return self.client.publish(feed, records, wait_commit=True, **options)

    def broker(self, name: str) -> BrokerSeat:
        return BrokerSeat(self.client, name, self.client.register_broker(name))

    def channel(self, name: str) -> dict[str, Any]:
        return next(one for one in self.client.status()["channels"] if one["name"] == name)

    def metric(self, name: str, **labels: str) -> float:
        """The value of one sample of /metrics; 0 while there is none."""
        return self.cluster.metrics.registry.get_sample_value(name, labels) or 0.0


@contextmanager
def serving(settings: ClusterSettings, spark: SparkSession, port: int = 0) -> Iterator[Live]:
    """A cluster on `settings`, from its start to its orderly stop, on a session of its own in the Spark given. For
    brokers that find it again after a restart it needs a `port`."""
    from tocsin.cluster.cluster import Cluster
    from tocsin.cluster.server import make_app

    failures: list[str] = []
    cluster = Cluster(settings)
    app = make_app(cluster, spark=spark.newSession(), on_failure=failures.append)
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, log_config=None, access_log=False, timeout_graceful_shutdown=5)
    )
    thread = threading.Thread(target=server.run, name="server")
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        token = f"Bearer {settings.api_token}".encode()
        headers = [(b"Authorization", token)] if settings.api_token else []
        with (
            ClusterClient(url, token=settings.api_token, timeout_s=PATIENCE_S) as client,
            httpx.Client(base_url=url, headers=headers, timeout=PATIENCE_S) as http,
        ):
            client.wait_ready()
            yield Live(cluster, url, client, http, failures)
    finally:
        server.should_exit = True
        thread.join()
    assert not failures, failures


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """For the few things that tell nobody when they come true. What takes longer is asked for less often: many an
    answer takes a server as long as the pause."""
    begun = time.monotonic()
    while not holds():
        waited_s = time.monotonic() - begun
        assert waited_s < PATIENCE_S, f"not within {PATIENCE_S:g} s: {what}"
        time.sleep(min(0.02 + waited_s / 10, 0.2))


def get(url: str) -> httpx.Response:
    """For what is asked again and again: httpx alone would read all certificates each time, which takes 20 ms."""
    return httpx.get(url, verify=usual_trust())
