"""The landing log: it keeps accepted records, on disk and checksummed, until they are in tables.

One thread writes. It takes everything that is waiting, writes it together, syncs once, publishes the new durable end
and only then resolves the futures (group commit), so an acknowledgement means "on disk". Positions are byte offsets
over all segments and are never used twice.

After a failed write or sync the file's content is unknown: those appends fail with a temporary error, and the next ones
go to a fresh segment that starts at the durable end. (After a failed fsync the kernel may drop the dirty pages and
report success the next time.)

The log knows nothing of feeds or records; it refuses to open if it is damaged.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import closing, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from tocsin.cluster.feeds.core.frames import FrameHeader, PreparedFrame, recovered_end
from tocsin.cluster.feeds.reader import (
    DURABLE_FILE,
    DURABLE_VALUE,
    LandingReader,
    read_durable,
    segment_path,
    segment_starts,
)
from tocsin.errors import ClusterFailure, Overloaded
from tocsin.runtime.durable_folders import sync_folder
from tocsin.runtime.folders import lock_folder

#: A group holds at most this much, so that one sync never takes long and the first request doesn't wait for the last.
_GROUP_BYTES = 16 << 20
#: Linux takes 1024 buffers in one writev; a frame is two.
_BUFFERS_PER_WRITE = 1024
#: How long publishers are told to wait after a failed write: full disks seldom empty themselves sooner.
_RETRY_AFTER_FAILURE_S = 5.0

_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has only fsync


class Span(NamedTuple):
    """Where a frame stands: from `position` up to `end`."""

    position: int
    end: int


class LandingLog:
    """The writer's end of the log. Any thread may call any method."""

    def __init__(self, directory: Path, segment_bytes: int, lock: int, durable: int, end: int) -> None:
        """Use `open()`."""
        #: Where the log's files are, for readers in other processes.
        self.directory = directory
        self._segment_bytes = segment_bytes
        self._lock_file = lock
        self._durable_file = durable
        self._end = end
        self._segment: int | None = None
        self._segment_start = 0
        self._waiting: deque[tuple[PreparedFrame, Future[Span]]] = deque()
        #: Requests for a new segment.
        self._segment_futures: list[Future[int]] = []
        self._something_waits = threading.Condition()
        self._closing = False
        self._writer = threading.Thread(target=self._write_groups, name="landing-log", daemon=True)

    @staticmethod
    def open(directory: Path, segment_bytes: int) -> LandingLog:
        """The log in `directory`, created if need be; an unfinished write at its end is cut off.

        Raises `ClusterFailure` if acknowledged records are damaged or another process has the log open.
        """
        directory = Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        lock = lock_folder(directory, "the landing log")
        durable = os.open(directory / DURABLE_FILE, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            end = _recover(directory, read_durable(durable) or 0)
            os.pwrite(durable, DURABLE_VALUE.pack(end), 0)
            log = LandingLog(directory, segment_bytes, lock, durable, end)
            log._resume_segment()
        except BaseException:
            os.close(durable)
            os.close(lock)
            raise
        log._writer.start()
        return log

    @property
    def end(self) -> int:
        """The durable end: everything before it is on disk."""
        return self._end

    @property
    def first_position(self) -> int:
        """Where the oldest remaining segment begins."""
        return LandingReader(self.directory).first_position

    def append(self, frame: PreparedFrame) -> Future[Span]:
        """Resolves to the frame's range once it is on disk; fails with `Overloaded` if it could not be written."""
        future: Future[Span] = Future()
        self._wake_writer(future, lambda: self._waiting.append((frame, future)))
        return future

    def begin_segment(self) -> int:
        """Begin a new segment for the next frames; returns its start. All earlier segments can be removed, to the last
        frame, once they are in tables."""
        future: Future[int] = Future()
        self._wake_writer(future, lambda: self._segment_futures.append(future))
        return future.result()

    def _wake_writer(self, future: Future[Any], add: Callable[[], None]) -> None:
        future.set_running_or_notify_cancel()  # A write under way can't be cancelled.
        with self._something_waits:
            if self._closing:
                raise Overloaded("the landing log is shutting down", retry_after_s=_RETRY_AFTER_FAILURE_S)
            add()
            self._something_waits.notify()

    def headers_between(self, start: int, end: int) -> Iterator[FrameHeader]:
        """Like `LandingReader.headers_between`."""
        with closing(LandingReader(self.directory)) as reader:
            yield from reader.headers_between(start, end)

    def write_mark(self, position: int) -> None:
        """Stores durably that everything below `position` is in tables."""
        temporary = self.directory / "mark.tmp"
        with temporary.open("w") as file:
            file.write(_marked(position))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.directory / "mark")
        sync_folder(self.directory)

    def read_mark(self) -> int:
        """The position last given to `write_mark`, or an earlier one: the log's start, if the mark is damaged or was
        never written. Tables know by themselves which frames they have already."""
        try:
            text = (self.directory / "mark").read_bytes()
            position = int(text.split()[0])
        except (FileNotFoundError, ValueError, IndexError):
            return self.first_position
        return position if text == _marked(position).encode() else self.first_position

    def remove_before(self, position: int) -> int:
        """Deletes the segments that lie wholly below `position`; returns how many. The last one always stays, because
        its name keeps positions growing."""
        starts = segment_starts(self.directory)
        removable = [start for start, following in pairwise(starts) if following <= position]
        for start in removable:
            segment_path(self.directory, start).unlink()
        return len(removable)

    def close(self) -> None:
        """Writes everything that is waiting, then closes the files."""
        with self._something_waits:
            if self._closing:
                return
            self._closing = True
            self._something_waits.notify()
        self._writer.join()
        if self._segment is not None:
            os.close(self._segment)
        os.close(self._durable_file)
        os.close(self._lock_file)

    def _write_groups(self) -> None:
        while True:
            group, futures = self._next_group()
            for waiting in futures:
                self._answer_segment(waiting)
            if not group:
                if futures:
                    continue
                return
            try:
                spans = self._write(group)
            except Exception as exc:  # noqa: BLE001 - whatever it is, publishers must hear of it and not wait for ever
                self._abandon_segment()
                reason = f"records can't be written to disk: {exc}"
                for _, future in group:
                    future.set_exception(Overloaded(reason, retry_after_s=_RETRY_AFTER_FAILURE_S))
            else:
                for (_, future), span in zip(group, spans, strict=True):
                    future.set_result(span)

    def _next_group(self) -> tuple[list[tuple[PreparedFrame, Future[Span]]], list[Future[int]]]:
        """Waits for frames or requests for a segment, and takes them all; nothing if the log is closed and drained."""
        group: list[tuple[PreparedFrame, Future[Span]]] = []
        size = 0
        with self._something_waits:
            self._something_waits.wait_for(lambda: self._waiting or self._segment_futures or self._closing)
            futures, self._segment_futures = self._segment_futures, []
            while self._waiting and (not group or size + self._waiting[0][0].size <= _GROUP_BYTES):
                group.append(self._waiting.popleft())
                size += group[-1][0].size
        return group, futures

    def _answer_segment(self, future: Future[int]) -> None:
        try:
            if self._segment is None or self._end > self._segment_start:
                self._start_segment()
            future.set_result(self._end)
        except OSError as exc:
            reason = f"the landing log can't begin a segment: {exc}"
            future.set_exception(Overloaded(reason, retry_after_s=_RETRY_AFTER_FAILURE_S))

    def _write(self, group: list[tuple[PreparedFrame, Future[Span]]]) -> list[Span]:
        segment = self._segment_to_write()
        buffers: list[bytes] = []
        spans: list[Span] = []
        position = self._end
        for frame, _ in group:
            buffers += frame.parts_at(position, synced=self._end)
            spans.append(Span(position, position + frame.size))
            position += frame.size
        _write_fully(segment, buffers, self._end - self._segment_start)
        _fdatasync(segment)
        # Needs no sync of its own: recovery takes it as a lower bound.
        os.pwrite(self._durable_file, DURABLE_VALUE.pack(position), 0)
        self._end = position
        return spans

    def _resume_segment(self) -> None:
        self._segment_start = segment_starts(self.directory)[-1]
        self._segment = os.open(segment_path(self.directory, self._segment_start), os.O_RDWR)

    def _segment_to_write(self) -> int:
        if self._segment is not None and self._end - self._segment_start < self._segment_bytes:
            return self._segment
        return self._start_segment()

    def _start_segment(self) -> int:
        if self._segment is not None:
            os.close(self._segment)
            self._segment = None
        self._segment = _create_segment(self.directory, self._end)
        self._segment_start = self._end
        return self._segment

    def _abandon_segment(self) -> None:
        """Leaves a segment in which a write failed. Cutting it back frees the space. If even that fails, no harm is
        done, because a segment ends where the next one begins."""
        if self._segment is None:
            return
        with suppress(OSError):
            os.ftruncate(self._segment, self._end - self._segment_start)
        with suppress(OSError):
            os.close(self._segment)
        self._segment = None


