"""Idempotency keys: remembered across crashes, shared by concurrent requests, forgotten in time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.cluster.feeds import idempotency
from tocsin.cluster.feeds.core.frames import prepare_frame
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.idempotency import IdempotencyIndex, hash_body
from tocsin.cluster.feeds.landing import LandingLog
from tocsin.errors import ClusterFailure, InvalidValue, Overloaded

RETENTION_S = 100.0
BODY = b'{"id":1}'
HASH = hash_body(BODY)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[LandingLog]:
    log = LandingLog.open(tmp_path / "log", 200)
    yield log
    log.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.sqlite"


@pytest.fixture
def index(path: Path, log: LandingLog) -> Iterator[IdempotencyIndex]:
    index = open_index(path, log)
    yield index
    index.close()


def open_index(path: Path, log: LandingLog, now_ms: int = 0) -> IdempotencyIndex:
    return IdempotencyIndex.open(path, log, retention_s=RETENTION_S, now_ms=now_ms)


def append(log: LandingLog, key: str, at_ms: int = 0) -> Receipt:
    frame = prepare_frame(
        feed="f", dataset="D", body=BODY, count=1, accepted_at_ms=at_ms, key=key, body_hash=HASH if key else b""
    )
    return Receipt(*log.append(frame).result(5), 1)


def publish(index: IdempotencyIndex, log: LandingLog, key: str, at_ms: int = 0) -> Receipt:
    assert index.claim("f", key, HASH, at_ms) is None
    receipt = append(log, key, at_ms)
    index.settle("f", key, receipt, at_ms)
    return receipt


def known(index: IdempotencyIndex, key: str, now_ms: int = 0) -> Receipt | None:
    """The receipt of a key; a claim made by asking is given back."""
    future = index.claim("f", key, HASH, now_ms)
    if future is None:
        index.abandon("f", key, RuntimeError())
        return None
    return future.result(0)


def test_a_repeat_gets_the_first_receipt_before_and_after_a_flush(index: IdempotencyIndex, log: LandingLog) -> None:
    """Where a key is kept makes no difference."""
    receipt = publish(index, log, "k")
    assert known(index, "k") == receipt
    index.flush()
    assert known(index, "k") == receipt
    assert known(index, "other") is None


def test_keys_of_different_feeds_are_different(index: IdempotencyIndex, log: LandingLog) -> None:
    """Publishers of one feed can't clash with those of another."""
    publish(index, log, "k")
    assert index.claim("g", "k", HASH, 0) is None


def test_a_concurrent_repeat_waits_for_the_first(index: IdempotencyIndex) -> None:
    """Two requests, one append."""
    assert index.claim("f", "k", HASH, 0) is None
    second = index.claim("f", "k", HASH, 0)
    assert second is not None
    assert not second.done()
    assert not second.cancel()
    index.settle("f", "k", Receipt(0, 10, 1), 0)
    assert second.result(0) == Receipt(0, 10, 1)


def test_if_the_first_fails_so_do_those_who_wait_and_the_key_is_free(index: IdempotencyIndex) -> None:
    """They may all try again."""
    assert index.claim("f", "k", HASH, 0) is None
    second = index.claim("f", "k", HASH, 0)
    assert second is not None
    index.abandon("f", "k", Overloaded("disk full", retry_after_s=1))
    assert isinstance(second.exception(0), Overloaded)
    assert index.claim("f", "k", HASH, 0) is None


@pytest.mark.parametrize("stage", ["in flight", "recent", "stored"])
def test_the_same_key_with_another_body_is_refused(index: IdempotencyIndex, log: LandingLog, stage: str) -> None:
    """A key used for two things is a mistake that must not pass for a repeat."""
    if stage == "in flight":
        index.claim("f", "k", HASH, 0)
    else:
        publish(index, log, "k")
    if stage == "stored":
        index.flush()
    with pytest.raises(InvalidValue, match="'k' was used for feed f with a different body"):
        index.claim("f", "k", hash_body(b"other"), 0)


