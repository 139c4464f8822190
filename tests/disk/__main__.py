"""`python -m disk`: power cuts and flipped bits on the real stores; then each planted bug until it is found."""

from __future__ import annotations

import argparse
import json
import logging
import sys
import time

import structlog

from disk.cuts import cut_power
from disk.flips import finds, flip_bits
from disk.planted import CUT_BUGS, FLIP_BUGS
from disk.whole import cut_whole_cluster


def main() -> int:
    parser = argparse.ArgumentParser(prog="disk", description=__doc__)
    parser.add_argument("--cuts", type=int, default=120, help="how often the power is cut")
    parser.add_argument("--whole", type=int, default=3, help="how often the power of a whole cluster process is cut")
    parser.add_argument("--flips", type=int, default=500, help="how many files are damaged, one at a time")
    parser.add_argument("--seed", default="", help="decides everything; one is made up if none is given")
    parser.add_argument("--bugs", help="planted bugs to look for, with commas; 'none' for none")
    parser.add_argument("--tries", type=int, default=4, help="runs after which a planted bug counts as not found")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    known = [*CUT_BUGS, *FLIP_BUGS]
    named = known if options.bugs is None else [] if options.bugs == "none" else options.bugs.split(",")
    if unknown := sorted(set(named) - set(known)):
        parser.error(f"no planted bugs called {', '.join(unknown)}; there are {', '.join(known)}")
    # Dropped tails and repaired files are told at every start, of which there are hundreds.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    seed = options.seed or f"{time.time_ns() % 1_000_000:06d}"
    begin_s = time.monotonic()
    cuts = cut_power(seed, options.cuts).to_json() if options.cuts else None
    whole = cut_whole_cluster(seed, options.whole).to_json() if options.whole else None
    flips = flip_bits(seed, options.flips).to_json() if options.flips else None
    found = {name: _is_found(name, seed, options.tries) for name in named}
    sound = not any(part["violations"] for part in (cuts, whole, flips) if part)
    report = {
        "seed": seed,
        "cuts": cuts,
        "whole": whole,
        "flips": flips,
        "planted": found,
        "passed": sound and all(found.values()),
        "seconds": round(time.monotonic() - begin_s, 1),
    }
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        for name, value in report.items():
            print(f"{name:10} {json.dumps(value, indent=2) if isinstance(value, dict) else value}")
        print(f"again: python -m disk --seed {seed}")
    return 0 if report["passed"] else 1


def _is_found(name: str, seed: str, tries: int) -> bool:
    for number in range(tries):
        again = f"{seed}/{number}"
        if name in CUT_BUGS:
            if cut_power(again, 60, bug=name, stop_at_first=True).violations:
                return True
        elif finds(name, again, 120):
            return True
    return False


if __name__ == "__main__":
    sys.exit(main())
