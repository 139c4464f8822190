"""The log that says which part of a table is certainly on disk."""

from __future__ import annotations

import json

import pytest

from tocsin.cluster.datasets.core.sync_log import (
    FileCheck,
    SyncedState,
    SyncLine,
    differences,
    encode_header,
    encode_line,
    live_files,
    read_log,
    whole_log,
)
from tocsin.errors import ClusterFailure


def entry(*added: str, removed: tuple[str, ...] = ()) -> str:
    actions = [{"add": {"path": one}} for one in added] + [{"remove": {"path": one}} for one in removed]
    return "\n".join(map(json.dumps, actions))


FIRST = SyncLine({0: entry("a")}, files={"a": FileCheck(1, 11)})
SECOND = SyncLine({1: entry("b", removed=("a",))}, files={"b": FileCheck(2, 22)})
LOG = whole_log(FIRST)


def test_the_last_sound_line_defines_the_table() -> None:
    """Files that a later entry removes hold no rows any more."""
    state, end = read_log(LOG + encode_line(SECOND), "log")
    assert (state.version, state.files) == (1, {"b": FileCheck(2, 22)})
    assert end == len(LOG + encode_line(SECOND))


def test_a_line_that_was_not_finished_never_happened() -> None:
    """Whatever was cut off of it, the table is as it was before; the next line is written over it."""
    line = encode_line(SECOND)
    for kept in range(len(line)):
        state, end = read_log(LOG + line[:kept], "log")
        assert (state.version, end) == (0, len(LOG))


def test_a_damaged_line_that_had_been_synced_is_found() -> None:
    """Each flipped byte of it is told from an unfinished line: by the header, or by a sound line after it."""
    synced = encode_header(len(LOG)) + LOG[len(encode_header(0)) :]
    for content in (synced, LOG + encode_line(SECOND)):
        damaged = bytearray(content)
        damaged[len(LOG) - 5] ^= 1
        with pytest.raises(ClusterFailure, match="log is damaged at offset"):
            read_log(bytes(damaged), "log")


def test_a_log_shorter_than_its_header_is_damaged() -> None:
    """It names the file and how much is left of it."""
    with pytest.raises(ClusterFailure, match="log is damaged: it has 100 bytes"):
        read_log(LOG[:100], "log")


def test_pruning_keeps_what_a_damaged_checkpoint_is_made_of() -> None:
    """Two checkpoints are kept, and the entries since the older one: with either of them the table can be read."""
    state = SyncedState()
    for version in range(10):
        state.apply(SyncLine({version: entry(f"f{version}")}, files={f"f{version}": FileCheck(1, version)}))
    for version in (2, 5, 8):
        state.apply(SyncLine(checkpoints={version: {f"c{version}": FileCheck(1, version)}}))
    line = state.pruned()
    assert (sorted(line.checkpoints), sorted(line.entries)) == ([5, 8], [6, 7, 8, 9])
    pruned = SyncedState()
    pruned.apply(line)
    assert pruned.version == state.version == 9
    assert pruned.files == state.files
    assert [pruned.start_from(sound) for sound in ([5, 8], [5], [])] == [8, 5, None]
    assert state.start_from([]) == -1


def test_what_a_line_adds_and_removes_again_is_not_live() -> None:
    """Such a file need not be on disk, so its checksum is not asked for."""
    assert list(live_files(SyncLine({3: entry("a", "b"), 4: entry("c", removed=("a",))}))) == ["b", "c"]


def test_differences_are_named_both_ways() -> None:
    """Missing files are damage; files that nobody expects were left by an unfinished sync."""
    assert differences({"a": FileCheck(1, 1), "b": FileCheck(1, 1)}, ["c", "b"]) == (["a"], ["c"])
