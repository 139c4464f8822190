"""Pictures of runs: each broker's load over time, and runs beside each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tocsin.simulator.pictures import Line, byte_unit, lines_picture
from tocsin.simulator.timeline import Run, Sample


def loads_picture(title: str, run: Run) -> str:
    """Each broker's load over time; dotted lines where a plan was begun."""
    factor, unit = byte_unit(max((max(one.loads_bytes_per_s, default=0.0) for one in run.samples), default=0.0))
    return _by_broker(title, run, f"load, {unit}/s", lambda one, number: one.loads_bytes_per_s[number] / factor)


def subscribers_picture(title: str, run: Run) -> str:
    return _by_broker(title, run, "subscribers connected", lambda one, number: one.subscribers[number])


def cov_picture(title: str, runs: Mapping[str, Run]) -> str:
    return _beside(title, runs, "cov of loads", lambda one: one.cov)


def max_picture(title: str, runs: Mapping[str, Run]) -> str:
    """The score of the most loaded broker: its load divided by its capacity."""
    factor, unit = byte_unit(max((one.max for run in runs.values() for one in run.samples), default=0.0))
    return _beside(title, runs, f"maximal load, {unit}/s", lambda one: one.max / factor)


def migrations_picture(title: str, runs: Mapping[str, Run]) -> str:
    return _beside(title, runs, "subscribers moved so far", lambda one: one.migrations)


def _by_broker(title: str, run: Run, y_label: str, value: Callable[[Sample, int], float]) -> str:
    factor, unit = _time_unit(run.duration_s)
    times = [sample.time_s / factor for sample in run.samples]
    lines = [
        Line(broker, times, [value(sample, number) for sample in run.samples])
        for number, broker in enumerate(run.brokers)
    ]
    return lines_picture(title, lines, unit, y_label, marks=[plan.time_s / factor for plan in run.plans])


def _beside(title: str, runs: Mapping[str, Run], y_label: str, value: Callable[[Sample], float]) -> str:
    factor, unit = _time_unit(max((run.duration_s for run in runs.values()), default=0.0))
    lines = [
        Line(name, [one.time_s / factor for one in run.samples], [value(one) for one in run.samples])
        for name, run in runs.items()
    ]
    return lines_picture(title, lines, unit, y_label)


def _time_unit(duration_s: float) -> tuple[float, str]:
    return (60.0, "minutes") if duration_s > 180 else (1.0, "seconds")
