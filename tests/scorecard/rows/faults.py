"""Row 6: processes that stop for a while, connections that break, clocks that are wrong."""

from __future__ import annotations

from scorecard.commands import run_json
from scorecard.row import Effort, Outcome, Row

#: As many in one run as keep it below half an hour.
_PER_RUN = 12


def _faults(effort: Effort) -> Outcome:
    names = ("pauses", "partitions", "clocks")
    done = dict.fromkeys(names, 0)
    bad: list[str] = []
    notifications = runs = 0
    while not bad and any(done[name] < effort[name] for name in names):
        now = {name: min(_PER_RUN, effort[name] - done[name]) for name in names}
        options = [word for name in names for word in (f"--{name}", str(now[name]))]
        options += ["--longest-pause", str(effort["longest pause s"])]
        seed = f"{effort.seed}-{runs}"
        real = run_json("chaos", "--part", "faults", "--seed", seed, "--json", *options)[0]["real"]
        runs += 1
        done = {name: done[name] + now[name] for name in names}
        notifications += real["notifications"]
        bad += [f"seed {seed}: {one}" for one in real["violations_listed"]]
        effort.say(f"{done}, {notifications:,} notifications, {len(bad)} bad")
    counts = {**done, "longest pause s": effort["longest pause s"]}
    return Outcome(counts, tuple(bad), {"notifications": notifications, "runs": runs})


FAULTS = Row(
    6,
    "Processes paused, connections frozen or cut, clocks wrong by up to an hour",
    "0 with two owners, 0 bad",
    full={"pauses": 100, "partitions": 100, "clocks": 100, "longest pause s": 60},
    brief={"pauses": 2, "partitions": 2, "clocks": 2, "longest pause s": 6},
    run=_faults,
)
