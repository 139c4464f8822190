"""What the benchmarks share: a cluster of their own, times, memory, and the one JSON object at the end."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from tocsin.runtime.usage import usage

if TYPE_CHECKING:
    from tocsin.client import ClusterClient

_BULK = 10_000

progress = Console(stderr=True, highlight=False)


@contextmanager
def bench_folder() -> Iterator[Path]:
    """A folder that is gone after the benchmark."""
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        yield Path(folder)


def subscribe_to_all(client: ClusterClient, broker: str, channel: str, count: int, types: int) -> None:
    """Subscriptions to the first `count` pairs of one of the types and a zone, in calls of ten thousand."""
    for first in range(0, count, _BULK):
        pairs = [{"etype": at % types, "zone": at // types} for at in range(first, first + _BULK)]
        client.subscribe(broker, [{"channel": channel, "parameters": pair} for pair in pairs])


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def at_pace(rate_per_s: float, count: int) -> Iterator[int]:
    """0, 1, 2 … each when it is due. One that comes late does not delay those after it."""
    begin = time.perf_counter()
    for number in range(count):
        if (wait := begin + number / rate_per_s - time.perf_counter()) > 0:
            time.sleep(wait)
        yield number


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def memory_mb() -> dict[str, int]:
    """Resident memory of this process and of those it started."""
    used = usage()
    return {"driver_mb": used.own_bytes >> 20, "children_mb": used.children_bytes >> 20}


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "python": platform.python_version(), "load_before": os.getloadavg()[0]}
