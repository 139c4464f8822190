"""The landing log's frame format: one accepted request on disk (pure).

A frame is a fixed header, a small meta part (feed, dataset, idempotency key) and a body of NDJSON with one
record per non-blank line. Everything is covered by a checksum: the header's own covers header and meta, and
the header holds the body's, so headers can be trusted without reading bodies.

A header also holds its own position (`position`) and how far the log had been synced when it was written (`synced`).
The latter tells damage from an unfinished write. After a power failure the pages of the last, unacknowledged write may
be there in any order. But a frame whose `synced` lies beyond a bad position proves that this position had been synced,
and so perhaps acknowledged.

Another process reads frames too, so this module imports only the standard library and msgspec. It never skips damage:
it raises `ClusterFailure` for damage that can't be an unfinished write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final
from zlib import crc32

import msgspec

from tocsin.errors import ClusterFailure

MAGIC: Final = b"TcF1"
#: magic, header checksum; then the fields that the header checksum covers, together with the meta part:
_LEAD: Final = struct.Struct("<4sI")
#: body checksum, meta length, body length, record count, accepted_at_ms, position, synced
_FIELDS: Final = struct.Struct("<IIIIqQQ")
HEADER_BYTES: Final = _LEAD.size + _FIELDS.size


class _Meta(msgspec.Struct, frozen=True, array_like=True, gc=False):
    feed: str
    dataset: str
    key: str
    body_hash: bytes


_encode_meta = msgspec.msgpack.Encoder().encode
_decode_meta = msgspec.msgpack.Decoder(_Meta).decode


class FrameHeader(msgspec.Struct, frozen=True, gc=False):
    """A frame without its body. `position` and `end` are byte offsets over all segments of the log."""

    position: int
    end: int
    feed: str
    dataset: str
    #: The idempotency key; empty when the publisher gave none.
    key: str
    #: Hash of the body, if there is a key: tells a repeat from a key that was used for another body.
    body_hash: bytes
    count: int
    accepted_at_ms: int
    #: The log's durable end when this frame was written.
    synced: int
    body_length: int
    body_checksum: int


class Frame(FrameHeader, frozen=True, gc=False):
    """One accepted request, or part of one."""

    body: bytes


class PreparedFrame(msgspec.Struct, frozen=True, gc=False):
    """A frame ready to be written; only its position in the log is still unknown."""

    meta: bytes
    body: bytes
    body_checksum: int
    count: int
    accepted_at_ms: int

    @property
    def size(self) -> int:
        return HEADER_BYTES + len(self.meta) + len(self.body)

    def parts_at(self, position: int, synced: int) -> tuple[bytes, bytes]:
        """The buffers to write for a frame at `position` in a log that is synced up to `synced`."""
        fields = _FIELDS.pack(
            self.body_checksum, len(self.meta), len(self.body), self.count, self.accepted_at_ms, position, synced
        )
        covered = fields + self.meta
        return _LEAD.pack(MAGIC, crc32(covered)) + covered, self.body


def prepare_frame(
    *,
    feed: str,
    dataset: str,
    body: bytes,
    count: int,
    accepted_at_ms: int,
    key: str = "",
    body_hash: bytes = b"",
) -> PreparedFrame:
    """A frame of `count` records. This is the costly part of encoding, done before the writer's turn comes."""
    meta = _encode_meta(_Meta(feed, dataset, key, body_hash))
    return PreparedFrame(meta, body, crc32(body), count, accepted_at_ms)


def frame_length(buffer: bytes, offset: int) -> int | None:
    """The size of the frame at `offset` by its header, unchecked; None if too little of the header is there."""
    if offset + HEADER_BYTES > len(buffer):
        return None
    _, meta_length, body_length, *_ = _FIELDS.unpack_from(buffer, offset + _LEAD.size)
    return int(HEADER_BYTES + meta_length + body_length)


