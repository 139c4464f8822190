"""Warms Spark up, so that the first records after a start don't wait seconds for classes to load and code to compile.

It leaves no trace: made-up lines are parsed and thrown away, and channels run over a row of NULLs without committing
results. Records that come meanwhile warm Spark up just as well, and need the cores: each batch of them takes the place
of a round, but for the first one, which compiles each channel's own code.
"""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa
import structlog

from tocsin.cluster.channels.compiler.compile import CompiledChannel, compile_channel
from tocsin.cluster.channels.spark_verdict import schema_of
from tocsin.cluster.cluster import Cluster, ClusterState
from tocsin.cluster.datasets.arrow import arrow_schema
from tocsin.cluster.feeds.core.frames import prepare_frame
from tocsin.cluster.feeds.parsing import parse_frames
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind, Parameter
from tocsin.model.schema import SEQUENCE_COLUMN, Column, ColumnType, Schema

log = structlog.get_logger(__name__)

#: Java compiles a method well after some ten thousand calls; these are about as many lines.
_ROUNDS = 12
_FRAMES, _LINES_PER_FRAME = 4, 250

#: One column of each type, and a channel over it, for clusters that have none yet.
_DATASET = Dataset("MadeUp", DatasetKind.ACTIVE, Schema(tuple(Column(kind.lower(), kind) for kind in ColumnType)))
_MADE_UP = arrow_schema(_DATASET.schema).append(pa.field(SEQUENCE_COLUMN, pa.int64()))
_CHANNEL = Channel(
    "WarmUp",
    ChannelKind.CONTINUOUS,
    (Parameter("wanted", ColumnType.STRING), Parameter("number", ColumnType.INT)),
    "SELECT m.* FROM MadeUp m WHERE is_new(m) AND m.string = :wanted AND m.int = :number",
)


def warm_up(cluster: Cluster) -> None:
    """Do for a few seconds what a busy cluster does, unless it is busy. Gives up, quietly, if the cluster stops."""
    begin_s, limit_s = cluster.clock.monotonic_s(), cluster.settings.warm_up_max_s
    try:
        # An empty frame for no dataset takes the stream and its Python processes through one batch.
        now_ms = cluster.clock.now_us() // 1000
        cluster.intake.landing.append(prepare_frame(feed="", dataset="", body=b"", count=0, accepted_at_ms=now_ms))
        made_up = compile_channel(_CHANNEL, {_DATASET.name.lower(): _DATASET})
        rounds = 0
        while rounds == 0 or rounds + cluster.ingestion.batches < _ROUNDS:
            rounds += 1
            _parse(cluster, _DATASET)
            own = [(state.channel, state.compiled) for state in cluster.executor.states.values()]
            for channel, compiled in ((_CHANNEL, made_up), *own):
                _run(cluster, channel, compiled)
                # A cluster with many channels does not warm up all of them: it has other work.
                if cluster.state is not ClusterState.READY or cluster.clock.monotonic_s() - begin_s > limit_s:
                    return
    except Exception as exc:
        if cluster.state is ClusterState.READY:
            log.warning("warming up failed; the first records will be slower", exc_info=exc)
        return
    log.debug("warm", rounds=rounds, seconds=round(cluster.clock.monotonic_s() - begin_s, 1))


def _parse(cluster: Cluster, dataset: Dataset) -> None:
    body = b"\n".join([b"{}"] * _LINES_PER_FRAME)
    rows = [(at, dataset.name, body) for at in range(_FRAMES)]
    frames = cluster.spark.createDataFrame(rows, "position BIGINT, dataset STRING, body BINARY")
    parse_frames(frames, dataset, cluster.settings.feed_max_record_bytes, ordered=False)


def _run(cluster: Cluster, channel: Channel, compiled: CompiledChannel) -> None:
    with ExitStack() as leases:
        names = {}
        for relation in compiled.relations:
            schema = _MADE_UP if relation.dataset == _DATASET.name else schema_of(relation, cluster.store, channel)
            row_of_nulls = pa.table([pa.nulls(1, field.type) for field in schema], names=schema.names)
            names[relation] = leases.enter_context(cluster.executor.views.of_arrow(row_of_nulls))
        sizes = dict.fromkeys(compiled.radius_parameters, 256.0)
        cluster.spark.sql(cluster.executor.within_limits(compiled, compiled.render(names, sizes))).toArrow()
