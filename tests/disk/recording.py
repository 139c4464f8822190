"""A recording of what a process did to its files, and what a power cut at any moment of it may leave.

The model is harsher than most file systems: a file's content is certain after a sync of the file, its name after a
sync of its folder, and nothing else is. Writes that were not synced may be there or not, sector by sector; changes of
names in one folder survive in their order, up to any of them.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Final

from own_modules import knowing_tests

_HEAD: Final = struct.Struct("<IIQQIIQ")
_MAGIC: Final = 0x4B534944
_SECTOR: Final = 512


class Op(IntEnum):
    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    RENAME = 4
    UNLINK = 5
    MKDIR = 6
    LINK = 7
    SYNC = 8
    SYNC_ALL = 9
    #: Not the recorder's: somebody was told something. `data` says what.
    TOLD = 100


@dataclass(frozen=True, slots=True)
class Record:
    op: Op
    inode: int
    offset: int
    path: str
    path2: str
    data: bytes


def build_recorder(folder: Path) -> Path:
    """Compile the recorder; raises FileNotFoundError where there is no C compiler."""
    library = folder / "recorder.so"
    source = Path(__file__).with_name("recorder.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"], check=True)
    return library


def environment(library: Path, root: Path, log: Path) -> dict[str, str]:
    """For a process whose changes below `root` are to be recorded."""
    recorder = {"LD_PRELOAD": str(library), "DISK_ROOT": str(root), "DISK_LOG": str(log)}
    return knowing_tests(os.environ) | recorder


class Witness:
    """Notes, in the recording, what somebody was told: all that was done before it is in the recording before it."""

    def __init__(self, log: Path) -> None:
        self._file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def note(self, what: bytes) -> None:
        os.write(self._file, _HEAD.pack(_MAGIC, Op.TOLD, 0, 0, 0, 0, len(what)) + what)


def read_recording(log: Path) -> list[Record]:
    return list(_records(log.read_bytes()))


def _records(content: bytes) -> Iterator[Record]:
    offset = 0
    while offset + _HEAD.size <= len(content):
        magic, op, inode, at, path, path2, data = _HEAD.unpack_from(content, offset)
        assert magic == _MAGIC, f"the recording is damaged at {offset}"
        begin = offset + _HEAD.size
        end = begin + path + path2 + data
        if end > len(content):  # The recorded process was killed in the middle of it.
            return
        names = content[begin : begin + path + path2]
        yield Record(Op(op), inode, at, names[:path].decode(), names[path:].decode(), content[end - data : end])
        offset = end


@dataclass(slots=True)
class _File:
    certain: bytearray = field(default_factory=bytearray)
    now: bytearray = field(default_factory=bytearray)
    #: Writes since the last sync: where, and what; None stands for a change of size.
    unsynced: list[tuple[int, bytes | None]] = field(default_factory=list)

    def write(self, offset: int, data: bytes) -> None:
        _put(self.now, offset, data)
        self.unsynced.append((offset, data))

    def resize(self, size: int) -> None:
        _resize(self.now, size)
        self.unsynced.append((size, None))

    def sync(self) -> None:
        self.certain[:] = self.now
        self.unsynced.clear()

    def after_cut(self, chance: random.Random) -> bytes:
        """Nothing, everything, a first part, or any sectors of what was not synced."""
        content = bytearray(self.certain)
        kind = chance.choice(("nothing", "everything", "part", "sectors", "zeros"))
        if kind == "nothing":
            return bytes(content)
        until = chance.randint(0, len(self.unsynced)) if kind == "part" else len(self.unsynced)
        for offset, data in self.unsynced[:until]:
            if data is None:
                _resize(content, offset)
            elif kind == "zeros":
                # The file has grown, but what was written never came.
                _resize(content, max(len(content), offset + len(data)))
            elif kind == "sectors":
                for at in range(0, len(data), _SECTOR):
                    if chance.random() < 0.5:
                        _put(content, offset + at, data[at : at + _SECTOR])
            else:
                _put(content, offset, data)
        return bytes(content)


#: What a name stands for: a file, by its number in the recording, or a folder.
_FOLDER: Final = -1
_Change = list[tuple[str, int | None]]


class Disk:
    """What is on a disk while a recording is played, and what would be left of it."""

    def __init__(self, root: Path) -> None:
        self._root = str(root)
        self._files: dict[int, _File] = {}
        self._by_inode: dict[int, int] = {}
        self._names: dict[str, int] = {self._root: _FOLDER}
        self._certain_names: dict[str, int] = {self._root: _FOLDER}
        #: Changes of names that were not synced, by folder, in their order. A rename is one change.
        self._unsynced: dict[str, list[_Change]] = {}

    def play(self, record: Record) -> None:  # noqa: C901, PLR0912 - one case for each kind of record
        match record.op:
            case Op.CREATE:
                self._files[number := len(self._files)] = _File()
                self._by_inode[record.inode] = number
                self._change(record.path, [(record.path, number)])
            case Op.WRITE:
                if (file := self._file(record.inode)) is not None:
                    file.write(record.offset, record.data)
            case Op.TRUNCATE:
                if (file := self._file(record.inode)) is not None:
                    file.resize(record.offset)
            case Op.RENAME:
                self._rename(record.path, record.path2)
            case Op.UNLINK:
                self._change(record.path, [(record.path, None)])
            case Op.MKDIR:
                self._change(record.path, [(record.path, _FOLDER)])
            case Op.LINK:
                if (linked := self._names.get(record.path)) is not None:
                    self._change(record.path2, [(record.path2, linked)])
            case Op.SYNC if record.path:
                self._sync_folder(record.path)
            case Op.SYNC:
                if (file := self._file(record.inode)) is not None:
                    file.sync()
            case Op.SYNC_ALL:
                for folder in list(self._unsynced):
                    self._sync_folder(folder)
                for file in self._files.values():
                    file.sync()
            case Op.TOLD:
                pass

    def _file(self, inode: int) -> _File | None:
        number = self._by_inode.get(inode)
        return None if number is None else self._files[number]

    def _rename(self, before: str, after: str) -> None:
        moved = {name: what for name, what in self._names.items() if name == before or name.startswith(f"{before}/")}
        change: _Change = [(name, None) for name in moved]
        change += [(after + name[len(before) :], what) for name, what in moved.items()]
        self._change(after, change)

    def _change(self, name: str, change: _Change) -> None:
        _apply(self._names, change)
        self._unsynced.setdefault(os.path.dirname(name), []).append(change)  # noqa: PTH120 - names are text here

    def _sync_folder(self, folder: str) -> None:
        for change in self._unsynced.pop(folder, []):
            _apply(self._certain_names, change)

    def differences(self) -> list[str]:
        """Files that are not as the recording says: somebody wrote past the recorder."""
        root = Path(self._root)
        there = {str(path): path for path in root.rglob("*") if path.is_file() and not path.name.endswith("-shm")}
        recorded = {
            name: number for name, number in self._names.items() if number != _FOLDER and not name.endswith("-shm")
        }
        return sorted(
            name
            for name in there.keys() | recorded.keys()
            if name not in there
            or name not in recorded
            or there[name].read_bytes() != bytes(self._files[recorded[name]].now)
        )

    def cut(self, chance: random.Random, target: Path) -> None:
        """Put into `target` what a power cut now may leave below the root."""
        names = dict(self._certain_names)
        careless = chance.random() < 0.5
        for changes in self._unsynced.values():
            for change in changes[: chance.randint(0, len(changes)) if careless else 0]:
                _apply(names, change)
        contents: dict[int, bytes] = {}
        target.mkdir(parents=True, exist_ok=True)
        for name in sorted(names):
            # A name is of no use without the folders above it.
            if name == self._root or names.get(os.path.dirname(name)) != _FOLDER:  # noqa: PTH120
                continue
            number = names[name]
            path = target / os.path.relpath(name, self._root)
            if number == _FOLDER:
                path.mkdir(parents=True, exist_ok=True)
            elif path.parent.is_dir() and not name.endswith("-shm"):  # SQLite makes those anew.
                contents.setdefault(number, self._files[number].after_cut(chance))
                path.write_bytes(contents[number])


def _apply(names: dict[str, int], change: _Change) -> None:
    for name, what in change:
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


def _put(content: bytearray, offset: int, data: bytes) -> None:
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


def _resize(content: bytearray, size: int) -> None:
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))
