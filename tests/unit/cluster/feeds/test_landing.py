"""The landing log: what is acknowledged is on disk, stays in order, and is found again."""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.cluster.feeds.core.frames import PreparedFrame, prepare_frame
from tocsin.cluster.feeds.landing import LandingLog
from tocsin.cluster.feeds.reader import DURABLE_FILE, LandingReader, segment_path, segment_starts
from tocsin.errors import ClusterFailure, Overloaded

SEGMENT_BYTES = 1000


def frame(body: bytes, key: str = "") -> PreparedFrame:
    return prepare_frame(feed="reports", dataset="Reports", body=body, count=1, accepted_at_ms=5, key=key)


def append(log: LandingLog, *bodies: bytes) -> list[int]:
    """Appends one after the other; the positions."""
    return [log.append(frame(body)).result(5).position for body in bodies]


def bodies(log: LandingLog | LandingReader, start: int = 0) -> list[bytes]:
    reader = LandingReader(log.directory) if isinstance(log, LandingLog) else log
    return [frame.body for frame in reader.read_frames(start)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LandingLog]:
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    yield log
    log.close()


def test_appended_frames_are_read_back_in_order(log: LandingLog) -> None:
    """Each frame begins where the one before ends."""
    spans = [log.append(frame(b"%d" % i)).result(5) for i in range(5)]
    frames = LandingReader(log.directory).read_frames(0)
    assert [(f.position, f.end) for f in frames] == spans
    assert [f.body for f in frames] == [b"0", b"1", b"2", b"3", b"4"]
    assert spans[0].position == 0
    assert spans[-1].end == log.end


