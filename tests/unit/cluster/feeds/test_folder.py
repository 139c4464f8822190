"""Folder feeds: complete files are published once each, whatever happens in between."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tocsin.cluster.feeds.core.bodies import check_key
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.folder import FileSeen, FolderFeed, FolderState
from tocsin.errors import ClusterFailure, Overloaded
from tocsin.model.catalogue import Feed, FeedSource


def seen(name: str, size: int = 10, mtime_ns: int = 1) -> FileSeen:
    return FileSeen(name, size, mtime_ns)


def test_a_file_is_taken_once_it_has_settled() -> None:
    """Unchanged in size and time for the settling time, counted from when that was first seen."""
    state = FolderState(settling_s=1)
    assert state.observe([seen("a.json", 10)], 0.0) == []
    assert state.observe([seen("a.json", 20)], 0.9) == []
    assert state.observe([seen("a.json", 20, 2)], 1.75) == []
    assert state.observe([seen("a.json", 20, 2)], 2.7) == []
    assert state.observe([seen("a.json", 20, 2)], 2.75) == [seen("a.json", 20, 2)]


def test_files_are_taken_oldest_first() -> None:
    """As they were written."""
    state = FolderState(settling_s=0)
    files = [seen("b.json", mtime_ns=2), seen("c.ndjson", mtime_ns=1), seen("a.jsonl", mtime_ns=2)]
    assert [file.name for file in state.observe(files, 0)] == ["c.ndjson", "a.jsonl", "b.json"]


@pytest.mark.parametrize("name", [".a.json", "_a.json", "a.json.tmp", "a.json.part", "a.csv", "a"])
def test_unfinished_and_unknown_files_are_left_alone(name: str) -> None:
    """Writers use these names for what isn't complete."""
    assert FolderState(settling_s=0).observe([seen(name)], 0) == []


def test_unknown_files_are_told_once() -> None:
    """Unfinished ones aren't told at all."""
    state = FolderState()
    listing = [seen("a.csv"), seen(".hidden.csv"), seen("b.json.tmp"), seen("b.json")]
    assert state.newly_ignored(listing) == ["a.csv"]
    assert state.newly_ignored(listing) == []


def test_failures_are_retried_ever_more_slowly_until_the_file_changes() -> None:
    """A changed file is a new file."""
    state = FolderState(settling_s=0)
    file = seen("a.json")
    pauses, now = [], 0.0
    for _ in range(12):
        assert state.observe([file], now) == [file]
        pauses.append(state.failed(file, now))
        assert state.observe([file], now + pauses[-1] - 0.1) == []
        now += pauses[-1]
    assert pauses[:3] == [1, 2, 4]
    assert pauses[-1] == 300
    state.failed(file, now)
    assert state.observe([seen("a.json", 11)], now) == [seen("a.json", 11)]


def test_keys_fit_whatever_the_name() -> None:
    """However long it is, and if its bytes are no text; and keys differ from part to part and version to version."""
    for name in ("a.json", "x" * 250 + ".json", os.fsdecode(b"caf\xe9.json")):
        keys = {seen(name, size, time_ns).part_key(part) for size in (1, 2) for time_ns in (1, 2) for part in (0, 1)}
        assert len(keys) == 8
        for key in keys:
            check_key(key)
            assert key.encode()  # As the landing log stores it.


@dataclass
class Cluster:
    """Takes submissions as the intake does: a key counts once."""

    taken: dict[str, bytes] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    calls: int = 0

    def submit(self, feed: Feed, ndjson: bytes, count: int, key: str) -> Receipt:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        assert count == sum(1 for line in ndjson.split(b"\n") if line.strip())
        assert self.taken.setdefault(key, ndjson) == ndjson
        return Receipt(0, len(ndjson), count)

    def records(self) -> list[object]:
        return [json.loads(line) for body in self.taken.values() for line in body.split(b"\n") if line.strip()]


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "drop"
    folder.mkdir()
    return folder


def feed_of(folder: Path, cluster: Cluster, part_bytes: int = 64, settling_s: float = 0) -> FolderFeed:
    feed = Feed("reports", "Reports", FeedSource.FOLDER, str(folder))
    return FolderFeed(feed, cluster.submit, settling_s=settling_s, poll_s=0.01, part_bytes=part_bytes)


def lines(count: int) -> bytes:
    return b"".join(b'{"id":%d}\n' % i for i in range(count))


