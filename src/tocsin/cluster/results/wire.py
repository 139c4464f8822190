"""Results as brokers receive them: a line of JSON each, or an Arrow stream."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import repeat

import pyarrow as pa
import pyarrow.compute as pc

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
    """The payload is JSON already and is inserted as it stands. Rows of channels WITH EXITS have a kind and a key."""
    channels = {name: json.dumps(name) for name in pc.unique(rows.column("channel")).to_pylist()}
    columns = [rows.column(name).to_pylist() for name in ("subscription", "sequence", "channel", "payload")]
    stamps = rows.column("committed_at").cast(pa.int64()).to_pylist()
    return "".join(
        f'{{"subscription":{one},"channel":{channels[channel]},"position":"{one}-{sequence}",'
        f'"committed_at_us":{stamp},{about}"payload":{payload}}}\n'
        for one, sequence, channel, payload, stamp, about in zip(*columns, stamps, _kinds(rows), strict=True)
    ).encode()


def _kinds(rows: pa.Table) -> Iterable[str]:
    held = rows.column("held")
    if held.null_count == rows.num_rows:
        return repeat("", rows.num_rows)
    kinds = {True: "result", False: "exit"}
    pairs = zip(held.to_pylist(), rows.column("key").to_pylist(), strict=True)
    return ["" if one is None else f'"kind":"{kinds[one]}","key":"{key.hex()}",' for one, key in pairs]
