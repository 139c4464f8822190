"""Idempotency keys: the same (feed, key) published again gets the receipt of the first time.

The log's frames hold the keys, so accepting one costs no write of its own. Recent keys are in memory; `flush()` moves
them to an SQLite file together with the log position up to which every key is in that file, and `open()` reads the log
again from there, so a crash loses none. The log may be removed only up to the position that `flush()` returns.

The index never appends to the log: the holder of a claim does, and then settles or abandons it.
"""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import Future
from dataclasses import astuple, dataclass
from hashlib import blake2b
from pathlib import Path

from tocsin.cluster.feeds.core.bodies import check_key
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.landing import LandingLog
from tocsin.errors import ClusterFailure, InvalidValue, Overloaded
from tocsin.runtime.free_pages import erase_free_pages_of

#: With this many keys in memory, publishers with keys must wait: some 100 MB, reached only if the index can't be
#: written to disk for minutes.
MAX_RECENT_KEYS = 250_000
#: Without new keys, the position is stored only after this much, so that an idle cluster does not write every second.
_READ_AGAIN_BYTES = 16 << 20

_SCHEMA = """
CREATE TABLE IF NOT EXISTS keys (
    feed TEXT NOT NULL, key TEXT NOT NULL, body_hash BLOB NOT NULL, accepted_at_ms INTEGER NOT NULL,
    position INTEGER NOT NULL, "end" INTEGER NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (feed, key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS keys_by_age ON keys (accepted_at_ms);
CREATE TABLE IF NOT EXISTS indexed (one INTEGER PRIMARY KEY CHECK (one = 1), position INTEGER NOT NULL);
"""

_FeedKey = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Known:
    receipt: Receipt
    body_hash: bytes
    accepted_at_ms: int


@dataclass(frozen=True, slots=True)
class _InFlight:
    future: Future[Receipt]
    body_hash: bytes
    #: The log's end when the key was claimed: its frame can't stand before that.
    since: int


def hash_body(ndjson: bytes) -> bytes:
    """Tells bodies apart; stored in the frame and in the index."""
    return blake2b(ndjson, digest_size=16).digest()


