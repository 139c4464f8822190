"""Folder feeds: files dropped into a folder are published and moved to `done/` inside it.

`FolderState` decides which files are ready. It is pure: time and listings are arguments. `FolderFeed` is the thread
around it. Each part of a file carries an idempotency key made from the file's name, time and size, so a crash between
publishing and moving doubles nothing while keys are remembered.

Files whose content can never be published (broken JSON, an endless line) are moved to `failed/` with the reason beside
them. After temporary trouble (no permission, disk errors) a file is tried again, ever more slowly. Nothing is deleted.

Anybody who may put files into the folder may put links there too, at any moment. No link is followed, neither for
reading nor for writing: links would lead out of the folders that the operator has allowed.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import threading
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from tocsin.cluster.feeds.core.bodies import MAX_KEY_CHARACTERS, count_records, decode_body
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.errors import Overloaded, RequestError, TocsinError, TooLarge
from tocsin.model.backoff import Backoff
from tocsin.model.catalogue import Feed

#: Large enough to make syncs rare, small enough to keep memory and micro-batches modest. It determines where files are
#: cut, and so must stay the same for a file that was half published before a crash.
PART_BYTES = 4 << 20
#: A `.json` file is read whole; larger ones should be NDJSON.
MAX_JSON_BYTES = 64 << 20
#: A file may stop growing for a moment while it is still being written; a second is many disk flushes.
SETTLING_S = 1.0
POLL_S = 0.5

_LINE_SUFFIXES = frozenset({".ndjson", ".jsonl"})
_JSON_SUFFIX = ".json"
_UNFINISHED_SUFFIXES = (".tmp", ".part")
_BACKOFF = Backoff(1.0, 300.0)

_log = logging.getLogger(__name__)

#: Publishes `count` records under a key and returns once they are on disk.
Submit = Callable[[Feed, bytes, int, str], Receipt]


@dataclass(frozen=True, slots=True)
class FileSeen:
    """A file as a listing shows it; any change of these is a new version of it."""

    name: str
    size: int
    mtime_ns: int

    def part_key(self, part: int) -> str:
        key = f"file:{self.name}:{self.mtime_ns}:{self.size}:{part}"
        # A file's name is bytes; invalid text can't be part of a key.
        if len(key) <= MAX_KEY_CHARACTERS and self.name.isprintable():
            return key
        name = blake2b(os.fsencode(self.name), digest_size=20).hexdigest()
        return f"file#{name}:{self.mtime_ns}:{self.size}:{part}"


@dataclass(slots=True)
class FolderState:
    """Which files to take, and when to try again those that failed (pure)."""

    settling_s: float = SETTLING_S
    _unchanged_since: dict[FileSeen, float] = field(default_factory=dict)
    _failures: dict[FileSeen, tuple[int, float]] = field(default_factory=dict)
    _ignored: set[str] = field(default_factory=set)

    def observe(self, listing: Iterable[FileSeen], now: float) -> list[FileSeen]:
        """The files that are complete and due, oldest first."""
        present = [file for file in listing if _is_candidate(file.name)]
        self._unchanged_since = {file: self._unchanged_since.get(file, now) for file in present}
        self._failures = {file: self._failures[file] for file in present if file in self._failures}
        due = (
            file
            for file, since in self._unchanged_since.items()
            if now - since >= self.settling_s and now >= self._failures.get(file, (0, now))[1]
        )
        return sorted(due, key=lambda file: (file.mtime_ns, file.name))

    def newly_ignored(self, listing: Iterable[FileSeen]) -> list[str]:
        """Names of a kind that isn't taken, each reported once."""
        names = {file.name for file in listing if _is_finished(file.name) and not _is_candidate(file.name)}
        new = sorted(names - self._ignored)
        self._ignored = names
        return new

    def failed(self, file: FileSeen, now: float) -> float:
        """The file couldn't be read. Returns the pause before the next attempt, doubled each time."""
        count = self._failures.get(file, (0, 0.0))[0] + 1
        pause_s = _BACKOFF.bound_s(count - 1)
        self._failures[file] = (count, now + pause_s)
        return pause_s


