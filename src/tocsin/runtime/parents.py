"""Children that end with their parent, however that ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

#: From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def ending_with(parent_pid: int) -> Callable[[], None] | None:
    """What a child has to do before it becomes another program, so that the system kills it when `parent_pid` is gone.

    It has to be started by the parent's main thread: on Linux a child ends with the thread that started it. Elsewhere
    there is no such thing (None); whoever starts next has to look for what is left.
    """
    if sys.platform != "linux":
        return None
    # Found now: between fork and exec there is no telling which locks are held.
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # It was gone before we asked.
            os._exit(1)

    return end_with_parent
