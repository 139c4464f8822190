"""Digests of the values of ONCE PER: how texts become keys, and keys become numbers and bytes."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.results.core.held_keys import Keys
from tocsin.cluster.results.core.result_keys import KEY_BYTES, Halves, halves_of
from tocsin.errors import ClusterFailure


def digests_of(texts: pa.ChunkedArray) -> tuple[pa.Array, Halves, Halves]:
    """The digest of each text, and its halves."""
    # Mostly one record has results for many subscriptions, so there are few different texts.
    encoded = texts.cast(pa.binary()).combine_chunks().dictionary_encode()
    if encoded.null_count:
        raise ClusterFailure("a row of a channel with ONCE PER has no key")
    digests = [hashlib.sha256(text).digest()[:KEY_BYTES] for text in encoded.dictionary.to_pylist()]
    at = encoded.indices.to_numpy()
    first, second = halves_of(b"".join(digests))
    return pa.array(digests, pa.binary()).take(encoded.indices), first[at], second[at]


def keys_of(rows: pa.Table) -> Keys:
    """The keys of rows with a subscription and the text of a key."""
    _, first, second = digests_of(rows.column("key"))
    return Keys(first, second, rows.column("subscription").to_numpy())


def halves_of_digests(keys: pa.Array) -> tuple[Halves, Halves]:
    """The halves of stored digests."""
    keys = keys.cast(pa.binary())
    if keys.null_count or not pc.all(pc.equal(pc.binary_length(keys), KEY_BYTES), min_count=0).as_py():
        raise ClusterFailure(f"a result key must have {KEY_BYTES} bytes")
    if not len(keys):
        return halves_of(b"")
    _, offsets, texts = keys.buffers()
    begin = int(np.frombuffer(offsets, np.int32)[keys.offset])
    return halves_of(memoryview(texts)[begin : begin + KEY_BYTES * len(keys)])


def bytes_of(keys: Keys) -> pa.Array:
    """Digests as they are stored."""
    joined = np.stack([keys.first, keys.second], axis=1).astype("<u8").tobytes()
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(KEY_BYTES), len(keys), [None, pa.py_buffer(joined)])
    return fixed.cast(pa.binary())