def test_appends_from_many_threads_share_syncs(log: LandingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Group commit: while one sync is under way, everything else gathers for the next."""
    syncs = []
    first_sync, gathered = threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        syncs.append(log._end)
        first_sync.set()
        assert gathered.wait(5)

    monkeypatch.setattr("tocsin.cluster.feeds.landing._fdatasync", sync)
    futures = [log.append(frame(b"first"))]
    assert first_sync.wait(5)
    futures += [log.append(frame(b"%d" % i)) for i in range(100)]
    assert not any(future.done() for future in futures)
    gathered.set()
    assert len({future.result(5) for future in futures}) == 101
    assert len(syncs) == 2


def test_nothing_is_shown_before_it_is_durable(log: LandingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader must not act on what a crash could still undo."""
    syncing, go_on = threading.Event(), threading.Event()

    def sync(descriptor: int) -> None:
        syncing.set()
        assert go_on.wait(5)

    monkeypatch.setattr("tocsin.cluster.feeds.landing._fdatasync", sync)
    future = log.append(frame(b"x"))
    assert syncing.wait(5)
    reader = LandingReader(log.directory)
    assert segment_path(log.directory, 0).stat().st_size > 0
    assert (log.end, reader.end, bodies(log), bodies(reader)) == (0, 0, [], [])
    go_on.set()
    future.result(5)
    assert bodies(reader) == [b"x"]
    reader.close()


def test_a_reader_follows_over_segments(log: LandingLog) -> None:
    """Segments are an inner matter: positions run on."""
    reader = LandingReader(log.directory)
    written = [b"%03d" % i * 30 for i in range(40)]
    append(log, *written[:20])
    assert bodies(reader) == written[:20]
    position = reader.end
    assert reader.read_frames(position) == []
    append(log, *written[20:])
    assert bodies(reader, position) == written[20:]
    assert bodies(log) == written
    assert len(segment_starts(log.directory)) > 3
    positions = [frame.position for frame in LandingReader(log.directory).read_frames(0)]
    assert [header.position for header in log.headers_between(0, log.end)] == positions
    reader.close()


def test_reading_is_bounded_but_never_stuck(log: LandingLog) -> None:
    """At most `max_bytes` and `end_limit`, whole frames only, and one at least."""
    positions = append(log, b"a" * 300, b"b" * 300, b"c" * 3000)
    size = positions[1]
    assert len(LandingReader(log.directory).read_frames(0, None, 2 * size)) == 2
    assert len(LandingReader(log.directory).read_frames(0, None, 2 * size - 1)) == 1
    assert len(LandingReader(log.directory).read_frames(0, None, 1)) == 1
    assert [f.body for f in LandingReader(log.directory).read_frames(positions[2], None, 10)] == [b"c" * 3000]
    assert len(LandingReader(log.directory).read_frames(0, positions[2])) == 2
    assert len(LandingReader(log.directory).read_frames(0, positions[2] - 1)) == 1
    assert LandingReader(log.directory).read_frames(0, positions[1] - 1) == []
    assert LandingReader(log.directory).read_frames(log.end) == []


def test_a_log_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Read as an empty one, it would have publishers told that their records are in tables."""
    reader = LandingReader(tmp_path / "log")
    for read in (lambda: reader.end, lambda: reader.read_frames(0), lambda: list(reader.headers_between(0, 10))):
        with pytest.raises(ClusterFailure, match="is not there"):
            read()
    log = LandingLog.open(tmp_path / "log", SEGMENT_BYTES)
    append(log, b"x")
    assert bodies(reader) == [b"x"]
    log.close()
    reader.close()


def test_a_log_that_ends_before_the_place_asked_for_is_an_error(log: LandingLog) -> None:
    """One that was emptied, or replaced, is not taken for one in which nothing is new."""
    append(log, b"x")
    reader = LandingReader(log.directory)
    for read in (lambda: reader.read_frames(log.end + 1), lambda: list(reader.headers_between(log.end + 1, 1 << 40))):
        with pytest.raises(ClusterFailure, match="ends at position"):
            read()
    reader.close()
    (log.directory / DURABLE_FILE).write_bytes(b"")
    with pytest.raises(ClusterFailure, match="is not there"):
        LandingReader(log.directory).read_frames(0)


def test_reopening_goes_on_where_it_ended(tmp_path: Path) -> None:
    """Positions never start over."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    append(log, b"a" * 600, b"b" * 600, b"c")
    end = log.end
    log.close()
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    assert log.end == end
    assert append(log, b"d") == [end]
    assert [body[:1] for body in bodies(log)] == [b"a", b"b", b"c", b"d"]
    log.close()


def test_an_unfinished_write_is_cut_off_and_its_place_used(tmp_path: Path) -> None:
    """What was never acknowledged leaves no trace."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    append(log, b"a")
    end = log.end
    log.close()
    with segment_path(tmp_path, 0).open("ab") as file:
        file.write(b"".join(frame(b"unfinished").parts_at(end, end))[:-1])
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    assert log.end == end
    assert segment_path(tmp_path, 0).stat().st_size == end
    log.close()


def test_damage_is_refused_with_its_place(tmp_path: Path) -> None:
    """In the last segment at opening, in others when they are read."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    positions = append(log, b"a" * 600, b"b" * 600, b"c" * 600, b"d")
    log.close()

    def flip(segment: int, position: int) -> None:
        with segment_path(tmp_path, segment).open("r+b") as file:
            file.seek(position - segment + 100)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))

    flip(0, positions[1])
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    with pytest.raises(ClusterFailure, match=rf"0\.log, offset {positions[1]} "):
        LandingReader(log.directory).read_frames(0)
    log.close()
    flip(positions[2], positions[2])
    with pytest.raises(ClusterFailure, match=rf"{positions[2]}\.log, offset 0 "):
        LandingLog.open(tmp_path, SEGMENT_BYTES)


def test_missing_segments_are_refused(tmp_path: Path) -> None:
    """A log that was emptied by hand would hand out its positions again."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    append(log, b"a")
    log.close()
    segment_path(tmp_path, 0).unlink()
    with pytest.raises(ClusterFailure, match="segments are gone"):
        LandingLog.open(tmp_path, SEGMENT_BYTES)


def test_a_shortened_older_segment_is_refused(tmp_path: Path) -> None:
    """There is no unfinished write before the last segment."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    append(log, b"a" * 1200, b"b")
    log.close()
    os.truncate(segment_path(tmp_path, 0), 1000)
    with pytest.raises(ClusterFailure, match="ends before"):
        LandingLog.open(tmp_path, SEGMENT_BYTES)


def test_one_writer_at_a_time(log: LandingLog) -> None:
    """Two would overwrite each other."""
    with pytest.raises(ClusterFailure, match="another process"):
        LandingLog.open(log.directory, SEGMENT_BYTES)


