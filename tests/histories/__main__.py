"""`python -m histories`: draws histories of cluster, brokers, coordinator and subscribers, and checks them.

Bad is what is lost, doubled, out of order, misdelivered, or never comes. Told gaps are counted beside it: what only one
broker had heard of may end while a device stays away for long, after several faults within seconds. It is told so then.
More than a few of those are bad too.

The same seed draws the same histories; `--count 1 --seed N` replays the one that was found to be bad.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from histories.checking import Kind
from histories.drawing import Outcome, live_through
from histories.planted import BUGS

#: So many histories may have a gap that was told; a bug that makes gaps makes many more.
_MAX_KNOWN_GAPS = 1 / 200
#: Histories that one task of a process lives through.
_CHUNK = 25


def main() -> int:
    parser = argparse.ArgumentParser(prog="histories", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="how many histories")
    parser.add_argument("--seed", type=int, default=0, help="of the first; the next ones follow")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--bug", default="", choices=("", *BUGS), help="have this bug in it, which is to be found")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    options = parser.parse_args()
    begin_s = time.monotonic()
    handed, bad, known_gaps, kinds = 0, [], [], Counter[str]()
    for outcome in _outcomes(options):
        handed += outcome.handed
        if outcome.violations:
            is_gap = all(one.kind is Kind.HISTORY_GONE for one in outcome.violations)
            (known_gaps if is_gap else bad).append(outcome.seed)
            kinds.update({str(one.kind) for one in outcome.violations})
            if not options.json:
                print(f"seed {outcome.seed}: {outcome.violations[0].kind}: {outcome.violations[0].what}", flush=True)
    if len(known_gaps) > max(1, _MAX_KNOWN_GAPS * options.count):
        bad += known_gaps
    report = {
        "histories": options.count,
        "seed": options.seed,
        "bug": options.bug,
        "notifications": handed,
        "bad": len(bad),
        "bad_by_kind": dict(kinds),
        "bad_seeds": bad[:100],
        "known_gaps": len(known_gaps),
        "known_gap_seeds": known_gaps[:100],
        "seconds": round(time.monotonic() - begin_s, 1),
    }
    if options.json:
        print(json.dumps(report))
    else:
        print(f"{options.count} histories, {handed} notifications, {len(bad)} bad, {len(known_gaps)} known gaps")
    return 0 if bool(bad) == bool(options.bug) else 1


def _outcomes(options: argparse.Namespace) -> Iterator[Outcome]:
    seeds = range(options.seed, options.seed + options.count)
    chunks = [seeds[start : start + _CHUNK] for start in range(0, len(seeds), _CHUNK)]
    live = partial(_live_through_all, options.bug)
    if options.processes == 1 or len(chunks) == 1:
        for chunk in chunks:
            yield from live(chunk)
        return
    with ProcessPoolExecutor(options.processes) as pool:
        for outcomes in pool.map(live, chunks):
            yield from outcomes


def _live_through_all(bug: str, seeds: range) -> list[Outcome]:
    if not bug:
        return [live_through(seed) for seed in seeds]
    with BUGS[bug].planted():
        return [live_through(seed) for seed in seeds]


if __name__ == "__main__":
    sys.exit(main())
