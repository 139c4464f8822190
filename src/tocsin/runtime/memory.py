"""How much memory this process has taken."""

from __future__ import annotations

import sys

import psutil


def peak_rss_mb() -> float:
    """The most that it has had at once."""
    if sys.platform == "win32":
        return round(psutil.Process().memory_info().peak_wset / (1 << 20), 1)
    import resource

    unit_bytes = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit_bytes / (1 << 20), 1)
