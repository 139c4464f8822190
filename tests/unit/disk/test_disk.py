"""Power cuts and flipped bits, a few of them; `python -m disk` does hundreds, and finds planted bugs."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from disk.cuts import cut_power
from disk.flips import flip_bits
from disk.recording import Disk, Op, Record

_NEEDS_COMPILER = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler for the recorder")


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


@pytest.mark.shell
@_NEEDS_COMPILER
def test_a_power_cut_loses_nothing_that_anybody_was_told() -> None:
    """Cluster, coordinator and broker: no record, result, subscription or user is lost, and no number used again."""
    report = cut_power("suite", 5, steps=60)
    assert report.violations == []
    assert report.cuts == 5


@pytest.mark.shell
@_NEEDS_COMPILER
def test_a_sync_left_out_is_found() -> None:
    """The recording and the model of a disk are not blind."""
    assert cut_power("suite", 10, steps=60, bug="results-told-before-sync", stop_at_first=True).violations


@pytest.mark.shell
def test_a_damaged_file_is_detected_or_repaired() -> None:
    """None of them makes a start say anything else than before."""
    report = flip_bits("suite", 6, steps=60)
    assert report.violations == []
    assert report.flips == 6
