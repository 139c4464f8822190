"""Children are kept running, whatever happens around them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tocsin.runtime import children
from tocsin.runtime.children import Child

pytestmark = pytest.mark.shell


class Watcher:
    """Notes what it learns, and wants the child to be started so many times."""

    def __init__(self, starts: int) -> None:
        self._starts = starts
        self.codes: list[int] = []
        self.reasons: list[str] = []
        self.started_pids: list[int] = []

    def started(self, child: Child) -> None:
        assert child.process is not None
        self.started_pids.append(child.process.pid)

    def ended(self, child: Child, code: int) -> bool:
        self.codes.append(code)
        self.reasons.append(child.last_words())
        return len(self.codes) < self._starts


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A child is a shell that runs its third argument, and is looked at and started again at once."""
    shell = tmp_path / "shell"
    shell.write_text('#!/bin/sh\neval "$3"\n')
    shell.chmod(0o700)
    monkeypatch.setattr(children.sys, "executable", str(shell))
    monkeypatch.setattr(children, "_BACKOFF", children.Backoff(0.01, 0.01))
    monkeypatch.setattr(children, "_LOOK_EVERY_S", 0.01)


def _child(tmp_path: Path, command: str) -> Child:
    return Child("one", [command], tmp_path / "logs" / "one.log", {}, 5.0)


async def test_a_child_that_ends_is_started_again(tmp_path: Path) -> None:
    """Its output is in one log, and its last words are those of its last life."""
    watcher = Watcher(starts=2)
    child = _child(tmp_path, "echo tired; exit 7")
    await asyncio.wait_for(child.keep_running(watcher), 10)
    assert watcher.codes == [7, 7]
    assert child.log.read_text() == "tired\n" * 2
    assert not child.pid_file.exists()


async def test_a_child_whose_number_can_not_be_written_down_is_kept_running(tmp_path: Path) -> None:
    """A full disk takes no file; the child runs all the same, and is started again when it ends."""
    watcher = Watcher(starts=2)
    child = _child(tmp_path, "exit 7")
    child.pid_file.mkdir(parents=True)
    await asyncio.wait_for(child.keep_running(watcher), 10)
    assert (watcher.codes, len(watcher.started_pids)) == ([7, 7], 2)


async def test_a_child_that_can_not_be_started_is_tried_again(tmp_path: Path) -> None:
    """The reason is told: perhaps there is no memory, no room or no process left."""
    watcher = Watcher(starts=3)
    child = _child(tmp_path, "exit 7")
    child.log.mkdir(parents=True)
    await asyncio.wait_for(child.keep_running(watcher), 10)
    assert watcher.started_pids == []
    assert len(watcher.codes) == 3
    assert "could not be started" in watcher.reasons[-1]


async def test_the_log_of_a_child_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log that has grown large becomes the former one, and the child goes on writing at the beginning of its log."""
    monkeypatch.setattr(children, "MAX_LOG_BYTES", 1000)
    watcher = Watcher(starts=1)
    # It writes until its log is begun anew, and then its last words.
    long = "until [ -f logs/one.former.log ]; do echo a line of some length; sleep 0.002; done; sleep 0.1; echo the end"
    child = _child(tmp_path, f"cd {tmp_path}; {long}")
    await asyncio.wait_for(child.keep_running(watcher), 20)
    former = tmp_path / "logs" / "one.former.log"
    assert former.stat().st_size > 1000
    assert child.log.stat().st_size < 1000
    assert child.log.read_text().endswith("the end\n")
    assert watcher.reasons == ["the end"]
