"""Children that end with their parent, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable

#: From linux/prctl.h.
_PR_SET_PDEATHSIG = 1


def ending_with(parent_pid: int) -> Callable[[], None] | None:
    """A function that a child calls before it becomes another program, so that the system kills it when `parent_pid`
    ends.

    The parent's main thread must start the child: on Linux a child ends with the thread that started it. Other systems
    have no such function (None); there, the next start must look for processes that are left.
    """
    if sys.platform != "linux":
        return None
    # Loaded now: between fork and exec any lock may be held.
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # The parent ended before the call.
            os._exit(1)

    return end_with_parent
