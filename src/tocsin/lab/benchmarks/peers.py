"""Bare Spark doing the same work, each in a process of its own, so that neither warms the other up."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - everyone's name for it

from tocsin.cluster.engine import start_spark
from tocsin.runtime.usage import usage
from tocsin.settings import ClusterSettings

_DROP_EVERY_S = 0.05


def bare_spark(peer: str, folder: Path, *arguments: Any) -> list[float]:
    """What one of the peers below gives, with its arguments."""
    command = [sys.executable, "-m", __name__, peer, str(folder), json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the peer {peer} failed: {done.stderr.decode()[-2000:]}")
    answer: list[float] = json.loads(done.stdout.decode().splitlines()[-1])
    return answer


def _session(folder: Path) -> SparkSession:
    """The settings are ours, so that what differs is the work."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return start_spark(ClusterSettings(), folder)


def _streaming(
    folder: Path, subscriptions: int, types: int, rate_per_s: int, warm_s: float, measure_s: float
) -> list[float]:
    """Milliseconds from the making of each record until a bare Structured Streaming query has written its match."""
    spark = _session(folder)
    incoming = folder / "incoming"
    incoming.mkdir()
    ids = np.arange(subscriptions, dtype=np.int64)
    table = pa.table(
        {"_subscription": ids, "etype": (ids % types).astype(np.int32), "zone": (ids // types).astype(np.int32)}
    )
    pq.write_table(table, folder / "subscriptions.parquet")
    base = spark.read.parquet(str(folder / "subscriptions.parquet")).cache()
    base.count()
    latencies_ms: list[float] = []
    measuring_from_us = time.time_ns() // 1000 + int(warm_s * 1e6)

    def match(batch: DataFrame, batch_id: int) -> None:
        columns = F.struct("id", "etype", "zone", "sent_us", "message")
        joined = base.join(F.broadcast(batch), ["etype", "zone"])
        found = joined.select("_subscription", "sent_us", F.to_json(columns).alias("payload")).toArrow()
        pq.write_table(found, folder / f"found-{batch_id}.parquet")
        now_us = time.time_ns() // 1000
        latencies_ms.extend(
            (now_us - sent) / 1000 for sent in found.column("sent_us").to_pylist() if sent >= measuring_from_us
        )

    schema = "id STRING, etype INT, zone INT, sent_us BIGINT, message STRING"
    stream = spark.readStream.schema(schema).json(str(incoming))
    query = stream.writeStream.option("checkpointLocation", str(folder / "checkpoint")).foreachBatch(match).start()
    _drop_files(incoming, subscriptions // types, types, rate_per_s, warm_s + measure_s)
    query.processAllAvailable()
    query.stop()
    spark.stop()
    return latencies_ms


def _drop_files(incoming: Path, zones: int, types: int, rate_per_s: int, seconds: float) -> None:
    chance = random.Random(0)
    number = 0
    begin = time.perf_counter()
    pause = threading.Event()
    while (elapsed := time.perf_counter() - begin) < seconds:
        lines = []
        while number < elapsed * rate_per_s:
            number += 1
            record = {
                "id": f"r{number}",
                "etype": chance.randrange(types),
                "zone": chance.randrange(zones),
                "sent_us": time.time_ns() // 1000,
                "message": "x" * 280,
            }
            lines.append(json.dumps(record))
        if lines:
            hidden = incoming / f".{number}.json"
            hidden.write_text("\n".join(lines))
            hidden.rename(incoming / f"{number:09d}.json")
        pause.wait(_DROP_EVERY_S)


def _load(folder: Path, ndjson: str, schema: str, repeats: int) -> list[float]:
    """Records a second of a bare Spark job that reads NDJSON from disk and writes Parquet, run by run."""
    spark = _session(folder)
    rates = []
    for repeat in range(repeats):
        begin = time.perf_counter()
        spark.read.schema(schema).json(ndjson).write.parquet(str(folder / f"loaded-{repeat}"))
        elapsed_s = time.perf_counter() - begin
        rates.append(spark.read.parquet(str(folder / f"loaded-{repeat}")).count() / elapsed_s)
    spark.stop()
    return rates


def _idle(folder: Path, settle_s: float, measure_s: float) -> list[float]:
    """Cores that a bare session with one idle streaming query uses."""
    spark = _session(folder)
    incoming = folder / "incoming"
    incoming.mkdir()
    stream = spark.readStream.schema("id STRING").json(str(incoming))
    query = stream.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint")).start()
    time.sleep(settle_s)
    before_s = usage().cpu_s
    time.sleep(measure_s)
    used_s = usage().cpu_s - before_s
    query.stop()
    spark.stop()
    return [used_s / measure_s]


if __name__ == "__main__":
    _peer, _folder, _arguments = sys.argv[1:]
    _peers: dict[str, Callable[..., list[float]]] = {"streaming": _streaming, "load": _load, "idle": _idle}
    print(json.dumps(_peers[_peer](Path(_folder), *json.loads(_arguments))))
