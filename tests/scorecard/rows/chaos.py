"""Rows 2, 3 and 9: what `make chaos` does, counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

from chaos.network.planted import BUGS as NETWORK_BUGS
from chaos.planted import BUGS as CLUSTER_BUGS
from scorecard.commands import run_json
from scorecard.row import Effort, Outcome, Row

#: Kills in one run of a part: a run that is too long is worth less, for its load is the same all the time.
_KILLS_PER_RUN = 24


def _planted(effort: Effort) -> Outcome:
    """The real code with one fault put in, run until the history checkers find it."""
    names = [*NETWORK_BUGS, *CLUSTER_BUGS]
    if effort["bugs"] < len(names):
        # Of the network's, which share a cluster; those that are found in a short run.
        names = list(NETWORK_BUGS)[: effort["bugs"]]
    nothing_else = ["--kills", "0", "--pauses", "0", "--partitions", "0", "--clocks", "0"]
    reports = run_json("chaos", *nothing_else, "--bugs", ",".join(names), "--seed", effort.seed, "--json")
    found = {name: one["found"] for report in reports for name, one in report["planted"].items()}
    bad = [f"the planted bug {name} was not found" for name in names if not found.get(name)]
    return Outcome({"bugs": sum(map(bool, found.values()))}, tuple(bad), {"planted": len(names)})


def _kills(effort: Effort) -> Outcome:
    """Brokers, coordinator and cluster killed at random moments under load, every notification accounted for."""
    kills: Counter[str] = Counter()
    notifications, bad, runs = 0, [], 0
    # A run that finds something can't be replayed: its timing is not in the seed. So its data are kept.
    options = ("--part", "network", "--bugs", "none", "--keep", "--json")
    while kills.total() < effort["kills"] or notifications < effort["notifications"]:
        left = max(1, effort["kills"] - kills.total())
        seed = f"{effort.seed}-{runs}"
        count = min(_KILLS_PER_RUN, left) if kills.total() < effort["kills"] else _KILLS_PER_RUN
        real = _real(run_json("chaos", *options, "--kills", str(count), "--seed", seed))
        runs += 1
        kills.update(real["kills_by_target"])
        notifications += real["notifications"]
        bad += [f"seed {seed}: {one}" for one in real["violations_listed"]]
        effort.say(f"{kills.total()} kills, {notifications:,} notifications, {len(bad)} bad")
        if bad:
            break
    return Outcome(
        {"kills": kills.total(), "notifications": notifications}, tuple(bad), {"runs": runs, "kills of": dict(kills)}
    )


def _moves(effort: Effort) -> Outcome:
    """Everybody is moved about all the time while those who take part in it are killed."""
    options = ["--part", "migration", "--bugs", "none", "--seed", effort.seed, "--json"]
    real = _real(run_json("chaos", *options, "--kills", str(effort["kills"])))
    moves = real["moves"]["done"]
    figures = {"notifications": real["notifications"], "moves": real["moves"], "kills": real["kills_by_target"]}
    return Outcome({"moves": moves, "kills": real["kills"]}, tuple(real["violations_listed"]), figures)


def _real(reports: list[dict[str, Any]]) -> dict[str, Any]:
    real: dict[str, Any] = reports[0]["real"]
    return real


PLANTED = Row(
    2,
    "Planted bugs are found",
    "every one",
    full={"bugs": len(NETWORK_BUGS) + len(CLUSTER_BUGS)},
    brief={"bugs": 2},
    run=_planted,
)
KILLS = Row(
    3,
    "kill -9 of every process at random moments",
    "0 bad",
    full={"kills": 200, "notifications": 1_000_000},
    brief={"kills": 5, "notifications": 1_000},
    run=_kills,
)
MOVES = Row(
    9,
    "Moves and drains under load, with kills",
    "0 bad",
    full={"moves": 1_000, "kills": 52},
    brief={"moves": 20, "kills": 4},
    run=_moves,
)