class IdempotencyIndex:
    """(feed, key) → receipt, for `retention_s`. Every method may be called from any thread."""

    def __init__(self, path: Path, log: LandingLog, retention_s: float) -> None:
        """Use `open()`."""
        self._log = log
        self._retention_ms = int(retention_s * 1000)
        self._lock = threading.Lock()
        self._in_flight: dict[_FeedKey, _InFlight] = {}
        self._recent: dict[_FeedKey, _Known] = {}
        self._flushing: dict[_FeedKey, _Known] = {}
        self._indexed = 0
        # Two connections: in WAL mode look-ups don't wait for a flush.
        self._writing, self._looking_up = threading.Lock(), threading.Lock()
        self._writer = sqlite3.connect(path, check_same_thread=False)
        self._writer.execute("PRAGMA journal_mode = WAL")
        self._writer.execute("PRAGMA synchronous = FULL")  # Segments are removed because a flush succeeded.
        self._writer.executescript(_SCHEMA)
        self._reader = sqlite3.connect(path, check_same_thread=False)

    @staticmethod
    def open(path: Path, log: LandingLog, *, retention_s: float, now_ms: int) -> IdempotencyIndex:
        """The index in the file `path`, brought up to the log's end."""
        try:
            index = IdempotencyIndex(path, log, retention_s)
            index._catch_up()
            index.purge(now_ms)
        except sqlite3.DatabaseError as exc:
            raise ClusterFailure(
                f"the idempotency index {path} can't be read: {exc}. Without it, keys older than the landing log are "
                "forgotten; move it away to go on like that"
            ) from exc
        return index

    def claim(self, feed: str, key: str, body_hash: bytes, now_ms: int) -> Future[Receipt] | None:
        """None if the key is new: the caller now holds it, and must `settle` or `abandon` it. Otherwise the future of
        the first request's receipt, which fails if that request does.

        Raises `InvalidValue` if the key was used with another body.
        """
        check_key(key)
        feed_key = (feed, key)
        with self._lock:
            in_flight = self._in_flight.get(feed_key)
            known = None if in_flight else self._recent.get(feed_key) or self._flushing.get(feed_key)
            if not (in_flight or known):
                known = self._look_up(feed_key)
            if known and known.accepted_at_ms < now_ms - self._retention_ms:
                known = None
            if first := in_flight or known:
                if first.body_hash != body_hash:
                    raise InvalidValue(f"the idempotency key {key!r} was used for feed {feed} with a different body")
            elif len(self._recent) + len(self._flushing) + len(self._in_flight) >= MAX_RECENT_KEYS:
                raise Overloaded("too many idempotency keys are waiting to be stored", retry_after_s=1.0)
            else:
                self._in_flight[feed_key] = _InFlight(_running_future(), body_hash, self._log.end)
        if in_flight:
            return in_flight.future
        return _resolved(known.receipt) if known else None

    def settle(self, feed: str, key: str, receipt: Receipt, accepted_at_ms: int) -> None:
        """The claimed key's frame is on disk."""
        with self._lock:
            claim = self._in_flight.pop((feed, key))
            self._recent[feed, key] = _Known(receipt, claim.body_hash, accepted_at_ms)
        claim.future.set_result(receipt)

    def abandon(self, feed: str, key: str, reason: BaseException) -> None:
        """The claimed key's request failed: requests that wait for it fail too, and the key is free again."""
        with self._lock:
            claim = self._in_flight.pop((feed, key))
        claim.future.set_exception(reason)

    def flush(self) -> int:
        """Moves recent keys to the file, and returns the log position below which every key is there.

        Raises `ClusterFailure` if the file can't be written; the keys stay in memory, and the next flush tries again.
        """
        with self._writing:
            with self._lock:
                self._flushing, self._recent = {**self._flushing, **self._recent}, {}
                # A key in flight may already have its frame in the log, but not before the end it was claimed at.
                indexed = min((claim.since for claim in self._in_flight.values()), default=self._log.end)
            if not self._flushing and indexed - self._indexed < _READ_AGAIN_BYTES:
                return indexed
            try:
                self._store(self._flushing, indexed)
            except sqlite3.Error as exc:
                raise ClusterFailure(f"idempotency keys can't be stored: {exc}") from exc
            with self._lock:
                self._flushing = {}
            return indexed

    def forget(self, feed: str) -> None:
        """Forgets all keys of a feed: they belonged to a former feed of that name, now dropped."""
        self.flush()
        with self._writing, self._writer:
            self._writer.execute("DELETE FROM keys WHERE feed = ?", (feed,))

    def forget_keys_with(self, text: str) -> None:
        """Forgets keys that hold `text`, and erases deleted data from the file."""
        self.flush()
        with self._writing, self._looking_up:
            with self._writer:
                self._writer.execute("DELETE FROM keys WHERE instr(key, ?) > 0", (text,))
            erase_free_pages_of(self._writer)

    def purge(self, now_ms: int) -> int:
        """Forgets the keys in the file that are past retention; returns how many."""
        with self._writing, self._writer:
            oldest = now_ms - self._retention_ms
            return self._writer.execute("DELETE FROM keys WHERE accepted_at_ms < ?", (oldest,)).rowcount

    def close(self) -> None:
        """Flushes and closes the file."""
        try:
            self.flush()
        finally:
            with self._writing, self._looking_up:
                self._writer.close()
                self._reader.close()

    def _catch_up(self) -> None:
        stored = self._writer.execute("SELECT position FROM indexed").fetchone()
        self._indexed = stored[0] if stored else 0
        start = max(self._indexed, self._log.first_position)
        for header in self._log.headers_between(start, self._log.end):
            if header.key:
                receipt = Receipt(header.position, header.end, header.count)
                self._recent[header.feed, header.key] = _Known(receipt, header.body_hash, header.accepted_at_ms)
            if len(self._recent) >= MAX_RECENT_KEYS // 2:
                self._store(self._recent, header.end)
                self._recent = {}
        self.flush()

    def _store(self, keys: dict[_FeedKey, _Known], indexed: int) -> None:
        rows = [
            (feed, key, known.body_hash, known.accepted_at_ms, *astuple(known.receipt))
            for (feed, key), known in keys.items()
        ]
        with self._writer:
            self._writer.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            self._writer.execute("INSERT OR REPLACE INTO indexed VALUES (1, ?)", (indexed,))
        self._indexed = indexed

    def _look_up(self, feed_key: _FeedKey) -> _Known | None:
        query = 'SELECT body_hash, accepted_at_ms, position, "end", count FROM keys WHERE feed = ? AND key = ?'
        try:
            with self._looking_up:
                row = self._reader.execute(query, feed_key).fetchone()
        except sqlite3.Error as exc:
            raise Overloaded(f"idempotency keys can't be looked up: {exc}", retry_after_s=1.0) from exc
        return _Known(Receipt(*row[2:]), row[0], row[1]) if row else None


def _running_future() -> Future[Receipt]:
    future: Future[Receipt] = Future()
    future.set_running_or_notify_cancel()  # Several requests share it: none may cancel it for the others.
    return future


def _resolved(receipt: Receipt) -> Future[Receipt]:
    future: Future[Receipt] = Future()
    future.set_result(receipt)
    return future
