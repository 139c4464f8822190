"""A back-up is restored, as the guide says, under a broker and a subscriber who were further along."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from integration.conftest import settings_for
from integration.live import serving
from integration.network import running_network
from tocsin.runtime.ports import free_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEMA = """
    CREATE ACTIVE DATASET Records (id INT, k INT, PRIMARY KEY (id));
    CREATE FEED records INTO Records FROM HTTP;
    CREATE CONTINUOUS CHANNEL Wake (k INT) AS SELECT r.id FROM Records r WHERE is_new(r) AND r.k = :k;
"""


def test_who_was_further_along_is_told_and_hears_what_is_new(spark: SparkSession, tmp_path: Path) -> None:
    """The broker goes on from where the restored cluster says and keeps its subscribers. Each is told, once, and
    gets every alert that comes from then on; who comes back with a position of the lost history is told too."""
    settings, back_up = settings_for(tmp_path), tmp_path / "back-up"
    port = free_port()
    with ExitStack() as stack:
        with serving(settings, spark, port) as live:
            live.sql(_SCHEMA)
            network = stack.enter_context(running_network(live, tmp_path / "network"))
            broker = stack.enter_context(network.broker("b"))
            token = network.token("ann")
            ann = stack.enter_context(network.hello(broker, token))
            ann.subscribe("Wake", k=1)
            live.publish("records", [{"id": 1, "k": 1}])
            assert ann.payloads(1) == [{"id": 1}]
        shutil.copytree(settings.data_dir, back_up)
        with serving(settings, spark, port) as live:
            live.publish("records", [{"id": 2, "k": 1}])
            last = ann.next_of("notification")
            assert last["payload"] == {"id": 2}
        shutil.rmtree(settings.data_dir)
        shutil.copytree(back_up, settings.data_dir)
        with serving(settings, spark, port) as live:
            gone = ann.next_of("history_gone")
            assert (gone["subscription"], gone["rewound"]) == (last["subscription"], True)
            assert "started from a back-up" in gone["message"]
            live.publish("records", [{"id": 3, "k": 1}])
            new = ann.next_of("notification")
            assert new["payload"] == {"id": 3}
            assert _sequence(last["position"]) < _sequence(gone["position"]) < _sequence(new["position"])
            back = {"type": "subscribe", "channel": "Wake", "parameters": {"k": 1}, "position": last["position"]}
            with network.hello(broker, token, device="watch", subscriptions=[back]) as watch:
                assert watch.next_of("subscribed")["position"] == last["position"]
                assert watch.next_of("history_gone")["position"] == gone["position"]
                assert watch.payloads(1) == [{"id": 3}]


def _sequence(position: str) -> int:
    return int(position.split("-")[1])
