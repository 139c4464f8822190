"""A table's files: forced to the disk, and verified by checksum.

`sync` makes the current table survive a power cut: it forces the data files to the disk and then notes them in the sync
log. `restore` brings the folder of a table back to its last sync, before anybody reads it: it drops later changes,
writes damaged or missing entries of the Delta log again, and sets damaged checkpoints aside. A data file is checked as
a whole before it is first read. Damage that can't be repaired is an error that names the file.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from tocsin.cluster.datasets.checksummed_files import check_of, size_of, sync_file
from tocsin.cluster.datasets.core.sync_log import (
    LINES_START,
    FileCheck,
    SyncedState,
    SyncLine,
    changed_files,
    differences,
    encode_header,
    encode_line,
    live_files,
    read_log,
    whole_log,
)
from tocsin.errors import ClusterFailure
from tocsin.runtime.durable_folders import make_folder, sync_folder

log = structlog.get_logger(__name__)

#: Delta's vacuum ignores names that begin like this.
SYNC_LOG: Final = "_sync_log"
DAMAGED: Final = "_damaged"
_DELTA_LOG: Final = "_delta_log"
_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint.*\.parquet")
#: The log is rewritten when it has grown by this much: a few minutes' worth at ten commits a second.
_REWRITE_AFTER_BYTES: Final = 1 << 20
#: Reading the Delta log may take this long.
_ENTRIES_KEPT_S: Final = 600
_WHAT_TO_DO: Final = (
    "restore it from a backup; if there is none, docs/guides/operate.md says how to go on with the remaining data"
)


class TableFiles:
    """The files of one table. Every method may be called from any thread; `sync` runs once at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._delta_log = path / _DELTA_LOG
        self._lock = threading.Lock()
        self._state = SyncedState()
        self._end = LINES_START
        self._rewritten_bytes = 0
        self._file: int | None = None
        #: Why nothing can be synced any more before a restart, or empty.
        self.failure = ""
        self._written: dict[str, FileCheck] = {}
        self._checkpoints: set[int] = set()
        self._verified: set[str] = set()

    @property
    def has_log(self) -> bool:
        return (self._path / SYNC_LOG).exists()

    # At the start

    def create(self) -> None:
        """Begin the log of a table that is about to be created."""
        make_folder(self._path)
        self._rewrite(SyncLine())

    def restore(self) -> bool:
        """Bring the folder back to the last sync; False if the table was never synced, and so does not exist."""
        source = self._path / SYNC_LOG
        buffer = source.read_bytes()
        self._state, self._end = read_log(buffer, str(source))
        self._open_log()
        if self._end < len(buffer):
            os.ftruncate(self._descriptor, self._end)
            os.fsync(self._descriptor)
        self._rewritten_bytes = self._end
        if self._state.version < 0:
            shutil.rmtree(self._delta_log, ignore_errors=True)
            return False
        self._delta_log.mkdir(exist_ok=True)
        self._restore_delta_log()
        return True

    def adopt(self, version: int, live: Iterable[str]) -> None:
        """Begin the log of a table that has none, with its current files, at a version that has a checkpoint."""
        checkpoint = {path.name: check_of(path) for path in self._checkpoint_files(version)}
        files = {name: check_of(self._path / name) for name in live}
        for name in files:
            sync_file(self._path / name)
        sync_folder(self._path)
        self._sync_checkpoints([version])
        self._rewrite(SyncLine({}, {version: checkpoint}, files))

    def check_present(self, live: Iterable[str]) -> None:
        """Check that the table has the files of its last sync, in full length."""
        missing, unknown = differences(self._state.files, live)
        if missing or unknown:
            raise ClusterFailure(
                f"table {self._path} is damaged: its Delta log and {SYNC_LOG} differ about the file "
                f"{(missing or unknown)[0]}; {_WHAT_TO_DO}"
            )
        for name, check in self._state.files.items():
            size_bytes = size_of(self._path / name)
            if size_bytes != check.size_bytes:
                found = "is missing" if size_bytes is None else f"has {size_bytes} bytes, not {check.size_bytes}"
                raise ClusterFailure(f"{self._path / name} is damaged: it {found}; {_WHAT_TO_DO}")

    def _restore_delta_log(self) -> None:
        state = self._state
        sound = [version for version, files in state.checkpoints.items() if self._is_sound_checkpoint(files)]
        start = state.start_from(sound)
        if start is None:
            bad = " and ".join(str(self._delta_log / name) for files in state.checkpoints.values() for name in files)
            raise ClusterFailure(f"{bad} are damaged; {_WHAT_TO_DO}")
        dropped = self._drop_later(set(sound))
        for version in range(start + 1, state.version + 1):
            self._restore_entry(version, state.entries[version])
        for version in state.checkpoints.keys() - set(sound):
            del state.checkpoints[version]
        if dropped:
            log.info("dropped entries that had not been synced", table=str(self._path), entries=dropped)

    def _drop_later(self, sound_checkpoints: set[int]) -> int:
        """Remove entries after the last sync, and checkpoints that are not known to be sound."""
        dropped = 0
        for path in list(self._delta_log.iterdir()):
            entry, checkpoint = _ENTRY.fullmatch(path.name), _CHECKPOINT.fullmatch(path.name)
            is_later = entry is not None and int(entry[1]) > self._state.version
            is_unsound = checkpoint is not None and int(checkpoint[1]) not in sound_checkpoints
            # Delta finds the newest checkpoint without the hint, too.
            if is_later or is_unsound or path.name == "_last_checkpoint":
                path.unlink()
                dropped += is_later
        return dropped

    def _is_sound_checkpoint(self, files: Mapping[str, FileCheck]) -> bool:
        bad = [name for name, check in files.items() if not _is_as_written(self._delta_log / name, check)]
        for name in bad:
            self._set_aside(self._delta_log / name)
        return not bad

    def _restore_entry(self, version: int, text: str) -> None:
        path = self._delta_log / f"{version:020d}.json"
        expected = text.encode()
        with suppress(FileNotFoundError):
            if path.read_bytes() == expected:
                return
            self._set_aside(path)
        path.write_bytes(expected)

    def _set_aside(self, path: Path) -> None:
        """Keep a damaged file for inspection; its content is made again from the sync log."""
        log.warning("damaged file restored", file=str(path))
        (self._path / DAMAGED).mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            path.replace(self._path / DAMAGED / path.name)

    # While it runs

    def note_written(self, name: str, check: FileCheck) -> None:
        """A data file was written; it is on disk once a sync covers the commit that it belongs to."""
        self._written[name] = check
        self._verified.add(name)

    def note_checkpoint(self, version: int) -> None:
        self._checkpoints.add(version)

    def verify(self, names: Iterable[str], *, again: bool = False) -> None:
        """Check that these data files are as they were written; each is checked once, unless `again` is given."""
        for name in names:
            if name in self._verified and not again:
                continue
            check = self._state.files.get(name) or self._written.get(name)
            if check is None:  # Written by a rewrite since the last sync: the sync will take its checksum.
                continue
            if not _is_as_written(self._path / name, check):
                raise ClusterFailure(
                    f"{self._path / name} is damaged: its size or checksum is wrong, and it was not read; {_WHAT_TO_DO}"
                )
            self._verified.add(name)

    def sync(self, version: int) -> None:
        """Make the table as of `version` survive a power cut. After a failure only a restart helps: the disk's content
        is no longer known."""
        with self._lock:
            if self.failure:
                raise ClusterFailure(self.failure)
            if version <= self._state.version and not self._checkpoints:
                return
            try:
                self._sync(version)
            except OSError as exc:
                raise ClusterFailure(self._note_failure(exc)) from exc

    def _note_failure(self, exc: OSError) -> str:
        self.failure = f"table {self._path} can't be forced to the disk: {exc}"
        return self.failure

    def _sync(self, version: int) -> None:
        checkpoints = sorted(one for one in self._checkpoints.copy() if one <= version)
        texts = {one: self._read_entry(one) for one in range(self._state.version + 1, version + 1)}
        line = SyncLine(texts)
        for name in live_files(line):
            path = self._path / name
            sync_file(path)
            line.files[name] = self._written.get(name) or check_of(path)
        if line.files:
            sync_folder(self._path)
        self._sync_checkpoints(checkpoints)
        for one in checkpoints:
            line.checkpoints[one] = {path.name: check_of(path) for path in self._checkpoint_files(one)}
        self._append(line)
        self._checkpoints.difference_update(checkpoints)
        for text in texts.values():
            for name in changed_files(text).added:
                self._written.pop(name, None)

    def _read_entry(self, version: int) -> str:
        return (self._delta_log / f"{version:020d}.json").read_text()

    def _checkpoint_files(self, version: int) -> list[Path]:
        return sorted(self._delta_log.glob(f"{version:020d}.checkpoint*.parquet"))

    def _sync_checkpoints(self, versions: list[int]) -> None:
        for version in versions:
            for path in self._checkpoint_files(version):
                sync_file(path)
        if versions:
            sync_folder(self._delta_log)

    def _append(self, line: SyncLine) -> None:
        data = encode_line(line)
        self._write_line(data)
        os.fsync(self._descriptor)
        self._end += len(data)
        # Needs no sync of its own: it is a lower bound.
        os.pwrite(self._descriptor, encode_header(self._end), 0)
        self._state.apply(line)

    def _write_line(self, data: bytes) -> None:
        """A full disk is no reason to restart: the part of the line that was written is removed again."""
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._descriptor, memoryview(data)[written:], self._end + written)
        except OSError as exc:
            os.ftruncate(self._descriptor, self._end)
            raise ClusterFailure(f"{self._path / SYNC_LOG} can't be written: {exc}") from exc

    def tidy(self) -> None:
        """Remove entries and checkpoints that nothing needs any more."""
        with self._lock:
            if self._end - self._rewritten_bytes < _REWRITE_AFTER_BYTES or len(self._state.checkpoints) < 2:
                return
            line = self._prune()
        self._remove_needless(line, before_s=time.time() - _ENTRIES_KEPT_S)

    def erase_past(self, live: Iterable[str]) -> None:
        """Remove every trace of the table's former states: older entries and checkpoints, the sync log's copies of
        them, damaged files that were set aside, and every data file that is not `live`. Two checkpoints must have been
        synced since the last change: if one is damaged, the other opens the table."""
        with self._lock:
            line = self._prune()
        self._remove_needless(line, before_s=float("inf"))
        shutil.rmtree(self._path / DAMAGED, ignore_errors=True)
        kept = set(live)
        for path in self._path.glob("*.parquet"):
            if path.name not in kept:
                path.unlink(missing_ok=True)
        sync_folder(self._path)
        sync_folder(self._delta_log)

    def _prune(self) -> SyncLine:
        line = self._state.pruned()
        self._rewrite(line)
        self._verified &= line.files.keys() | self._written.keys()
        return line

    def _remove_needless(self, line: SyncLine, before_s: float) -> None:
        """Entries and checkpoints that `line` does not need, if they are older than `before_s`."""
        oldest_needed = min(line.checkpoints)
        for path in list(self._delta_log.iterdir()):
            if (found := _ENTRY.fullmatch(path.name)) is not None:
                is_needed = int(found[1]) > oldest_needed
            elif (found := _CHECKPOINT.fullmatch(path.name)) is not None:
                is_needed = int(found[1]) in line.checkpoints
            else:
                continue
            if not is_needed and path.stat().st_mtime < before_s:
                path.unlink(missing_ok=True)

    def _rewrite(self, line: SyncLine) -> None:
        """Replace the log with a new one, atomically."""
        content = whole_log(line)
        target, new = self._path / SYNC_LOG, self._path / f"{SYNC_LOG}.new"
        new.write_bytes(content)
        sync_file(new)
        # Opened before the rename: later lines must never go to a file that has lost its name.
        descriptor = os.open(new, os.O_RDWR)
        try:
            new.replace(target)
        except OSError:
            os.close(descriptor)
            raise
        self.close()
        self._file = descriptor
        state = SyncedState()
        state.apply(line)
        self._state = state
        self._end = self._rewritten_bytes = len(content)
        try:
            sync_folder(self._path)
        except OSError as exc:
            self._note_failure(exc)
            raise

    @property
    def _descriptor(self) -> int:
        assert self._file is not None, "the sync log is opened by create, restore or adopt"
        return self._file

    def _open_log(self) -> None:
        self.close()
        self._file = os.open(self._path / SYNC_LOG, os.O_RDWR)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):
            self.close()


def _is_as_written(path: Path, check: FileCheck) -> bool:
    return size_of(path) == check.size_bytes and check_of(path) == check
