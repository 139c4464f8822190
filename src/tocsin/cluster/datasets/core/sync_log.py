"""The format of a table's sync log: which part of the table is certainly on disk, and its checksums (pure).

The log is one file beside the table's. Each line is one sync: the text of the Delta log's new entries, and size and
checksum of each new data file and checkpoint. Everything a line names was on disk before the line was. So the last
sound line defines the table, and later changes never happened. Entries are kept as text, so a damaged one is written
again; other damage is detected.

A line begins with its checksum. The header says how far the log was synced when it was last written. That is only a
lower bound, because the header is not synced itself, but it tells a damaged last line from an unfinished one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final
from zlib import crc32

import msgspec

from tocsin.errors import ClusterFailure

#: The magic, how far the log is synced, and the checksum of both.
_HEADER: Final = struct.Struct("<8sQI")
_MAGIC: Final = b"TcSync1\n"
#: The lines begin after the first disk sector, so that a write to the header can't tear a line.
LINES_START: Final = 512
_CHECKSUM_DIGITS: Final = 8


class FileCheck(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A file's size and checksum."""

    size_bytes: int
    checksum: int


class SyncLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One sync. `entries` are texts of the Delta log by version; `checkpoints` are files by the version they are of."""

    entries: dict[int, str] = {}
    checkpoints: dict[int, dict[str, FileCheck]] = {}
    files: dict[str, FileCheck] = {}


class _Path(msgspec.Struct, frozen=True):
    path: str


class _Action(msgspec.Struct, frozen=True):
    add: _Path | None = None
    remove: _Path | None = None


_decode_action = msgspec.json.Decoder(_Action).decode
_decode_line = msgspec.json.Decoder(SyncLine, strict=False).decode
_encode_line = msgspec.json.Encoder().encode


@dataclass(slots=True)
class SyncedState:
    """All lines combined: the entries and checkpoints that are kept, and the data files that hold rows."""

    entries: dict[int, str] = field(default_factory=dict)
    checkpoints: dict[int, dict[str, FileCheck]] = field(default_factory=dict)
    files: dict[str, FileCheck] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version of the table that was synced last; -1 if none ever was."""
        return max(max(self.entries, default=-1), max(self.checkpoints, default=-1))

    def apply(self, line: SyncLine) -> None:
        self.entries.update(line.entries)
        self.checkpoints.update(line.checkpoints)
        self.files.update(line.files)
        for entry in line.entries.values():
            for name in changed_files(entry).removed:
                self.files.pop(name, None)

    def pruned(self) -> SyncLine:
        """One line that replaces all others: the two newest checkpoints and the entries since the older one, so that a
        damaged checkpoint can be made again."""
        newest = sorted(self.checkpoints)[-2:]
        oldest_needed = newest[0] if len(newest) == 2 else -1
        return SyncLine(
            {version: text for version, text in self.entries.items() if version > oldest_needed},
            {version: self.checkpoints[version] for version in newest},
            dict(self.files),
        )

    def start_from(self, sound_checkpoints: Iterable[int]) -> int | None:
        """The newest of these checkpoints from which entries lead to the last version; -1 if entries alone suffice, and
        None if nothing does."""
        for start in sorted(sound_checkpoints, reverse=True):
            if self._leads_on(start):
                return start
        return -1 if self._leads_on(-1) else None

    def _leads_on(self, start: int) -> bool:
        return all(version in self.entries for version in range(start + 1, self.version + 1))


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    added: tuple[str, ...]
    removed: tuple[str, ...]


def changed_files(entry: str) -> ChangedFiles:
    """The data files that an entry of the Delta log adds and removes."""
    actions = [_decode_action(line) for line in entry.splitlines() if line.strip()]
    return ChangedFiles(
        tuple(action.add.path for action in actions if action.add),
        tuple(action.remove.path for action in actions if action.remove),
    )


def live_files(line: SyncLine) -> Iterator[str]:
    """The files that a line's entries add and do not remove again."""
    changes = [changed_files(entry) for entry in line.entries.values()]
    removed = {name for change in changes for name in change.removed}
    return (name for change in changes for name in change.added if name not in removed)


def encode_header(synced_end: int) -> bytes:
    return _HEADER.pack(_MAGIC, synced_end, crc32(_MAGIC + synced_end.to_bytes(8, "little")))


def encode_line(line: SyncLine) -> bytes:
    body = _encode_line(line)
    return b"%08x %s\n" % (crc32(body), body)


def whole_log(line: SyncLine) -> bytes:
    """A log of one line.

    >>> state, end = read_log(whole_log(SyncLine({0: "{}"})), "t")
    >>> state.version, end == len(whole_log(SyncLine({0: "{}"})))
    (0, True)
    """
    body = encode_line(line)
    return encode_header(LINES_START + len(body)).ljust(LINES_START, b"\0") + body


def read_log(buffer: bytes, source: str) -> tuple[SyncedState, int]:
    """The log's content, and where it ends: anything beyond is an unfinished line.

    Raises `ClusterFailure`, naming `source`, if a line that had been synced is damaged.
    """
    state = SyncedState()
    offset = LINES_START
    while (found := _line_at(buffer, offset)) is not None:
        line, offset = found
        state.apply(line)
    if offset < _synced_end(buffer, source) or any(_later_lines(buffer, offset)):
        raise ClusterFailure(
            f"{source} is damaged at offset {offset}: a line that had been synced has a wrong checksum or is missing"
        )
    return state, offset


def _synced_end(buffer: bytes, source: str) -> int:
    """The lower bound in the header; 0 if the header itself is damaged."""
    if len(buffer) < LINES_START:
        raise ClusterFailure(f"{source} is damaged: it has {len(buffer)} bytes, fewer than its header")
    _, synced_end, _ = _HEADER.unpack_from(buffer)
    return int(synced_end) if buffer.startswith(encode_header(synced_end)) else 0


def _line_at(buffer: bytes, offset: int) -> tuple[SyncLine, int] | None:
    end = buffer.find(b"\n", offset)
    begin = offset + _CHECKSUM_DIGITS + 1
    if end < begin or buffer[offset:begin] != b"%08x " % crc32(buffer[begin:end]):
        return None
    return _decode_line(buffer[begin:end]), end + 1


def _later_lines(buffer: bytes, offset: int) -> Iterator[bool]:
    """A sound line after a bad one proves that the bad one had been synced."""
    while (offset := buffer.find(b"\n", offset) + 1) > 0:
        yield _line_at(buffer, offset) is not None


def differences(expected: Mapping[str, FileCheck], found: Iterable[str]) -> tuple[list[str], list[str]]:
    """Names that were expected and not found, and names that were found and not expected."""
    there = set(found)
    return sorted(expected.keys() - there), sorted(there - expected.keys())
