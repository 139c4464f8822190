"""Rows 4 and 5: what `make disk` does, counted."""

from __future__ import annotations

from disk.planted import CUT_BUGS, FLIP_BUGS
from scorecard.commands import run_json
from scorecard.row import Effort, Outcome, Row

_LIMITS = ("what a disk's own cache does after it has said that something is written",)


def _cuts(effort: Effort) -> Outcome:
    """Stores of cluster, coordinator and brokers cut at random moments; what is not synced is dropped or torn."""
    options = ["--cuts", str(effort["cuts"]), "--whole", str(effort["whole"]), "--flips", "0"]
    report = run_json("disk", *options, "--bugs", ",".join(CUT_BUGS), "--seed", effort.seed, "--json")[0]
    cuts, whole = report["cuts"], report["whole"]
    bad = [*cuts["violations_listed"], *whole["violations_listed"], *_missed(report["planted"])]
    figures = {"heard": cuts["heard"], "planted bugs found": sum(report["planted"].values())}
    return Outcome({"cuts": cuts["cuts"], "whole": whole["cuts"]}, tuple(bad), figures, _LIMITS)


def _flips(effort: Effort) -> Outcome:
    """Bits flipped and files cut short in tables, landing log and databases; each start must notice or repair."""
    options = ["--cuts", "0", "--whole", "0", "--flips", str(effort["flips"])]
    report = run_json("disk", *options, "--bugs", ",".join(FLIP_BUGS), "--seed", effort.seed, "--json")[0]
    flips = report["flips"]
    bad = [*flips["violations_listed"], *_missed(report["planted"])]
    return Outcome({"flips": flips["flips"]}, tuple(bad), {"outcomes": flips["outcomes"]})


def _missed(planted: dict[str, bool]) -> list[str]:
    return [f"the planted bug {name} was not found" for name, found in planted.items() if not found]


CUTS = Row(
    4,
    "The power is cut at random moments",
    "0 acknowledged lost, 0 numbers used again",
    full={"cuts": 200, "whole": 5},
    brief={"cuts": 10, "whole": 1},
    run=_cuts,
)
FLIPS = Row(
    5,
    "Flipped bits and files cut short",
    "each detected or repaired, none served",
    full={"flips": 500},
    brief={"flips": 20},
    run=_flips,
)
