"""A few small runs whose figures tell whether the code still makes the report's."""

from __future__ import annotations

from tocsin.lab.experiments.debs19.running import run_variant
from tocsin.lab.experiments.debs19.variants import PAPER, PROTOTYPE, TENTH, Variant
from tocsin.lab.experiments.youth import DECIDING, Youth
from tocsin.simulator.figures import later_cov, later_max

_VARIANTS = (
    Variant(PAPER, "nearest", "ldm", "", "a tenth", TENTH),
    Variant(PAPER, "nearest", "", "gsh", "a tenth", TENTH),
    Variant(PROTOTYPE, "random", "sdm", "gsh"),
    Variant(PROTOTYPE, "nearest", "group", "sharing"),
)


def probe() -> dict[str, dict[str, float]]:
    found = {}
    for one in _VARIANTS:
        run = run_variant(one, 1)
        found[one.name] = {
            "cov": round(later_cov(run), 6),
            "maximal load": round(later_max(run), 1),
            "migrations": run.totals.migrations,
            "plans": run.totals.plans,
            "deliveries": run.totals.deliveries,
        }
    return found


YOUTH = Youth((*DECIDING, "lab/experiments/claim.py", "lab/experiments/debs19"), probe)
