"""The demonstration takes down what it has started, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytestmark = pytest.mark.shell

_STARTING_TIMEOUT_S = 60.0
_STOPPING_TIMEOUT_S = 60.0


def test_told_to_stop_it_leaves_nothing_behind(tmp_path: Path) -> None:
    """No process and no file, even while brokers are still starting."""
    demo = psutil.Popen(
        [sys.executable, "-m", "tocsin", "demo", "--ci", "--people", "10"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    started: set[psutil.Process] = set()
    try:
        # A cluster, a coordinator and the first brokers.
        deadline_s = time.monotonic() + _STARTING_TIMEOUT_S
        while len(started) < 4 and time.monotonic() < deadline_s:
            started |= set(demo.children(recursive=True))
            time.sleep(0.05)
        assert len(started) >= 4
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(_STOPPING_TIMEOUT_S) == 128 + signal.SIGTERM
        _, left = psutil.wait_procs(started, timeout=5)
        assert left == []
        assert list(tmp_path.glob("tocsin-*")) == []
    finally:
        for process in (demo, *started):
            if process.is_running():
                process.kill()
