"""A cluster whose catalogue is in PostgreSQL, while that server is restarted under it."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from integration.live import Live, serving
from postgresql_server import PostgresqlServer
from tocsin.client import ServerError
from tocsin.runtime.ports import free_port
from tocsin.settings import ClusterSettings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WANTED = 300


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer(free_port())
    server.sql("CREATE DATABASE own")
    yield server
    server.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_of_the_database_loses_nothing(
    server: PostgresqlServer, spark: SparkSession, tmp_path: Path, number: signal.Signals
) -> None:
    """Subscriptions that were acknowledged get all their results, each once; records are taken meanwhile; nobody has to
    be restarted. And the next start of the cluster has the same subscriptions."""
    url = f"postgresql://tocsin@127.0.0.1:{server.port}/own"
    settings = ClusterSettings(data_dir=tmp_path / "data", database_url=url, scratch_dir=str(tmp_path))
    with serving(settings, spark) as live:
        live.sql("""
            CREATE ACTIVE DATASET Records (id STRING, n INT, round INT, PRIMARY KEY (id));
            CREATE FEED records INTO Records FROM HTTP;
            CREATE CONTINUOUS CHANNEL Wanted (n INT) AS
              SELECT r.n, r.round FROM Records r WHERE is_new(r) AND r.n = :n;
        """)
        seat = live.broker("b")
        ids = {0: seat.subscribe("Wanted", n=0)}
        refused = Counter[tuple[str, bool]]()
        goes_on = threading.Event()

        def subscribe() -> None:
            for n in range(1, _WANTED):
                while n not in ids:
                    try:
                        ids[n] = seat.subscribe("Wanted", n=n)
                    except ServerError as exc:
                        refused[str(exc), exc.temporary] += 1
                        goes_on.wait(0.05)
                if n == _WANTED // 4:
                    is_under_way.set()

        is_under_way = threading.Event()
        subscribing = threading.Thread(target=subscribe)
        subscribing.start()
        assert is_under_way.wait(timeout=60)
        server.stop(number)
        live.client.publish("records", [{"id": "first", "n": 0, "round": 1}])
        with pytest.raises(ServerError, match="the cluster's catalogue does not answer"):
            live.sql("CREATE ACTIVE DATASET Other (n INT, PRIMARY KEY (n))")
        server.start()
        subscribing.join(timeout=120)
        assert len(ids) == _WANTED == len(set(ids.values()))
        assert set(refused) <= {("the cluster's catalogue does not answer", True)}
        assert [result["payload"]["round"] for result in seat.take(1)] == [1]
        live.publish("records", [{"id": f"second {n}", "n": n, "round": 2} for n in range(_WANTED)])
        taken = seat.take(_WANTED)
        assert Counter(result["subscription"] for result in taken) == Counter(ids.values())
        assert live.channel("Wanted")["subscriptions"] == _WANTED
        _check_no_address(live, url)
    with serving(settings, spark) as live:
        live.publish("records", [{"id": f"third {n}", "n": n, "round": 3} for n in range(_WANTED)])
        seat = live.broker("b")
        assert live.channel("Wanted")["subscriptions"] == _WANTED


def _check_no_address(live: Live, url: str) -> None:
    for path in ("/v1/status", "/metrics", "/healthz"):
        assert url not in live.http.get(path).text
