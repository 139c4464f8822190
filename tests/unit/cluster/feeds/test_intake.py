"""The intake: receipts when durable, repeats recognised, publishers held back before memory fills."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.idempotency import IdempotencyIndex, hash_body
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.cluster.feeds.reader import LandingReader
from tocsin.errors import InvalidValue, NotFound, Overloaded
from tocsin.model.catalogue import Feed, FeedSource
from tocsin.settings import ClusterSettings

FEED = Feed("reports", "Reports", FeedSource.HTTP)


class HandClock:
    """Moves when told."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now_us(self) -> int:
        return int(self.seconds * 1e6)

    def monotonic_s(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def settings(tmp_path: Path) -> ClusterSettings:
    return ClusterSettings(data_dir=tmp_path, feed_max_pending_bytes=10_000, landing_segment_bytes=2_000)


@pytest.fixture
def intake(settings: ClusterSettings, clock: HandClock) -> Iterator[FeedIntake]:
    intake = FeedIntake.open(settings, clock)
    yield intake
    intake.close()


def body(size: int = 1000, key: str | None = None) -> DecodedBody:
    return DecodedBody(b"x" * size, 1, key)


def test_a_receipt_points_at_the_records(intake: FeedIntake, clock: HandClock) -> None:
    """It is given once they are on disk."""
    receipt = intake.accept(FEED, DecodedBody(b"{}\n{}", 2)).result(5)
    (frame,) = LandingReader(intake.landing.directory).read_frames(receipt.position)
    assert (frame.feed, frame.dataset, frame.body, frame.count) == ("reports", "Reports", b"{}\n{}", 2)
    assert frame.accepted_at_ms == 1_000_000
    assert receipt == Receipt(frame.position, frame.end, 2)


async def test_it_can_be_awaited(intake: FeedIntake) -> None:
    """Giving up on the answer doesn't harm the append."""
    first = asyncio.wrap_future(intake.accept(FEED, body()))
    second = asyncio.wrap_future(intake.accept(FEED, body()))
    first.cancel()
    assert (await second).position > 0
    assert len(LandingReader(intake.landing.directory).read_frames(0)) == 2


def test_a_repeat_is_appended_once(intake: FeedIntake) -> None:
    """Whether the key came with the body or beside it."""
    first = intake.accept(FEED, body(key="k")).result(5)
    assert intake.accept(FEED, body(), "k").result(5) == first
    assert len(LandingReader(intake.landing.directory).read_frames(0)) == 1
    with pytest.raises(InvalidValue, match="different body"):
        intake.accept(FEED, body(999), "k")
    assert intake.pending_bytes == first.end


def test_concurrent_repeats_are_appended_once(intake: FeedIntake) -> None:
    """All get the same receipt."""
    with ThreadPoolExecutor(8) as pool:
        receipts = set(pool.map(lambda _: intake.submit(FEED, b"{}", 1, "k"), range(40)))
    assert len(receipts) == 1
    assert len(LandingReader(intake.landing.directory).read_frames(0)) == 1


def test_repeats_are_recognised_after_a_restart(settings: ClusterSettings, clock: HandClock) -> None:
    """Also if everything before was ingested and removed."""
    intake = FeedIntake.open(settings, clock)
    receipts = [intake.submit(FEED, b"x" * 900, 1, f"k{i}") for i in range(8)]
    intake.ingested(intake.landing.end)
    intake.release(intake.landing.end)
    assert intake.landing.first_position > 0
    intake.close()
    intake = FeedIntake.open(settings, clock)
    assert intake.pending_bytes == 0
    assert [intake.submit(FEED, b"x" * 900, 1, f"k{i}") for i in range(8)] == receipts
    intake.close()


def test_no_segment_goes_before_its_keys_are_stored(intake: FeedIntake) -> None:
    """A crash right after must still find every key."""
    receipts = [intake.submit(FEED, b"x" * 900, 1, f"k{i}") for i in range(8)]
    body_hash = hash_body(b"x" * 900)
    intake.ingested(intake.landing.end)
    intake.release(receipts[-1].end)
    assert intake.landing.first_position > 0
    path = intake.landing.directory / "keys.sqlite"
    after = IdempotencyIndex.open(path, intake.landing, retention_s=1000, now_ms=1_000_000)
    futures = [after.claim("reports", f"k{i}", body_hash, 1_000_000) for i in range(8)]
    assert [future and future.result(0) for future in futures] == receipts
    after.close()


def test_a_key_under_way_keeps_its_part_of_the_log(intake: FeedIntake) -> None:
    """Its frame may be there already, though the index hasn't heard."""
    assert intake.index.claim("reports", "under way", b"h", 1_000_000) is None
    for _ in range(8):
        intake.submit(FEED, b"x" * 900, 1, None)
    intake.ingested(intake.landing.end)
    intake.release(intake.landing.end)
    assert intake.landing.first_position == 0
    assert intake.landing.read_mark() == intake.landing.end
    intake.index.abandon("reports", "under way", RuntimeError())
    intake.release(intake.landing.end)
    assert intake.landing.first_position > 0


def fill(intake: FeedIntake) -> int:
    """Publishes until refused; how many were taken."""
    for taken in range(100):
        try:
            intake.submit(FEED, b"x" * 1000, 1, None)
        except Overloaded:
            return taken
    raise AssertionError("never refused")


def test_publishers_are_held_back_until_the_tables_catch_up(intake: FeedIntake, clock: HandClock) -> None:
    """Pending bytes never pass the limit, and room made is room given."""
    assert fill(intake) == 9
    assert intake.pending_bytes <= 10_000
    half = LandingReader(intake.landing.directory).read_frames(0)[4].end
    clock.seconds += 1
    intake.ingested(half)
    assert fill(intake) == 5
    assert intake.pending_bytes <= 10_000


def test_the_wait_is_told_from_the_drain_rate(intake: FeedIntake, clock: HandClock) -> None:
    """Idle time doesn't count: the rate is that of an ingestion with work to do."""
    clock.seconds += 1000
    fill(intake)
    with pytest.raises(Overloaded) as unknown:
        intake.accept(FEED, body())
    assert unknown.value.retry_after_s == 2.0
    clock.seconds += 2
    intake.ingested(4000)
    assert intake._drain_bytes_per_s == pytest.approx(2000)
    fill(intake)
    with pytest.raises(Overloaded) as known:
        intake.accept(FEED, body(9_000))
    assert known.value.retry_after_s == pytest.approx((intake.pending_bytes + 9_000 - 10_000) / 2000, rel=0.05)


def test_bytes_being_written_count(intake: FeedIntake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk must not let memory fill up."""
    go_on = threading.Event()
    monkeypatch.setattr("tocsin.cluster.feeds.landing._fdatasync", lambda _: go_on.wait(5))
    futures = [intake.accept(FEED, body()) for _ in range(9)]
    with pytest.raises(Overloaded):
        intake.accept(FEED, body())
    go_on.set()
    assert [future.result(5).count for future in futures] == [1] * 9


def test_a_request_above_the_limit_passes_alone(intake: FeedIntake) -> None:
    """Otherwise it would never get in."""
    end = intake.accept(FEED, body(20_000)).result(5).end
    with pytest.raises(Overloaded):
        intake.accept(FEED, body(1))
    intake.ingested(end)
    intake.accept(FEED, body(20_000)).result(5)


def test_a_disk_error_reaches_the_publisher_and_frees_key_and_room(
    intake: FeedIntake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request may succeed later, once."""

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("tocsin.cluster.feeds.landing._fdatasync", fail)
        with pytest.raises(Overloaded, match="No space left"):
            intake.submit(FEED, b"{}", 1, "k")
    assert intake.pending_bytes == 0
    assert intake.submit(FEED, b"{}", 1, "k").position == 0
    assert len(LandingReader(intake.landing.directory).read_frames(0)) == 1


def test_waiting_for_ingestion(intake: FeedIntake) -> None:
    """Resolves when the tables have it, not before; whoever gives up is forgotten."""
    first, second = (intake.submit(FEED, b"{}", 1, None) for _ in range(2))
    waits = [intake.wait_ingested(receipt.end) for receipt in (first, second)]
    gone = intake.wait_ingested(second.end)
    assert gone.cancel()
    intake.ingested(first.end)
    assert [wait.done() for wait in waits] == [True, False]
    assert (intake.is_ingested(first), intake.is_ingested(second)) == (True, False)
    assert len(intake._waiting) == 1
    intake.ingested(second.end)
    assert waits[1].result(0) is None
    assert intake.wait_ingested(first.end).done()
    intake.ingested(first.end)  # An older report changes nothing.
    assert intake.ingested_position == second.end


def test_receipts_of_nothing_are_not_found(intake: FeedIntake) -> None:
    """A well-formed receipt can still be one that was never given."""
    with pytest.raises(NotFound, match="no such receipt"):
        intake.is_ingested(Receipt(0, 10, 1))


def test_closing_refuses_what_comes_later(settings: ClusterSettings, clock: HandClock) -> None:
    """With a temporary error; whoever waits is released."""
    intake = FeedIntake.open(settings, clock)
    receipt = intake.submit(FEED, b"{}", 1, None)
    wait = intake.wait_ingested(receipt.end)
    intake.close()
    assert wait.cancelled()
    with pytest.raises(Overloaded, match="shutting down"):
        intake.accept(FEED, body())
    with pytest.raises(Overloaded):
        intake.accept(FEED, body(key="k"))
    assert intake.pending_bytes == receipt.end
