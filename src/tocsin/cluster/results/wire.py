"""Results as brokers receive them: a line of JSON each, or an Arrow stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import repeat

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.model.position import Phase, position_text, reached
from tocsin.model.results import PHASE_AFTER, ResultKind

ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"


def encode_results(rows: pa.Table, accept: str) -> tuple[str, bytes]:
    """Media type and content, for this Accept header."""
    if ARROW not in accept:
        return NDJSON, _to_ndjson(rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return ARROW, sink.getvalue().to_pybytes()


def _to_ndjson(rows: pa.Table) -> bytes:
    """The payload is JSON already and is inserted as it stands. Rows of channels WITH EXITS have a kind and a key,
    and those of snapshots a kind."""
    channels = {name: json.dumps(name) for name in pc.unique(rows.column("channel")).to_pylist()}
    columns = [rows.column(name).to_pylist() for name in ("subscription", "sequence", "channel", "payload")]
    stamps = rows.column("committed_at").cast(pa.int64()).to_pylist()
    kinds = rows.column("kind")
    if kinds.null_count < len(kinds):
        columns[1] = [
            reached(sequence, Phase.NEW if kind is None else PHASE_AFTER[ResultKind(kind)])
            for sequence, kind in zip(columns[1], kinds.to_pylist(), strict=True)
        ]
    return "".join(
        f'{{"subscription":{one},"channel":{channels[channel]},"position":"{position_text(one, sequence)}",'
        f'"committed_at_us":{stamp},{about}"payload":{payload}}}\n'
        for one, sequence, channel, payload, stamp, about in zip(*columns, stamps, _labels(rows), strict=True)
    ).encode()


def _labels(rows: pa.Table) -> Iterable[str]:
    held, kind = rows.column("held"), rows.column("kind")
    if held.null_count == kind.null_count == rows.num_rows:
        return repeat("", rows.num_rows)
    columns = (held.to_pylist(), rows.column("key").to_pylist(), kind.to_pylist())
    return [_label(*one) for one in zip(*columns, strict=True)]


def _label(held: bool | None, key: bytes | None, kind: str | None) -> str:
    if held is not None and key is not None:
        return f'"kind":"{ResultKind.RESULT if held else ResultKind.EXIT}","key":"{key.hex()}",'
    return "" if kind is None else f'"kind":"{kind}",'
