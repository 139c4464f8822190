"""`tocsin` with a wall clock that can be put forward and back: `python -m chaos.shifted FILE cluster …`.

FILE holds by how many seconds the clock is off; it is looked at ten times a second at most. Only the wall clock is
shifted, as when somebody sets it: seconds that only grow go on as they were.
"""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path

from chaos.substitution import substitute
from tocsin.runtime.clock import SystemClock

_LOOK_EVERY_S = 0.1


def shift(file: Path) -> None:
    looked_at_s, offset_us = -1.0, 0

    def now_us(_self: SystemClock) -> int:
        nonlocal looked_at_s, offset_us
        now_s = time.monotonic()
        if now_s - looked_at_s > _LOOK_EVERY_S:
            looked_at_s = now_s
            with contextlib.suppress(OSError, ValueError):  # It is being written.
                offset_us = int(float(file.read_text()) * 1e6)
        return time.time_ns() // 1000 + offset_us

    substitute(SystemClock, "now_us", now_us)


def main() -> None:
    shift(Path(sys.argv.pop(1)))
    from tocsin.cli.main import app

    app()


if __name__ == "__main__":
    main()