def read_header(buffer: bytes, offset: int, position: int) -> FrameHeader | None:
    """The header at `offset` if it is whole, undamaged and belongs at `position`; otherwise None."""
    if not buffer.startswith(MAGIC, offset) or offset + HEADER_BYTES > len(buffer):
        return None
    _, checksum = _LEAD.unpack_from(buffer, offset)
    body_checksum, meta_length, body_length, count, accepted_at_ms, stands_at, synced = _FIELDS.unpack_from(
        buffer, offset + _LEAD.size
    )
    meta_end = offset + HEADER_BYTES + meta_length
    if meta_end > len(buffer) or stands_at != position:
        return None
    if crc32(buffer[offset + _LEAD.size : meta_end]) != checksum:
        return None
    meta = _decode_meta(buffer[offset + HEADER_BYTES : meta_end])
    return FrameHeader(
        position=position,
        end=position + HEADER_BYTES + meta_length + body_length,
        feed=meta.feed,
        dataset=meta.dataset,
        key=meta.key,
        body_hash=meta.body_hash,
        count=count,
        accepted_at_ms=accepted_at_ms,
        synced=synced,
        body_length=body_length,
        body_checksum=body_checksum,
    )


def scan_frames(
    buffer: bytes, base_position: int, source: str = "buffer", source_start: int | None = None
) -> Iterator[Frame]:
    """The whole frames of `buffer`, which starts at `base_position`; an incomplete frame at the end is left out.

    Raises `ClusterFailure` at a damaged frame. The error names `source` and the offset within it. `source` starts at
    position `source_start` (by default where the buffer does).

    >>> prepared = prepare_frame(feed="f", dataset="D", body=b"{}", count=1, accepted_at_ms=0)
    >>> [frame.body for frame in scan_frames(b"".join(prepared.parts_at(7, synced=0)), 7)]
    [b'{}']
    """
    source_start = base_position if source_start is None else source_start
    offset = 0
    while (length := frame_length(buffer, offset)) is not None:
        header = read_header(buffer, offset, base_position + offset)
        if header is None:
            if offset + length > len(buffer) and buffer.startswith(MAGIC, offset):
                return  # Perhaps the meta part is cut off; the caller knows whether more should be here.
            raise damaged(source, source_start, base_position + offset)
        if offset + length > len(buffer):
            return
        body = buffer[offset + length - header.body_length : offset + length]
        if crc32(body) != header.body_checksum:
            raise damaged(source, source_start, header.position)
        yield Frame(**msgspec.structs.asdict(header), body=body)
        offset += length


def recovered_end(buffer: bytes, base_position: int, durable_end: int, source: str = "buffer") -> int:
    """The position up to which a segment that starts at `base_position` is sound; the rest is an unfinished write.

    `durable_end` is a lower bound of what was acknowledged (0 if nothing is known). Raises `ClusterFailure` if the
    first bad position can't be an unfinished write: it lies below `durable_end`, or a later frame proves that it had
    been synced.
    """
    offset = 0
    header = read_header(buffer, offset, base_position)
    while header is not None:
        end = header.end - base_position
        if end > len(buffer) or crc32(buffer[end - header.body_length : end]) != header.body_checksum:
            break
        offset = end
        header = read_header(buffer, offset, base_position + offset)
    position = base_position + offset
    if position < durable_end or _was_synced(buffer, base_position, position, header):
        raise damaged(source, base_position, position)
    return position


def _was_synced(buffer: bytes, base_position: int, position: int, header: FrameHeader | None) -> bool:
    """Whether some frame after the bad one at `position` was written when that had been synced already.

    If the bad frame's header is sound, the search begins after its body: a body may hold anything, even bytes
    that look like a frame.
    """
    offset = (header.end if header else position + 1) - base_position
    while (offset := buffer.find(MAGIC, offset)) >= 0:
        later = read_header(buffer, offset, base_position + offset)
        if later is not None and later.synced > position:
            return True
        offset += 1
    return False


def damaged(source: str, source_start: int, position: int) -> ClusterFailure:
    """The error for acknowledged records that can't be read at `position` in `source`."""
    return ClusterFailure(
        f"landing log damaged: {source}, offset {position - source_start} (position {position}): "
        "missing bytes or a wrong checksum where acknowledged records should be"
    )
