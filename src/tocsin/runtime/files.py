"""How many files this process may have open, and who may look into its folders."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path


def raise_open_files() -> int:
    """Allow as many open files as the system lets this process and its children have; returns how many. The usual 1,024
    is for programs without connections."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return hard
    return sys.maxsize


def make_private(folder: Path) -> None:
    """Make a folder that holds people's data or keys, for this user alone. An existing folder loses its permissions for
    everybody; its group, which somebody has chosen, keeps them."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    mode = folder.stat().st_mode & 0o777
    if mode & 0o007:
        with contextlib.suppress(PermissionError):  # Another user's, who has let this process in.
            folder.chmod(mode & ~0o007)
