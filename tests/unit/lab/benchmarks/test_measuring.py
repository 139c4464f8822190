"""How benchmarks keep time."""

from __future__ import annotations

import time

from tocsin.lab.benchmarks.measuring import at_pace


def test_the_pace_is_kept() -> None:
    """What comes late does not delay what follows."""
    begin = time.perf_counter()
    due = []
    for number in at_pace(100, 6):
        if number == 1:
            time.sleep(0.02)
        due.append(time.perf_counter() - begin)
    assert all(at >= number / 100 for number, at in enumerate(due))
    assert due[-1] < 0.2
