"""Memory and CPU time that processes use."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of a process, and of its children."""

    own_bytes: int
    children_bytes: int
    cpu_s: float


def usage(pid: int | None = None) -> Usage:
    """Of this process or the given one. A child that ends during the call counts for nothing."""
    process = psutil.Process(pid)
    children = [_of(child) for child in process.children(recursive=True)]
    own_bytes, own_s = _of(process)
    return Usage(own_bytes, sum(size for size, _ in children), own_s + sum(used_s for _, used_s in children))


def _of(process: psutil.Process) -> tuple[int, float]:
    """Resident bytes and CPU seconds."""
    try:
        with process.oneshot():
            times = process.cpu_times()
            return int(process.memory_info().rss), float(times.user + times.system)
    except psutil.NoSuchProcess:
        return 0, 0.0


def peak_rss_mb() -> float:
    """The most memory that this process has used at once."""
    if sys.platform == "win32":
        return round(psutil.Process().memory_info().peak_wset / (1 << 20), 1)
    import resource

    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / (1 << 20), 1)