class FolderFeed:
    """Publishes the files of one folder until `stop()`."""

    def __init__(
        self,
        feed: Feed,
        submit: Submit,
        *,
        folder: Path | None = None,
        settling_s: float = SETTLING_S,
        poll_s: float = POLL_S,
        part_bytes: int = PART_BYTES,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watches `folder`, or else the feed's `location`; it need not exist yet."""
        self.feed = feed
        self.folder = Path(feed.location) if folder is None else folder
        #: Why files are still there, for people to see: name → the last error.
        self.problems: dict[str, str] = {}
        #: Published but not yet moved: they aren't published again, however long moving fails.
        self._published: set[FileSeen] = set()
        self._submit = submit
        self._state = FolderState(settling_s)
        self._poll_s = poll_s
        self._part_bytes = part_bytes
        self._monotonic_s = monotonic_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"folder-feed-{feed.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stops after the part that is being published; the rest of the file is taken at the next start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def poll(self) -> int:
        """Lists once and publishes the files that are ready; returns how many files were moved to `done/`."""
        try:
            if self.folder.resolve() != self.folder.absolute():
                raise OSError(errno.ELOOP, "its path has a symbolic link in it; links are not followed")
            listing = list(_list_files(self.folder))
        except OSError as exc:
            self._report(str(self.folder), f"the folder can't be read: {exc}")
            return 0
        for name in self._state.newly_ignored(listing):
            _log.warning("feed %s ignores %s: only .json, .ndjson and .jsonl are taken", self.feed.name, name)
        ready = self._state.observe(listing, self._monotonic_s())
        present = {file.name for file in listing}
        self.problems = {name: reason for name, reason in self.problems.items() if name in present}
        return sum(self._take(file) for file in ready if not self._stopping.is_set())

    def _run(self) -> None:
        while not self._stopping.wait(self._poll_s):
            try:
                self.poll()
            except Exception:  # noqa: BLE001 - a feed must outlive whatever one file does to it
                _log.exception("feed %s: folder %s", self.feed.name, self.folder)

    def _take(self, file: FileSeen) -> bool:
        path = self.folder / file.name
        try:
            if file not in self._published and not self._publish(path, file):
                return False
            self._published.add(file)
            _move_into(self.folder / "done", path)
        except RequestError as exc:
            self._set_aside(path, file, exc)
            return False
        except (OSError, TocsinError) as exc:
            self._try_later(file, exc)
            return False
        self._published.discard(file)
        self.problems.pop(file.name, None)
        return True

    def _set_aside(self, path: Path, file: FileSeen, reason: RequestError) -> None:
        self._report(file.name, f"moved to failed/: {reason}")
        try:
            _move_into(self.folder / "failed", path, f"{reason}\n")
        except OSError as exc:
            self._try_later(file, exc)

    def _try_later(self, file: FileSeen, reason: Exception) -> None:
        pause_s = self._state.failed(file, self._monotonic_s())
        self._report(file.name, f"can't be published or moved, next attempt in {pause_s:g} s: {reason}")

    def _publish(self, path: Path, file: FileSeen) -> bool:
        """True when every part is on disk; False if the feed was stopped or the file changed meanwhile."""
        with _open_file(path) as opened:
            parts = _json_parts if path.suffix == _JSON_SUFFIX else _line_parts
            for number, ndjson in enumerate(parts(opened, self._part_bytes)):
                now_there = os.fstat(opened.fileno())
                if (now_there.st_size, now_there.st_mtime_ns) != (file.size, file.mtime_ns):
                    self._report(file.name, "changed while it was read; write under a name that begins with a dot")
                    return False
                count = count_records(ndjson)
                if count and not self._submit_patiently(ndjson, count, file.part_key(number)):
                    return False
        return True

    def _submit_patiently(self, ndjson: bytes, count: int, key: str) -> bool:
        """Waits while the cluster is overloaded; False if stopped meanwhile."""
        while not self._stopping.is_set():
            try:
                self._submit(self.feed, ndjson, count, key)
            except Overloaded as exc:
                self._stopping.wait(exc.retry_after_s)
            else:
                return True
        return False

    def _report(self, name: str, reason: str) -> None:
        if self.problems.get(name) != reason:
            _log.warning("feed %s: %s %s", self.feed.name, name, reason)
        self.problems[name] = reason


def _is_finished(name: str) -> bool:
    return not name.startswith((".", "_")) and not name.endswith(_UNFINISHED_SUFFIXES)


def _is_candidate(name: str) -> bool:
    suffix = Path(name).suffix
    return _is_finished(name) and (suffix in _LINE_SUFFIXES or suffix == _JSON_SUFFIX)


def _list_files(folder: Path) -> Iterator[FileSeen]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                try:
                    status = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # Renamed since the listing; the next listing shows it.
                yield FileSeen(entry.name, status.st_size, status.st_mtime_ns)


def _line_parts(file: BinaryIO, part_bytes: int) -> Iterator[bytes]:
    """Whole lines, about `part_bytes` at a time, without the byte order mark of Windows programs."""
    if file.read(len(BOM_UTF8)) != BOM_UTF8:
        file.seek(0)
    while part := file.read(part_bytes):
        if not part.endswith(b"\n"):
            part += file.readline(part_bytes)
            if len(part) >= 2 * part_bytes and not part.endswith(b"\n"):
                raise TooLarge(f"a line is longer than {part_bytes} bytes")
        yield part


def _json_parts(file: BinaryIO, part_bytes: int) -> Iterator[bytes]:
    whole = file.read(MAX_JSON_BYTES + 1)
    if not whole.strip():
        return
    if len(whole) > MAX_JSON_BYTES:
        raise TooLarge(f"a .json file may have {MAX_JSON_BYTES} bytes; write larger ones as .ndjson")
    records = decode_body("application/json", {}, whole, max_body_bytes=MAX_JSON_BYTES)
    yield from _line_parts(BytesIO(records.ndjson), part_bytes)


def _open_file(path: Path) -> BinaryIO:
    """A file from the listing. Refuses a link, a pipe or a device that has replaced it since."""
    # Opening a pipe that nobody writes to would wait for ever.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not an ordinary file any more")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _move_into(folder: Path, path: Path, reason: str = "") -> None:
    """Moves a file into `folder` under its name, or the first free `name.N`, with the reason beside it."""
    folder.mkdir(exist_ok=True)
    target = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        there = set(os.listdir(target))  # noqa: PTH208 - of the folder that is open, whatever its name leads to now
        name, number = path.name, 0
        while name in there or (reason and f"{name}.reason.txt" in there):
            number += 1
            name = f"{path.name}.{number}"
        os.rename(path, name, dst_dir_fd=target)
        if reason:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(f"{name}.reason.txt", flags, 0o644, dir_fd=target), "w") as beside:
                beside.write(reason)
    finally:
        os.close(target)