def test_old_segments_are_removed_whole_and_never_the_last(log: LandingLog) -> None:
    """Reading what is gone is an error, not silence."""
    positions = append(log, b"a" * 1200, b"b" * 1200, b"c" * 1200)
    assert log.remove_before(positions[1] - 1) == 0
    assert log.remove_before(positions[2] - 1) == 1
    assert log.first_position == positions[1]
    assert log.remove_before(log.end + 100) == 1
    assert [body[:1] for body in bodies(log, positions[2])] == [b"c"]
    with pytest.raises(ClusterFailure, match=f"no longer holds position 0: it begins at {positions[2]}"):
        LandingReader(log.directory).read_frames(0)
    assert append(log, b"d")[0] > positions[2]


def test_the_mark_is_remembered(tmp_path: Path) -> None:
    """Across restarts."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    assert log.read_mark() == 0
    log.write_mark(17)
    log.write_mark(18)
    log.close()
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    assert log.read_mark() == 18
    log.close()


def test_a_failed_sync_is_told_and_its_file_never_trusted_again(
    log: LandingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failed fsync the kernel may have dropped the data, though a second fsync succeeds."""
    append(log, b"before")
    end, failing, synced = log.end, True, []
    real = os.fdatasync

    def sync(descriptor: int) -> None:
        if failing:
            raise OSError(errno.EIO, "Input/output error")
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr("tocsin.cluster.feeds.landing._fdatasync", sync)
    for attempt in range(2):
        with pytest.raises(Overloaded, match="Input/output error"):
            log.append(frame(b"lost %d" % attempt)).result(5)
    assert (log.end, bodies(log)) == (end, [b"before"])
    failing = False
    assert append(log, b"after") == [end]
    assert synced == [segment_path(log.directory, end)]
    assert bodies(log) == [b"before", b"after"]
    assert segment_path(log.directory, 0).stat().st_size == end


def test_what_a_failed_write_left_behind_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if cutting it off failed too, a segment ends where the next begins."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    append(log, b"before")
    end = log.end
    with monkeypatch.context() as patch:
        patch.setattr("tocsin.cluster.feeds.landing._fdatasync", _fail)
        patch.setattr(os, "ftruncate", _fail)
        with pytest.raises(Overloaded):
            log.append(frame(b"lost")).result(5)
    append(log, b"after")
    assert segment_path(tmp_path, 0).stat().st_size > end
    assert bodies(log) == [b"before", b"after"]
    log.close()
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    assert bodies(log) == [b"before", b"after"]
    log.close()


def _fail(*_: object) -> None:
    raise OSError(errno.EIO, "Input/output error")


def test_a_full_disk_is_told_and_survived(log: LandingLog) -> None:
    """The publisher hears why; once there is room the log goes on, with nothing lost or half-written."""
    append(log, b"a" * 100)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
    try:
        futures = [log.append(frame(b"b" * 200)) for _ in range(10)]
        outcomes = [future.exception(5) for future in futures]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    refused = [outcome for outcome in outcomes if outcome is not None]
    assert refused
    assert all(isinstance(outcome, Overloaded) and "File too large" in outcome.message for outcome in refused)
    append(log, b"c")
    kept = [b"b" * 200] * (len(outcomes) - len(refused))
    assert bodies(log) == [b"a" * 100, *kept, b"c"]


def test_closing_writes_what_waits_and_refuses_the_rest(tmp_path: Path) -> None:
    """No future is left unresolved."""
    log = LandingLog.open(tmp_path, SEGMENT_BYTES)
    futures = [log.append(frame(b"%d" % i)) for i in range(50)]
    log.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(Overloaded, match="shutting down"):
        log.append(frame(b"late"))
    log.close()


def test_a_segment_can_be_begun_so_that_all_before_it_can_be_removed(tmp_path: Path) -> None:
    """Positions go on, nothing of what was removed is in a file, and the log opens again with an empty segment."""
    log = LandingLog.open(tmp_path, 1 << 20)
    log.append(frame(b'{"who":"zoe.okonkwo"}\n')).result()
    begin = log.begin_segment()
    assert begin == log.end == log.begin_segment()
    assert log.remove_before(begin) == 1
    assert log.first_position == begin
    assert not [path for path in tmp_path.iterdir() if b"zoe.okonkwo" in path.read_bytes()]
    log.close()
    again = LandingLog.open(tmp_path, 1 << 20)
    assert again.append(frame(b'{"who":"bob"}\n')).result().position == begin
    assert bodies(again, begin) == [b'{"who":"bob"}\n']
    again.close()
