"""Rows 10, 11 and 12: many subscribers at once, for long, all cut at once, and some of them slow."""

from __future__ import annotations

import time

from scorecard.crowd import Cut, Report, Seen, Stall, Wait
from scorecard.load import Loaded, loaded
from scorecard.row import Effort, Outcome, Row

_CATCH_UP_S = 30.0
#: Before anything counts: a JVM that has just started is slow.
_WARM_S = 45.0
_MAX_P99_MS = 1_000
_MAX_GROWTH = 0.15
_MAX_SLOW_BYTES = 1 << 20


def _sustained(effort: Effort) -> Outcome:
    """Everybody gets everything, in time, for long, and memory does not grow."""
    bad = []
    with loaded(effort["sockets"], effort["deliveries/s"]) as load:
        _warm(load, effort)
        before = load.memory_mb()
        begin_s = time.monotonic()
        while (left_s := begin_s + effort["seconds"] - time.monotonic()) > 0:
            time.sleep(min(60.0, left_s))
            effort.say(f"{time.monotonic() - begin_s:.0f} s, memory {load.memory_mb()} MB")
        seen = load.crowd.do(Report())
        elapsed_s = time.monotonic() - begin_s
        after = load.memory_mb()
        bad += _end(load, "at the end")
    grown = {name: after[name] - before[name] for name in after}
    for name, more in grown.items():
        # A process of 80 MB may well keep 16 MB of caches; one of 2 GB may not keep 400 more.
        if more > max(64, before[name] * _MAX_GROWTH):
            bad.append(f"{name} grew from {before[name]} to {after[name]} MB")
    if seen.p99_ms > _MAX_P99_MS:
        bad.append(f"p99 was {seen.p99_ms} ms")
    counts = {"sockets": seen.connected, "deliveries/s": round(seen.got / elapsed_s), "seconds": round(elapsed_s)}
    if counts["deliveries/s"] < 0.97 * effort["deliveries/s"]:
        bad.append(f"{counts['deliveries/s']} deliveries a second instead of {effort['deliveries/s']}")
    else:
        counts["deliveries/s"] = effort["deliveries/s"]
    figures = {"p50 ms": seen.p50_ms, "p99 ms": seen.p99_ms, "max ms": seen.max_ms, "deliveries": seen.got}
    return Outcome(counts, tuple(bad), figures | {"MB before": before, "MB after": after})


def _storm(effort: Effort) -> Outcome:
    """All connections are cut at once; everybody is back and has everything soon."""
    bad, times_s, back = [], [], 0
    with loaded(effort["sockets"], 500) as load:
        _warm(load, effort)
        for number in range(effort["storms"]):
            load.crowd.do(Report())
            begin_s = time.monotonic()
            load.crowd.do(Cut())
            deadline_s = begin_s + 3 * _CATCH_UP_S
            while True:
                seen = load.crowd.do(Wait(dict(load.publisher.last), 3 * _CATCH_UP_S))
                if (seen.connected == seen.subscribers and not seen.behind) or time.monotonic() > deadline_s:
                    break
                time.sleep(0.1)
            times_s.append(time.monotonic() - begin_s)
            back += seen.came_back
            effort.say(f"storm {number + 1}: all back after {times_s[-1]:.1f} s")
            if times_s[-1] > _CATCH_UP_S:
                bad.append(
                    f"{seen.connected} of {seen.subscribers} back, {seen.behind} behind, after {times_s[-1]:.1f} s"
                )
        bad += _end(load, "after the storms")
    return Outcome(
        {"sockets": effort["sockets"], "storms": effort["storms"]},
        tuple(bad),
        {"seconds until all had everything, at most": round(max(times_s), 1), "came back": back},
    )


def _slow(effort: Effort) -> Outcome:
    """A tenth stops reading: they cost little, the others notice nothing, and nothing is lost."""
    bad = []
    with loaded(effort["sockets"], effort["sockets"]) as load:
        _warm(load, effort)
        load.crowd.do(Report())
        time.sleep(effort["seconds"])
        usual = load.crowd.do(Report())
        before_bytes = load.broker_memory_bytes()
        load.crowd.do(Stall(10))
        time.sleep(effort["seconds"])
        meanwhile = load.crowd.do(Report())
        each_bytes = (load.broker_memory_bytes() - before_bytes) / (effort["sockets"] / 10)
        load.crowd.do(Stall(0))
        bad += _end(load, "after reading on")
    if each_bytes > _MAX_SLOW_BYTES:
        bad.append(f"each slow subscriber costs {each_bytes:,.0f} bytes")
    # Within 50 ms two runs of the same differ.
    if meanwhile.p99_ms > 1.2 * usual.p99_ms + 50:
        bad.append(f"the others' p99 went from {usual.p99_ms} to {meanwhile.p99_ms} ms")
    figures = {
        "p99 ms, all reading": usual.p99_ms,
        "p99 ms of the others": meanwhile.p99_ms,
        "bytes for each slow one": round(each_bytes),
    }
    return Outcome({"sockets": effort["sockets"], "seconds": effort["seconds"]}, tuple(bad), figures)


def _warm(load: Loaded, effort: Effort) -> None:
    effort.say(f"warming up for {_WARM_S:g} s")
    time.sleep(_WARM_S)
    load.crowd.do(Report())


def _end(load: Loaded, when: str) -> list[str]:
    """Nothing more is published; what is wrong once everybody has had time to get everything."""
    load.publisher.stop()
    seen: Seen = load.crowd.do(Wait(dict(load.publisher.last), 2 * _CATCH_UP_S))
    bad = list(seen.bad)
    if seen.behind:
        bad.append(f"{seen.behind} subscribers lack records {when}")
    if load.publisher.failure:
        bad.append(load.publisher.failure)
    return bad


SUSTAINED = Row(
    10,
    "Sustained load",
    "p99 below 1 s, memory flat, 0 bad",
    full={"sockets": 5_000, "deliveries/s": 5_000, "seconds": 3_600},
    brief={"sockets": 500, "deliveries/s": 500, "seconds": 20},
    run=_sustained,
)
STORM = Row(
    11,
    "All connections cut at once",
    "all caught up within 30 s, 0 bad",
    full={"sockets": 5_000, "storms": 5},
    brief={"sockets": 500, "storms": 1},
    run=_storm,
)
SLOW = Row(
    12,
    "A tenth stops reading",
    "at most 1 MiB each, others' p99 at most a fifth more, 0 bad",
    full={"sockets": 5_000, "seconds": 60},
    brief={"sockets": 500, "seconds": 10},
    run=_slow,
)