def test_files_are_cut_at_line_ends_published_and_moved(folder: Path, cluster: Cluster) -> None:
    """Every record once, in order."""
    (folder / "a.ndjson").write_bytes(lines(100))
    assert feed_of(folder, cluster).poll() == 1
    assert cluster.records() == [{"id": i} for i in range(100)]
    assert len(cluster.taken) > 5
    assert max(map(len, cluster.taken.values())) < 128
    assert (folder / "done" / "a.ndjson").read_bytes() == lines(100)
    assert not (folder / "a.ndjson").exists()


def test_json_documents_and_odd_endings(folder: Path, cluster: Cluster) -> None:
    """An array is many records; a missing last line break, a byte-order mark and emptiness do no harm."""
    (folder / "a.json").write_text(json.dumps([{"id": i} for i in range(10)], indent=2))
    (folder / "b.jsonl").write_bytes(b'\xef\xbb\xbf{"id":10}\n\n{"id":11}')
    (folder / "c.ndjson").write_bytes(b"")
    (folder / "d.json").write_bytes(b"\n")
    assert feed_of(folder, cluster).poll() == 4
    assert sorted(cluster.records(), key=str) == sorted(({"id": i} for i in range(12)), key=str)


def test_names_in_done_never_clash(folder: Path, cluster: Cluster) -> None:
    """Nothing is overwritten."""
    feed = feed_of(folder, cluster)
    for i in range(3):
        (folder / "a.json").write_bytes(b'{"id":%d}' % i)
        os.utime(folder / "a.json", ns=(i, i))
        assert feed.poll() == 1
    assert sorted(path.name for path in (folder / "done").iterdir()) == ["a.json", "a.json.1", "a.json.2"]
    assert cluster.records() == [{"id": 0}, {"id": 1}, {"id": 2}]


def test_a_crash_between_publishing_and_moving_doubles_nothing(folder: Path, cluster: Cluster) -> None:
    """The next start publishes under the same keys."""
    (folder / "a.ndjson").write_bytes(lines(100))
    feed_of(folder, cluster).poll()
    (folder / "done" / "a.ndjson").rename(folder / "a.ndjson")
    feed_of(folder, cluster).poll()
    assert cluster.records() == [{"id": i} for i in range(100)]


def test_overload_is_waited_out(folder: Path, cluster: Cluster) -> None:
    """The file is published all the same."""
    cluster.failures = [Overloaded("full", retry_after_s=0.01), Overloaded("full", retry_after_s=0.01)]
    (folder / "a.ndjson").write_bytes(lines(1))
    assert feed_of(folder, cluster).poll() == 1
    assert cluster.calls == 3


def test_a_cluster_failure_is_retried_later(folder: Path, cluster: Cluster) -> None:
    """The file stays where it is, and people can see why."""
    cluster.failures = [ClusterFailure("no luck")]
    (folder / "a.ndjson").write_bytes(lines(1))
    feed = feed_of(folder, cluster)
    assert feed.poll() == 0
    assert "no luck" in feed.problems["a.ndjson"]
    assert (folder / "a.ndjson").exists()


def test_what_can_never_be_published_is_set_aside_with_the_reason(folder: Path, cluster: Cluster) -> None:
    """Others go on."""
    (folder / "bad.json").write_bytes(b'{"id":')
    (folder / "endless.ndjson").write_bytes(b"x" * 1000)
    (folder / "good.json").write_bytes(b"{}")
    assert feed_of(folder, cluster).poll() == 1
    assert "isn't valid JSON" in (folder / "failed" / "bad.json.reason.txt").read_text()
    assert "longer than 64 bytes" in (folder / "failed" / "endless.ndjson.reason.txt").read_text()
    assert (folder / "failed" / "bad.json").exists()


