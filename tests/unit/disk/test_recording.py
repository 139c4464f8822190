"""What a disk may hold after a cut of power."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from disk.recording import Disk, Op, Record


def _record(op: Op, inode: int = 0, offset: int = 0, path: str = "", path2: str = "", data: bytes = b"") -> Record:
    return Record(op, inode, offset, path, path2, data)


def _after_cut(records: list[Record], seed: int, target: Path) -> dict[str, bytes]:
    disk = Disk(Path("/d"))
    for one in records:
        disk.play(one)
    disk.cut(random.Random(seed), target)
    found = {path.name: path.read_bytes() for path in target.iterdir()}
    shutil.rmtree(target)
    return found


def test_what_was_synced_survives_every_cut(tmp_path: Path) -> None:
    """A file whose content and name were synced is there; what was written later may be there, in any part."""
    records = [
        _record(Op.CREATE, 1, path="/d/a"),
        _record(Op.WRITE, 1, 0, data=b"certain"),
        _record(Op.SYNC, 1),
        _record(Op.SYNC, path="/d"),
        _record(Op.WRITE, 1, 7, data=b" or not"),
        _record(Op.CREATE, 2, path="/d/b"),
        _record(Op.WRITE, 2, 0, data=b"x"),
        _record(Op.SYNC, 2),
    ]
    seen = [_after_cut(records, seed, tmp_path / "left") for seed in range(60)]
    assert all(one["a"].startswith(b"certain") for one in seen)
    assert {one["a"] for one in seen} >= {b"certain", b"certain or not", b"certain" + bytes(7)}
    assert {"b" in one for one in seen} == {True, False}, "a name is certain only after a sync of its folder"


def test_a_rename_happens_or_does_not(tmp_path: Path) -> None:
    """One of the two names is there, never neither."""
    records = [
        _record(Op.CREATE, 1, path="/d/old"),
        _record(Op.SYNC, path="/d"),
        _record(Op.RENAME, path="/d/old", path2="/d/new"),
    ]
    seen = {tuple(_after_cut(records, seed, tmp_path / "left")) for seed in range(40)}
    assert seen == {("old",), ("new",)}
