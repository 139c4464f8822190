"""How many files, and so connections, this process may have open."""

from __future__ import annotations

import contextlib


def raise_open_files() -> None:
    """As many as the system allows: the usual 1,024 is for programs without connections."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