def _recover(directory: Path, durable_end: int) -> int:
    """Cuts an unfinished write off the last segment and returns the log's end."""
    starts = segment_starts(directory)
    if not starts:
        if durable_end:
            raise ClusterFailure(
                f"the landing log {directory} reached position {durable_end}, but its segments are gone"
            )
        os.close(_create_segment(directory, 0))
        return 0
    for start, following in pairwise(starts):
        path = segment_path(directory, start)
        if path.stat().st_size < following - start:
            raise ClusterFailure(f"landing log damaged: {path.name} ends before {following}, where the next begins")
    last = segment_path(directory, starts[-1])
    content = last.read_bytes()
    end = recovered_end(content, starts[-1], durable_end, last.name)
    descriptor = os.open(last, os.O_RDWR)
    try:
        if end - starts[-1] < len(content):
            os.ftruncate(descriptor, end - starts[-1])
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(directory)
    return end


def _create_segment(directory: Path, start: int) -> int:
    path = segment_path(directory, start)
    # A failed write may have left a file of this name, with nothing durable in it. The segment needs a new file.
    path.unlink(missing_ok=True)
    segment = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    try:
        sync_folder(directory)
    except OSError:
        os.close(segment)
        raise
    return segment


def _write_fully(descriptor: int, buffers: list[bytes], offset: int) -> None:
    for first in range(0, len(buffers), _BUFFERS_PER_WRITE):
        batch = buffers[first : first + _BUFFERS_PER_WRITE]
        size = sum(map(len, batch))
        written = os.pwritev(descriptor, batch, offset)
        while written < size:  # Rare: a signal, or the disk is nearly full and the next write fails.
            written += os.pwrite(descriptor, memoryview(b"".join(batch))[written:], offset + written)
        offset += size


def _marked(position: int) -> str:
    """A mark's text: the position and its checksum."""
    return f"{position} {crc32(str(position).encode()):08x}"
