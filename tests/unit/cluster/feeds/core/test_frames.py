"""Frames: what is encoded is read back, and damage is told from an unfinished write."""

from __future__ import annotations

import pytest

from tocsin.cluster.feeds.core.frames import (
    HEADER_BYTES,
    MAGIC,
    PreparedFrame,
    frame_length,
    prepare_frame,
    read_header,
    recovered_end,
    scan_frames,
)
from tocsin.errors import ClusterFailure


def encode_frame(frame: PreparedFrame, position: int, synced: int) -> bytes:
    return b"".join(frame.parts_at(position, synced))


def prepared(body: bytes = b'{"id":1}\n', key: str = "") -> PreparedFrame:
    return prepare_frame(
        feed="reports", dataset="Reports", body=body, count=1, accepted_at_ms=1_700_000_000_123, key=key, body_hash=b"h"
    )


def log_of(*bodies: bytes, base: int = 100) -> bytes:
    """Frames one after the other, each synced before the next was written."""
    buffer = b""
    for body in bodies:
        buffer += encode_frame(prepared(body), base + len(buffer), base + len(buffer))
    return buffer


def flipped(buffer: bytes, offset: int) -> bytes:
    return buffer[:offset] + bytes([buffer[offset] ^ 0x10]) + buffer[offset + 1 :]


def test_a_frame_comes_back_as_it_was_written() -> None:
    """Every fact of a frame survives encoding."""
    buffer = encode_frame(prepared(key="k-1"), 100, 40)
    (frame,) = scan_frames(buffer, 100)
    assert (frame.position, frame.end) == (100, 100 + len(buffer))
    assert (frame.feed, frame.dataset, frame.key) == ("reports", "Reports", "k-1")
    assert (frame.count, frame.accepted_at_ms, frame.body) == (1, 1_700_000_000_123, b'{"id":1}\n')
    header = read_header(buffer, 0, 100)
    assert header is not None
    assert (header.synced, header.body_hash, header.body_length) == (40, b"h", 9)
    assert frame_length(buffer, 0) == len(buffer) == prepared(key="k-1").size


def test_a_cut_off_frame_is_left_out_wherever_it_is_cut() -> None:
    """A reader that got only part of the last frame sees those before it."""
    buffer = log_of(b"first", b"second")
    first_end = len(log_of(b"first"))
    for cut in range(first_end, len(buffer)):
        assert [frame.body for frame in scan_frames(buffer[:cut], 100)] == [b"first"]


def test_a_header_elsewhere_than_it_belongs_is_refused() -> None:
    """A frame copied to another place is not taken for one that was written there."""
    assert read_header(log_of(b"x"), 0, 101) is None


@pytest.mark.parametrize("offset", [0, 5, 9, 20, HEADER_BYTES + 3, -1])
def test_scanning_over_a_flipped_bit_names_the_place(offset: int) -> None:
    """Acknowledged data that changed is an error with segment and offset, never skipped."""
    first = log_of(b"first")
    buffer = log_of(b"first", b"second", b"third")
    second_length = len(log_of(b"first", b"second")) - len(first)
    at = len(first) + (offset if offset >= 0 else second_length - 1)
    with pytest.raises(ClusterFailure, match=rf"00100\.log, offset {len(first) + 50} \(position {len(first) + 100}\)"):
        list(scan_frames(flipped(buffer, at), 100, "00100.log", 50))


def test_recovery_keeps_everything_sound() -> None:
    """Nothing is cut off a log without damage."""
    buffer = log_of(b"a", b"b")
    assert recovered_end(buffer, 100, 0) == 100 + len(buffer)
    assert recovered_end(b"", 100, 100) == 100


def test_recovery_cuts_an_unfinished_write() -> None:
    """A last frame that isn't whole was never acknowledged."""
    first, buffer = log_of(b"a"), log_of(b"a", b"bbbb")
    for cut in range(len(first), len(buffer)):
        assert recovered_end(buffer[:cut], 100, 100 + len(first)) == 100 + len(first)


def test_recovery_refuses_damage_below_the_durable_end() -> None:
    """What was acknowledged must be there."""
    buffer = log_of(b"a", b"b")
    with pytest.raises(ClusterFailure, match="offset 0"):
        recovered_end(flipped(buffer, 30), 100, 100 + len(buffer))
    with pytest.raises(ClusterFailure):
        recovered_end(buffer[:-1], 100, 100 + len(buffer))


def test_recovery_refuses_damage_that_a_later_frame_proves_was_synced() -> None:
    """Even if the durable end was lost in a power failure, later frames tell."""
    for offset in range(len(log_of(b"a"))):
        with pytest.raises(ClusterFailure, match="offset 0"):
            recovered_end(flipped(log_of(b"a", b"b"), offset), 100, 0)


def test_recovery_cuts_a_group_whose_pages_were_written_out_of_order() -> None:
    """Sound frames after a bad one of the same, unacknowledged group prove nothing."""
    first = log_of(b"a")
    start, size = 100 + len(first), prepared(b"bb").size
    group = b"".join(encode_frame(prepared(b"bb"), start + i * size, start) for i in range(2))
    torn = first + bytes(40) + group[40:]
    assert recovered_end(torn, 100, 0) == 100 + len(first)


def test_a_body_that_holds_a_frame_does_not_fool_recovery() -> None:
    """A publisher can put a well-formed frame into a record; a torn body around it is still an unfinished write."""
    inner_at = 100 + HEADER_BYTES + len(prepared(b"").meta)
    body = encode_frame(prepared(b"evil"), inner_at, 99_999) + b"the rest"
    assert body.startswith(MAGIC)
    assert recovered_end(log_of(body)[:-3], 100, 0) == 100