def test_what_cannot_be_moved_is_not_published_again(
    folder: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that lasts: keys are forgotten one day."""
    (folder / "done").write_text("a file where the folder should be")
    (folder / "a.ndjson").write_bytes(lines(1))
    feed = feed_of(folder, cluster)
    monkeypatch.setattr(FolderState, "failed", lambda *_: 0.0)
    assert [feed.poll(), feed.poll()] == [0, 0]
    assert cluster.calls == 1
    (folder / "done").unlink()
    assert feed.poll() == 1
    assert (cluster.calls, feed.problems) == (1, {})


def test_a_file_that_changes_while_it_is_read_stays(folder: Path, cluster: Cluster) -> None:
    """It isn't complete, so it isn't done."""
    path = folder / "a.ndjson"
    path.write_bytes(lines(100))
    feed = feed_of(folder, cluster)
    submit = feed._submit

    def grow(*args: object) -> Receipt:
        with path.open("ab") as file:
            file.write(b'{"id":"late"}\n')
        return submit(*args)  # type: ignore[arg-type]

    feed._submit = grow
    assert feed.poll() == 0
    assert path.exists()
    assert "changed while it was read" in feed.problems["a.ndjson"]


def test_links_are_not_followed(folder: Path, cluster: Cluster, tmp_path: Path) -> None:
    """They would lead out of the folder that was allowed."""
    (tmp_path / "secret.json").write_bytes(b"{}")
    (folder / "a.json").symlink_to(tmp_path / "secret.json")
    assert feed_of(folder, cluster).poll() == 0
    assert cluster.calls == 0


def test_a_link_that_takes_a_files_place_is_not_followed(
    folder: Path, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be put there between the look and the reading, with the size and time of the file it leads to."""
    secret = tmp_path / "secret.json"
    secret.write_bytes(b'{"a": 1}')
    (folder / "a.json").write_bytes(b'{"b": 2}')
    os.utime(folder / "a.json", ns=(secret.stat().st_atime_ns, secret.stat().st_mtime_ns))
    observe = FolderState.observe

    def swap(self: FolderState, listing: Iterable[FileSeen], now: float) -> list[FileSeen]:
        (folder / "a.json").unlink()
        (folder / "a.json").symlink_to(secret)
        return observe(self, listing, now)

    monkeypatch.setattr(FolderState, "observe", swap)
    feed = feed_of(folder, cluster)
    assert (feed.poll(), cluster.calls) == (0, 0)
    assert "can't be published" in feed.problems["a.json"]


@pytest.mark.parametrize("inside", ["done", "failed"])
def test_nothing_is_moved_or_written_through_a_link(
    folder: Path, cluster: Cluster, tmp_path: Path, inside: str
) -> None:
    """Neither through a link in place of done/ or failed/, nor through one where a reason is to be written."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / inside).symlink_to(elsewhere)
    (folder / "a.json").write_bytes(b"{}" if inside == "done" else b"{")
    feed = feed_of(folder, cluster)
    assert feed.poll() == 0
    assert (list(elsewhere.iterdir()), (folder / "a.json").exists()) == ([], True)
    (folder / inside).unlink()
    (folder / inside).mkdir()
    (folder / inside / "a.json.reason.txt").symlink_to(elsewhere / "overwritten")
    feed_of(folder, cluster).poll()
    assert list(elsewhere.iterdir()) == []


def test_a_link_on_the_way_to_the_folder_is_not_followed(folder: Path, cluster: Cluster, tmp_path: Path) -> None:
    """The folder was looked at when the feed was created; what took its place since was not."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private" / "a.json").write_bytes(b"{}")
    folder.rmdir()
    folder.symlink_to(tmp_path / "private")
    feed = feed_of(folder, cluster)
    assert (feed.poll(), cluster.calls) == (0, 0)
    assert "links are not followed" in feed.problems[str(folder)]


def test_a_missing_folder_and_unknown_kinds_are_reported_once(
    folder: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at every look."""
    missing = feed_of(folder / "none", cluster)
    (folder / "a.csv").write_bytes(b"x")
    unknown = feed_of(folder, cluster)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            missing.poll()
            unknown.poll()
    assert ["can't be read" in record.message for record in caplog.records] == [True, False]
    assert "ignores a.csv" in caplog.records[1].message


def test_the_thread_publishes_and_stops(folder: Path, cluster: Cluster) -> None:
    """Also while the cluster is overloaded for long."""
    feed = feed_of(folder, cluster, settling_s=0.02)
    feed.start()
    (folder / "a.ndjson").write_bytes(lines(3))
    deadline = time.monotonic() + 5
    while not (folder / "done" / "a.ndjson").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(cluster.records()) == 3
    cluster.failures = [Overloaded("full", retry_after_s=60)] * 10
    (folder / "b.ndjson").write_bytes(lines(3))
    while cluster.calls < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    began = time.monotonic()
    feed.stop()
    assert time.monotonic() - began < 2
    assert (folder / "b.ndjson").exists()
