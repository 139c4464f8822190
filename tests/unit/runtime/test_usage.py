"""Memory and CPU time of a process and of those it started."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from tocsin.runtime.usage import usage

_COMMAND = [sys.executable, "-c", "print(sum(range(1_000_000)), flush=True); input()"]


def test_a_process_that_works_is_seen_alone_and_among_the_children_of_its_parent() -> None:
    before = usage()
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        alone, ours = usage(child.pid), usage()
        child.communicate(b"\n")
    assert alone.own_bytes > 1 << 20
    assert alone.children_bytes == 0
    assert 0 < alone.cpu_s < 10
    assert ours.children_bytes >= before.children_bytes + alone.own_bytes // 2
    assert ours.cpu_s >= before.cpu_s + alone.cpu_s


def test_a_child_that_ended_since_it_was_listed_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        listed = psutil.Process(child.pid)
        child.communicate(b"\n")
    monkeypatch.setattr(psutil.Process, "children", lambda _self, **_options: [listed])
    assert usage().children_bytes == 0
