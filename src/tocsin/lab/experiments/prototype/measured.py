"""What brokers fetched and sent in fact, counted in bytes, beside what the model of loads says."""

from __future__ import annotations

from tocsin.simulator.figures import later_half
from tocsin.simulator.pictures import Line, byte_unit, lines_picture
from tocsin.simulator.timeline import Run

#: Bytes come in bursts, one for each run of a channel: they are drawn as means over this long, by the city's clock.
_DRAWN_S = 60.0


def measured_loads(run: Run) -> list[float]:
    """Of each broker in the second half of a run, in bytes per second of its clock."""
    some = later_half(run)
    passed_s = some[-1].time_s - some[0].time_s
    # The first sample's bytes came before its time.
    sums = [sum(one.in_bytes[number] + one.out_bytes[number] for one in some[1:]) for number in range(len(run.brokers))]
    return [one / passed_s if passed_s > 0 else 0.0 for one in sums]


def measured_beside_model(run: Run) -> list[tuple[float, float]]:
    """Of each broker that has a load."""
    some = later_half(run)
    models = [sum(one.loads_bytes_per_s[number] for one in some) / len(some) for number in range(len(run.brokers))]
    return [(measured, model) for measured, model in zip(measured_loads(run), models, strict=True) if model > 0]


def measured_picture(title: str, run: Run) -> str:
    """Each broker's bytes over time, minute by minute."""
    times: list[float] = []
    rows: list[list[float]] = []
    begun_s, sums = 0.0, [0.0] * len(run.brokers)
    for sample in run.samples:
        for number in range(len(run.brokers)):
            sums[number] += sample.in_bytes[number] + sample.out_bytes[number]
        if sample.time_s - begun_s >= _DRAWN_S:
            times.append(sample.time_s / 60)
            rows.append([one / (sample.time_s - begun_s) for one in sums])
            begun_s, sums = sample.time_s, [0.0] * len(run.brokers)
    factor, unit = byte_unit(max((max(row) for row in rows), default=0.0))
    lines = [Line(broker, times, [row[number] / factor for row in rows]) for number, broker in enumerate(run.brokers)]
    return lines_picture(
        title, lines, "minutes", f"fetched and sent, {unit}/s", marks=[one.time_s / 60 for one in run.plans]
    )
