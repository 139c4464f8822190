"""Reading the landing log from its files, in any process.

The writer publishes how far the log is durable in the file `durable`; readers never go beyond that, so they see only
acknowledged frames. Segments are files named by the position they start at; a segment ends where the next one begins,
even if its file is longer. Importing this module is cheap on purpose: Spark's Python process does it at every start.
"""

from __future__ import annotations

import contextlib
import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tocsin.cluster.feeds.core.frames import (
    HEADER_BYTES,
    Frame,
    FrameHeader,
    damaged,
    frame_length,
    read_header,
    scan_frames,
)
from tocsin.errors import ClusterFailure

DURABLE_FILE: Final = "durable"
#: Aligned and of machine-word size, so that a reader never sees half of a new value.
DURABLE_VALUE: Final = struct.Struct("<Q")
SEGMENT_SUFFIX: Final = ".log"

#: Headers are read in pieces of this size: a hundred small frames at once, yet little waste if bodies are large. Names
#: and keys are limited in length, so every header fits.
_HEADERS_CHUNK: Final = 64 << 10


def segment_path(directory: Path, start: int) -> Path:
    """Twenty digits hold any 64-bit position and make names sort by position."""
    return directory / f"{start:020d}{SEGMENT_SUFFIX}"


def segment_starts(directory: Path) -> list[int]:
    """The start positions of the log's segments, in order."""
    files = (path for path in directory.iterdir() if path.suffix == SEGMENT_SUFFIX)
    return sorted(int(path.stem) for path in files if path.stem.isdecimal())


def read_durable(descriptor: int) -> int | None:
    """How far the log is durable; None if nothing was ever written there."""
    value = os.pread(descriptor, DURABLE_VALUE.size, 0)
    return int(DURABLE_VALUE.unpack(value)[0]) if len(value) == DURABLE_VALUE.size else None


class LandingReader:
    """Reads acknowledged frames. One instance serves one thread; its files stay open until `close()`."""

    def __init__(self, directory: Path) -> None:
        self._directory = Path(directory)
        self._durable: int | None = None
        self._segment: tuple[int, int] | None = None  # its start and the open file

    @property
    def end(self) -> int:
        """The durable end of the log: one small read, however much is new.

        Raises `ClusterFailure` if there is no log: a caller that took it for an empty one would lose records.
        """
        if self._durable is None:
            try:
                self._durable = os.open(self._directory / DURABLE_FILE, os.O_RDONLY)
            except FileNotFoundError as exc:
                raise self._gone() from exc
        end = read_durable(self._durable)
        if end is None:
            raise self._gone()
        return end

    @property
    def first_position(self) -> int:
        """Where the oldest remaining segment begins."""
        return next(iter(segment_starts(self._directory)), 0)

    def read_frames(self, start: int, end_limit: int | None = None, max_bytes: int = 16 << 20) -> list[Frame]:
        """Whole frames from `start` up to the durable end, or `end_limit` if that comes first.

        They have `max_bytes` at most, but there is at least one frame if any is there. `start` must be where a frame
        begins. Raises `ClusterFailure` if it has been removed, is damaged or was never written.
        """
        durable = self._end_after(start)
        limit = durable if end_limit is None else min(durable, end_limit)
        frames: list[Frame] = []
        position, budget = start, max_bytes
        while position < limit and budget > 0:
            segment, stop = self._segment_at(position, limit)
            wanted = min(stop - position, budget)
            buffer = self._read(segment, position, wanted)
            name = segment_path(self._directory, segment).name
            found = list(scan_frames(buffer, position, name, segment))
            frames += found
            reached = found[-1].end if found else position
            # Frames end exactly at a segment's end and at the durable end; only `end_limit` may cut one.
            if len(buffer) < wanted or (reached < stop == position + wanted and stop != end_limit):
                raise damaged(name, segment, reached)
            if (frames and reached < position + wanted) or reached < stop == position + wanted:
                break
            if found:
                budget -= reached - position
                position = reached
            else:  # The first frame is larger than `max_bytes`: take it alone.
                budget = max(frame_length(buffer, 0) or HEADER_BYTES, budget + 1)
        return frames

    def headers_between(self, start: int, end: int) -> Iterator[FrameHeader]:
        """The headers of the frames that begin in [start, end); bodies are neither read nor checked."""
        limit = min(self._end_after(start), end)
        position = start
        while position < limit:
            segment, stop = self._segment_at(position, limit)
            while position < stop:
                first, buffer = position, self._read(segment, position, _HEADERS_CHUNK)
                while position < stop and (header := read_header(buffer, position - first, position)):
                    yield header
                    position = header.end
                if position == first:
                    raise damaged(segment_path(self._directory, segment).name, segment, position)

    def _end_after(self, start: int) -> int:
        if start > (end := self.end):
            raise ClusterFailure(
                f"the landing log {self._directory} ends at position {end}, before {start}, where reading goes on"
            )
        return end

    def _gone(self) -> ClusterFailure:
        return ClusterFailure(f"the landing log {self._directory} is not there: {DURABLE_FILE} is missing or empty")

    def close(self) -> None:
        if self._durable is not None:
            os.close(self._durable)
        if self._segment is not None:
            os.close(self._segment[1])
        self._durable = self._segment = None

    def __del__(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            self.close()

    def _segment_at(self, position: int, limit: int) -> tuple[int, int]:
        """The start of the segment that holds `position`, and the end of its readable part."""
        starts = segment_starts(self._directory)
        index = bisect_right(starts, position)
        if index == 0:
            raise _removed(position, starts)
        stop = min(limit, starts[index]) if index < len(starts) else limit
        return starts[index - 1], stop

    def _read(self, segment: int, position: int, length: int) -> bytes:
        if self._segment is None or self._segment[0] != segment:
            try:
                descriptor = os.open(segment_path(self._directory, segment), os.O_RDONLY)
            except FileNotFoundError as exc:
                raise _removed(position, segment_starts(self._directory)) from exc
            if self._segment is not None:
                os.close(self._segment[1])
            self._segment = segment, descriptor
        return os.pread(self._segment[1], length, position - segment)


def _removed(position: int, starts: list[int]) -> ClusterFailure:
    kept = f"it begins at {starts[0]}" if starts else "it is empty"
    return ClusterFailure(f"the landing log no longer holds position {position}: {kept}")