def test_a_crash_loses_no_key(path: Path, log: LandingLog) -> None:
    """Keys not yet in the file are read back from the log, also those whose request never saw its answer."""
    index = open_index(path, log)
    stored = publish(index, log, "stored")
    index.flush()
    recent = publish(index, log, "recent")
    assert index.claim("f", "unanswered", HASH, 0) is None
    unanswered = append(log, "unanswered")
    # The crash: the index is never closed, nor flushed again.
    again = open_index(path, log)
    assert [known(again, key) for key in ("stored", "recent", "unanswered")] == [stored, recent, unanswered]
    again.close()


def test_a_flush_while_a_key_is_in_flight_does_not_skip_it(path: Path, log: LandingLog) -> None:
    """Its frame may be in the log already, before frames that are settled."""
    index = open_index(path, log)
    assert index.claim("f", "slow", HASH, 0) is None
    slow = append(log, "slow")
    publish(index, log, "fast")
    index.flush()
    again = open_index(path, log)
    assert known(again, "slow") == slow
    again.close()


def test_catching_up_starts_at_what_is_kept_of_the_log(path: Path, log: LandingLog) -> None:
    """After a flush, segments may go; the keys in them are in the file."""
    index = open_index(path, log)
    receipts = {f"k{i}": publish(index, log, f"k{i}") for i in range(10)}
    index.flush()
    assert log.remove_before(log.end) > 0
    again = open_index(path, log)
    assert {key: known(again, key) for key in receipts} == receipts
    again.close()


def test_keys_are_forgotten_after_retention(index: IdempotencyIndex, log: LandingLog) -> None:
    """Asked for or purged, in memory or in the file; a new use of the key replaces the old."""
    publish(index, log, "k", at_ms=0)
    past = int(RETENTION_S * 1000) + 1
    assert known(index, "k", now_ms=past - 1) is not None
    assert known(index, "k", now_ms=past) is None
    index.flush()
    assert known(index, "k", now_ms=past) is None
    again = publish(index, log, "k", at_ms=past)
    index.flush()
    assert known(index, "k", now_ms=past) == again
    assert index.purge(past) == 0
    assert index.purge(2 * past) == 1
    assert known(index, "k", now_ms=past) is None


def test_memory_is_bounded(index: IdempotencyIndex, log: LandingLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """If keys can't be stored, new ones wait; known ones are still recognised."""
    monkeypatch.setattr(idempotency, "MAX_RECENT_KEYS", 3)
    receipts = [publish(index, log, f"k{i}") for i in range(3)]
    with pytest.raises(Overloaded, match="waiting to be stored"):
        index.claim("f", "k3", HASH, 0)
    assert known(index, "k0") == receipts[0]
    index.flush()
    assert index.claim("f", "k3", HASH, 0) is None


def test_a_failed_flush_keeps_keys_in_memory(
    index: IdempotencyIndex, log: LandingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is forgotten because the disk was full for a while."""
    receipt = publish(index, log, "k")

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(index, "_store", fail)
        with pytest.raises(ClusterFailure, match="disk is full"):
            index.flush()
    assert known(index, "k") == receipt
    index.flush()
    assert known(index, "k") == receipt


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_keys_of_a_wrong_length_are_refused(index: IdempotencyIndex, key: str) -> None:
    """At most 255 characters."""
    with pytest.raises(InvalidValue, match="1 to 255"):
        index.claim("f", key, HASH, 0)


def test_a_broken_file_is_refused_with_advice(path: Path, log: LandingLog) -> None:
    """Going on without it would accept repeats in silence."""
    path.write_bytes(b"not a database, whatever its name says" * 100)
    with pytest.raises(ClusterFailure, match=r"keys\.sqlite can't be read"):
        open_index(path, log)


def test_keys_that_hold_a_name_are_in_no_file_any_more(path: Path, log: LandingLog, index: IdempotencyIndex) -> None:
    """Others stay known."""
    for key in ("from zoe.okonkwo 1", "from bob 1"):
        assert index.claim("f", key, HASH, 0) is None
        index.settle("f", key, append(log, key), 0)
    index.flush()
    index.forget_keys_with("zoe.okonkwo")
    assert not [file for file in path.parent.glob("keys.sqlite*") if b"zoe.okonkwo" in file.read_bytes()]
    assert index.claim("f", "from bob 1", HASH, 0) is not None
    assert index.claim("f", "from zoe.okonkwo 1", HASH, 0) is None
