"""Claims of our own: what group migration and the sharing-aware shuffle add, on the same workloads."""

from __future__ import annotations

from tocsin.lab.experiments.claim import OURS, Check, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov, later_max, later_total_bytes_per_s, shuffles

#: The end of the names of each preset's variants.
_PRESETS = {"paper": "/a tenth", "prototype": "", "communities": "/a tenth"}
#: Rates change by more than this between looks.
_SAME_LOAD = 1.02


def _name(preset: str, policy: str) -> str:
    return f"{preset}/nearest/{policy}{_PRESETS[preset]}"


@claim(
    "group-migration-carries-less",
    "Group migration is as even as load-based migration, and where interests are shared the brokers have less to carry"
    " in all.",
    OURS,
    *(_name(preset, policy) for preset in _PRESETS for policy in ("ldm", "group")),
    kind="ours",
)
def group_carries_less(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for preset in _PRESETS:
        ldm, group = runs[_name(preset, "ldm")], runs[_name(preset, "group")]
        numbers |= {
            f"{preset}: total load over ldm's": later_total_bytes_per_s(group) / max(1.0, later_total_bytes_per_s(ldm)),
            f"{preset}: maximal load over ldm's": later_max(group) / max(1.0, later_max(ldm)),
            f"{preset}: migrations": group.totals.migrations,
            f"{preset}: migrations by ldm": ldm.totals.migrations,
        }
        # Both aim at alpha, and stop there: a hair apart is the same.
        checks.append(Check(f"cov at most 0.02 above ldm's ({preset})", later_cov(group) <= later_cov(ldm) + 0.02))
    checks.append(Check("a smaller total load (communities)", numbers["communities: total load over ldm's"] < 1))
    return Judgement(numbers, tuple(checks))


@claim(
    "sharing-shuffle-carries-less",
    "The sharing-aware shuffle is about as even as the greedy one, and where brokers do not hold everything anyway they"
    " have less to carry.",
    OURS,
    *(_name(preset, policy) for preset in _PRESETS for policy in ("gsh", "sharing")),
    kind="ours",
)
def sharing_carries_less(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for preset in _PRESETS:
        gsh, sharing = runs[_name(preset, "gsh")], runs[_name(preset, "sharing")]
        total = later_total_bytes_per_s(sharing) / max(1.0, later_total_bytes_per_s(gsh))
        most = later_max(sharing) / max(1.0, later_max(gsh))
        moves = [sum(plan.moves for plan in shuffles(run)) for run in (sharing, gsh)]
        numbers |= {
            f"{preset}: total load over gsh's": total,
            f"{preset}: maximal load over gsh's": most,
            f"{preset}: moves": moves[0],
            f"{preset}: moves of gsh": moves[1],
        }
        checks.append(Check(f"a shuffle by each ({preset})", all(moves)))
        checks.append(Check(f"a maximal load at most a fiftieth above gsh's ({preset})", most <= _SAME_LOAD))
        if preset != "paper":
            checks.append(Check(f"a smaller total load ({preset})", total < 1))
    return Judgement(numbers, tuple(checks))


@claim(
    "our-stages-cost-less",
    "Group migration with the sharing-aware shuffle is no worse than load-based migration with the greedy one, and"
    " moves fewer subscribers.",
    OURS,
    *(_name(preset, policy) for preset in ("paper", "prototype") for policy in ("ldm+gsh", "group+sharing")),
    kind="ours",
)
def our_stages(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    for preset in ("paper", "prototype"):
        theirs, ours = runs[_name(preset, "ldm+gsh")], runs[_name(preset, "group+sharing")]
        most = later_max(ours) / max(1.0, later_max(theirs))
        numbers |= {
            f"{preset}: maximal load over theirs": most,
            f"{preset}: our migrations": ours.totals.migrations,
            f"{preset}: their migrations": theirs.totals.migrations,
        }
        checks.append(Check(f"a maximal load at most a fiftieth above theirs ({preset})", most <= _SAME_LOAD))
        checks.append(Check(f"fewer migrations ({preset})", ours.totals.migrations < theirs.totals.migrations))
    return Judgement(numbers, tuple(checks))
