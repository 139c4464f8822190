"""Claims of our own: what group migration and the sharing-aware shuffle add, on the same runs."""

from __future__ import annotations

from tocsin.lab.experiments.claim import OURS, Check, Judgement, Runs, claim
from tocsin.simulator.figures import later_cov, later_max, later_total_bytes_per_s, shuffles

_PRESETS = ("paper", "prototype", "communities")


@claim(
    "group-migration-carries-less",
    "Group migration is as even as load-based migration, and where interests are shared the brokers have less to carry"
    " in all.",
    OURS,
    *(f"{preset}/nearest/{policy}" for preset in _PRESETS for policy in ("ldm", "group")),
)
def group_carries_less(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    sentences: list[str] = []
    for preset in _PRESETS:
        ldm, group = runs[f"{preset}/nearest/ldm"], runs[f"{preset}/nearest/group"]
        total = later_total_bytes_per_s(group) / max(1.0, later_total_bytes_per_s(ldm))
        most = later_max(group) / max(1.0, later_max(ldm))
        numbers |= {
            f"{preset} total over ldm": total,
            f"{preset} max over ldm": most,
            f"{preset} ldm cov": later_cov(ldm),
            f"{preset} group cov": later_cov(group),
        }
        sentences.append(
            f"{preset}: {total:.1%} of ldm's total load, {most:.1%} of its maximal load, cov {later_cov(group):.3f}"
            f" against {later_cov(ldm):.3f}"
        )
        # Both aim at alpha, and stop there: a hair apart is the same.
        checks.append(Check(f"cov at most 0.02 above ldm's ({preset})", later_cov(group) <= later_cov(ldm) + 0.02))
    checks.append(Check("a smaller total load (communities)", numbers["communities total over ldm"] < 1))
    return Judgement("; ".join(sentences), numbers, tuple(checks))


@claim(
    "sharing-shuffle-carries-less",
    "The sharing-aware shuffle is about as even as the greedy one, and where brokers do not hold everything anyway they"
    " have less to carry.",
    OURS,
    *(f"{preset}/nearest/{policy}" for preset in _PRESETS for policy in ("gsh", "sharing")),
)
def sharing_carries_less(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    sentences: list[str] = []
    for preset in _PRESETS:
        gsh, sharing = runs[f"{preset}/nearest/gsh"], runs[f"{preset}/nearest/sharing"]
        total = later_total_bytes_per_s(sharing) / max(1.0, later_total_bytes_per_s(gsh))
        most = later_max(sharing) / max(1.0, later_max(gsh))
        moves = [sum(plan.moves for plan in shuffles(run)) for run in (sharing, gsh)]
        numbers |= {
            f"{preset} total over gsh": total,
            f"{preset} max over gsh": most,
            f"{preset} sharing moves": moves[0],
            f"{preset} gsh moves": moves[1],
        }
        sentences.append(
            f"{preset}: {total:.1%} of gsh's total load, {most:.1%} of its maximal load, {moves[0]:,} moves against"
            f" {moves[1]:,}"
        )
        # Rates change by more than this between looks.
        checks.append(Check(f"a shuffle by each ({preset})", all(moves)))
        checks.append(Check(f"a maximal load at most a fiftieth above gsh's ({preset})", most <= 1.02))
    checks += [
        Check(f"a smaller total load ({preset})", numbers[f"{preset} total over gsh"] < 1)
        for preset in ("prototype", "communities")
    ]
    return Judgement("; ".join(sentences), numbers, tuple(checks))


@claim(
    "our-stages-cost-less",
    "Group migration with the sharing-aware shuffle is no worse than load-based migration with the greedy one, and"
    " moves fewer subscribers.",
    OURS,
    *(f"{preset}/nearest/{policy}" for preset in ("paper", "prototype") for policy in ("ldm+gsh", "group+sharing")),
)
def our_stages(runs: Runs) -> Judgement:
    numbers: dict[str, float] = {}
    checks: list[Check] = []
    sentences: list[str] = []
    for preset in ("paper", "prototype"):
        theirs, ours = runs[f"{preset}/nearest/ldm+gsh"], runs[f"{preset}/nearest/group+sharing"]
        most = later_max(ours) / max(1.0, later_max(theirs))
        sentences.append(
            f"{preset}: {ours.totals.migrations:,} migrations against {theirs.totals.migrations:,}, maximal load"
            f" {most:.2f} of theirs"
        )
        numbers |= {
            f"{preset} max over theirs": most,
            f"{preset} our migrations": ours.totals.migrations,
            f"{preset} their migrations": theirs.totals.migrations,
        }
        # Rates change by more than this between looks.
        checks.append(Check(f"a maximal load at most a fiftieth above theirs ({preset})", most <= 1.02))
        checks.append(Check(f"fewer migrations ({preset})", ours.totals.migrations < theirs.totals.migrations))
    return Judgement("; ".join(sentences), numbers, tuple(checks))
