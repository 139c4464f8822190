"""What the disk may do to a table: every loss and every flipped bit is repaired or noticed, and none is served."""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tocsin.cluster.datasets.table_files import DAMAGED, SYNC_LOG
from tocsin.cluster.datasets.tables import Table
from tocsin.errors import ClusterFailure

pytestmark = pytest.mark.shell

_SCHEMA = pa.schema([("n", pa.int64()), ("word", pa.string())])


def rows(*numbers: int) -> pa.Table:
    return pa.table({"n": pa.array(numbers, pa.int64()), "word": [f"word {one}" for one in numbers]})


def reopen(table: Table) -> Table:
    return Table(table.path, _SCHEMA, recent_max_bytes=0)


def numbers(table: Table) -> list[int]:
    return sorted(table.read().column("n").to_pylist())


def entry(table: Table, version: int) -> Path:
    return table.path / "_delta_log" / f"{version:020d}.json"


def flip(path: Path, offset: int, bit: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1 << bit
    path.write_bytes(content)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    """Three synced commits: versions 1 to 3 of the Delta table."""
    made = Table(tmp_path / "t", _SCHEMA, recent_max_bytes=0)
    for number in (1, 2, 3):
        made.append(rows(number), {"landing": number * 100})
        made.sync()
    return made


def _torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _zeroed(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


_LOSSES = pytest.mark.parametrize("lose", [_torn, _zeroed, Path.unlink], ids=["torn", "zeroed", "missing"])


@_LOSSES
@pytest.mark.parametrize("what", ["entry", "data"])
def test_what_was_not_synced_is_dropped(table: Table, lose: object, what: str) -> None:
    """Whatever a power cut makes of commits that no sync covers, the table is as it was at the last sync, and its
    application transactions tell from where it has to be filled again."""
    table.append(rows(4), {"landing": 400})
    last = entry(table, 4) if what == "entry" else Path(table.files(3)[0])
    lose(last)  # type: ignore[operator]
    again = reopen(table)
    assert (again.sequence, again.transaction("landing"), numbers(again)) == (3, 300, [1, 2, 3])
    assert again.append(rows(40), {"landing": 400}) == 4
    again.sync()
    assert numbers(reopen(table)) == [1, 2, 3, 40]


def test_the_tail_is_dropped_even_if_it_is_whole(table: Table) -> None:
    """Of several tables none may be ahead of what the others remember, so all go back to what was synced."""
    table.append(rows(4), {"landing": 400})
    assert reopen(table).sequence == 3


@_LOSSES
@pytest.mark.parametrize("version", [0, 2, 3])
def test_a_damaged_log_entry_is_written_again(table: Table, lose: object, version: int) -> None:
    """Entries are in the sync log: one that was torn, zeroed or lost costs nothing."""
    lose(entry(table, version))  # type: ignore[operator]
    again = reopen(table)
    assert (again.sequence, numbers(again)) == (3, [1, 2, 3])


def test_a_flipped_bit_in_a_log_entry_is_repaired(table: Table) -> None:
    """A number that still is a number, but another one, is noticed too; the damaged file is kept for whoever asks."""
    path = entry(table, 3)
    flip(path, path.read_bytes().index(b'"landing","version":300') + len('"landing","version":'), 1)
    assert DeltaTable(str(table.path)).transaction_version("landing") == 100
    assert reopen(table).transaction("landing") == 300
    assert (table.path / DAMAGED / path.name).exists()


@_LOSSES
def test_a_lost_data_file_is_an_error_at_the_start(table: Table, lose: object) -> None:
    """The error names the file and says what to do; nothing is served in its place."""
    path = Path(table.files(2)[0])
    lose(path)  # type: ignore[operator]
    with pytest.raises(ClusterFailure, match=f"{path.name} is damaged.*restore it from a backup"):
        reopen(table).read()


def test_every_flipped_bit_in_a_data_file_is_noticed(table: Table) -> None:
    """Pages, their headers, the footer, statistics: no flip gives another answer, and none gives the same."""
    path = Path(table.files(2)[0])
    content = path.read_bytes()
    chance = random.Random(1)
    for _ in range(60):
        path.write_bytes(content)
        flip(path, chance.randrange(len(content)), chance.randrange(8))
        with pytest.raises(ClusterFailure, match=path.name):
            reopen(table).read()
    path.write_bytes(content)
    assert numbers(reopen(table)) == [1, 2, 3]


def test_a_page_that_changes_under_a_running_process_is_noticed(table: Table) -> None:
    """A file is checked as a whole once; the checksums of its pages are verified at every read."""
    path = Path(table.files(2)[0])
    assert numbers(table) == [1, 2, 3]
    content = path.read_bytes()
    flip(path, content.index(b"word 3") + 5)
    with pytest.raises(ClusterFailure, match="CRC"):
        table.read()


def test_a_damaged_checkpoint_is_made_again(tmp_path: Path) -> None:
    """The entries since the checkpoint before are kept, so the newest one may be lost."""
    table = Table(tmp_path / "t", _SCHEMA, recent_max_bytes=0)
    for number in range(70):
        table.append(rows(number), {"landing": number})
    table.sync()
    newest = max((table.path / "_delta_log").glob("*.checkpoint.parquet"))
    content = newest.read_bytes()
    chance = random.Random(2)
    for _ in range(10):
        newest.write_bytes(content)
        flip(newest, chance.randrange(len(content)), chance.randrange(8))
        again = reopen(table)
        assert (again.sequence, again.transaction("landing"), numbers(again)) == (70, 69, list(range(70)))


def test_every_flipped_bit_in_the_sync_log_is_noticed_or_harmless(table: Table) -> None:
    """Of the log itself the header may be lost; a flip anywhere else is an error that names the log."""
    path = table.path / SYNC_LOG
    content = path.read_bytes()
    chance = random.Random(3)
    refused = 0
    for offset in [*range(20), *(chance.randrange(512, len(content)) for _ in range(60)), len(content) - 1]:
        path.write_bytes(content)
        flip(path, offset, chance.randrange(8))
        try:
            again = reopen(table)
        except ClusterFailure as exc:
            assert SYNC_LOG in str(exc)  # noqa: PT017 - either is fine
            refused += 1
        else:
            assert (again.sequence, numbers(again)) == (3, [1, 2, 3])
    assert refused >= 60
    for length in (0, 100, 512, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ClusterFailure, match=SYNC_LOG):
            reopen(table)


def test_a_torn_line_of_the_sync_log_is_an_unfinished_sync(table: Table, tmp_path: Path) -> None:
    """The header is a lower bound that an unfinished sync has not moved yet."""
    before = (table.path / SYNC_LOG).read_bytes()
    table.append(rows(4))
    table.sync()
    after = (table.path / SYNC_LOG).read_bytes()
    for length in range(len(before) + 1, len(after), 97):
        copy = tmp_path / "copy"
        shutil.copytree(table.path, copy)
        (copy / SYNC_LOG).write_bytes(before[:512] + after[512:length])
        again = Table(copy, _SCHEMA, recent_max_bytes=0)
        assert (again.sequence, numbers(again)) == (3, [1, 2, 3])
        shutil.rmtree(copy)


def test_tables_without_a_sync_log_are_taken_as_they_are(table: Table) -> None:
    """From before there was one, or because somebody has decided to go on without."""
    for number in range(40):
        table.append(rows(number + 10))
    (table.path / SYNC_LOG).unlink()
    again = reopen(table)
    assert (again.sequence, len(numbers(again))) == (43, 43)
    path = Path(again.files(40)[0])
    flip(path, path.stat().st_size // 2)
    with pytest.raises(ClusterFailure, match=path.name):
        reopen(table).read()


def test_a_table_whose_making_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    """Nobody was told of it, and nothing of it is in the way."""
    table = Table(tmp_path / "t", _SCHEMA)
    log = (table.path / SYNC_LOG).read_bytes()
    (table.path / SYNC_LOG).write_bytes(log[:512])
    _zero_header(table.path / SYNC_LOG)
    _torn(entry(table, 0))
    again = reopen(table)
    assert again.append(rows(1)) == 1


def _zero_header(path: Path) -> None:
    path.write_bytes(bytes(512) + path.read_bytes()[512:])


def test_a_full_disk_is_over_when_there_is_room(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that could not be written is taken back, and the next sync covers what it was about."""
    table.append(rows(4), {"landing": 400})
    pwrite = os.pwrite

    def full(descriptor: int, data: bytes, offset: int) -> int:
        pwrite(descriptor, data[:10], offset)
        raise OSError(errno.ENOSPC, "no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", full)
        with pytest.raises(ClusterFailure, match="no space left"):
            table.sync()
    table.append(rows(5))
    table.sync()
    assert numbers(reopen(table)) == [1, 2, 3, 4, 5]


def test_after_a_sync_that_failed_only_a_start_helps(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system may have dropped what it could not write, and would say yes the next time."""
    table.append(rows(4))

    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(ClusterFailure, match="input/output error"):
            table.sync()
    assert "input/output error" in table.failure
    with pytest.raises(ClusterFailure, match="input/output error"):
        table.sync()
    assert reopen(table).sequence == 3


def test_upkeep_keeps_what_a_restart_needs(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merging, removing and a sync log that is written anew change nothing that is read."""
    monkeypatch.setattr("tocsin.cluster.datasets.table_files._REWRITE_AFTER_BYTES", 0)
    monkeypatch.setattr("tocsin.cluster.datasets.table_files._ENTRIES_KEPT_S", -60)
    for number in range(4, 101):
        table.append(rows(number), {"landing": number * 100})
    table.compact()
    table.delete_through(50)
    table.tidy()
    kept = {path.name for path in (table.path / "_delta_log").glob("*.json")}
    assert len(kept) < 70
    again = reopen(table)
    assert (again.sequence, again.transaction("landing"), numbers(again)) == (100, 10_000, list(range(51, 101)))
    max((table.path / "_delta_log").glob("*.checkpoint.parquet")).write_bytes(b"")
    assert numbers(reopen(table)) == list(range(51, 101))


def test_a_rewrite_that_was_not_synced_never_happened(table: Table) -> None:
    """The files that merging replaced are still those of the table, and still checked."""
    table.compact()
    assert numbers(reopen(table)) == [1, 2, 3]


@pytest.mark.parametrize(
    "upkeep", [Table.compact, lambda table: table.delete("n = 1"), lambda table: table.delete_through(4)]
)
@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_upkeep_makes_no_good_files_of_damaged_ones(table: Table, upkeep: Callable[[Table], None], when: str) -> None:
    """Who rewrites a file reads it first; what came of damage would have a right checksum ever after."""
    table.append(rows(4, 5, 1), rows_per_number=1)
    table.sync()
    path = Path(table.files(3)[0])
    content = path.read_bytes()
    if when == "while it runs":
        assert numbers(table) == [1, 1, 2, 3, 4, 5]
    flip(path, content.index(b"word 5") + 5)
    again = table if when == "while it runs" else reopen(table)
    with pytest.raises(ClusterFailure, match=f"{path.name} is damaged"):
        upkeep(again)
    path.write_bytes(content)
    assert numbers(again) == [1, 1, 2, 3, 4, 5]


def test_a_log_that_could_not_be_made_anew_goes_on(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step of writing it anew fails: what is synced later is there after a start, or was refused."""
    monkeypatch.setattr("tocsin.cluster.datasets.table_files._REWRITE_AFTER_BYTES", 0)
    for number in range(4, 101):
        table.append(rows(number))
        table.sync()
    with monkeypatch.context() as patch:
        patch.setattr("tocsin.cluster.datasets.table_files.sync_folder", _no_more_files)
        with pytest.raises(OSError, match="too many open files"):
            table._files.tidy()
    table.append(rows(101))
    try:
        table.sync()
    except ClusterFailure:
        assert numbers(reopen(table)) == list(range(1, 101))
    else:
        assert numbers(reopen(table)) == list(range(1, 102))


def _no_more_files(path: Path) -> None:
    raise OSError(errno.EMFILE, "too many open files")


def test_a_dropped_table_leaves_its_successor_alone(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Upkeep may come to a table just when another one was made in its place."""
    monkeypatch.setattr("tocsin.cluster.datasets.table_files._REWRITE_AFTER_BYTES", 0)
    for number in range(4, 101):
        table.append(rows(number))
    table.sync()
    table.append(rows(101))
    table.drop()
    shutil.rmtree(table.path)
    successor = reopen(table)
    successor.append(rows(1))
    successor.append(rows(2))
    successor.sync()
    table.sync()
    table.compact()
    table.tidy()
    for change in (lambda: table.delete_through(1), lambda: table.append(rows(102))):
        with pytest.raises(ClusterFailure, match="was dropped"):
            change()
    successor.append(rows(3))
    successor.sync()
    assert numbers(reopen(successor)) == [1, 2, 3]
    assert not any(table.path.glob("part-*-c000.snappy.parquet"))
