"""How many files, and so connections, this process may have open."""

from __future__ import annotations

import contextlib
import sys


def raise_open_files() -> int:
    """As many as the system lets this process, and those it starts, have; returns how many. The usual 1,024 is for
    programs without connections."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return sys.maxsize
