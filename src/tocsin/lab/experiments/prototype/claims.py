"""What is claimed of the live runs: the paper's claims about its prototype, and ours about what it does not show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from tocsin.balancing.evenness import cov_of
from tocsin.lab.experiments.claim import OURS, Check, Claim, Finding, Judgement, Kind, Runs, claim
from tocsin.lab.experiments.debs19.claims import CLAIMS as SIMULATED
from tocsin.lab.experiments.prototype.measured import measured_beside_model, measured_loads
from tocsin.lab.experiments.prototype.running import LiveRun
from tocsin.simulator.figures import later_max
from tocsin.simulator.timeline import Run

#: "At the end" is the last five minutes by the city's clock: a single look is chance.
_END_S = 300.0
_BALANCED = ("ldm", "sdm", "ldm+gsh", "sdm+gsh", "group+sharing")
_NEAREST = tuple(f"prototype/nearest/{policy}" for policy in ("off", *_BALANCED))


def end_cov(run: Run) -> float:
    last = [one.cov for one in run.samples if one.time_s >= run.duration_s - _END_S] or [run.samples[-1].cov]
    return sum(last) / len(last)


@claim(
    "nearest-is-extremely-skewed",
    "Nearest placement makes an extreme imbalance, since people are not spread evenly over the city.",
    "Figure 8 (1), 6.1.3",
    _NEAREST[0],
)
def nearest_is_extremely_skewed(runs: Runs) -> Judgement:
    run = runs[_NEAREST[0]]
    counts, cov = sorted(run.samples[-1].subscribers), end_cov(run)
    return Judgement(
        {"cov at the end": cov, "most people at a broker": counts[-1], "fewest": counts[0]},
        # What calls for a shuffle.
        (Check("a cov above 0.5", cov > 0.5),),
    )


@claim(
    "balancing-fixes-extremes",
    "Migration fixes the extreme imbalance of nearest placement, alone and with a shuffle.",
    "Figures 8 to 11, 6.1.3",
    *_NEAREST,
)
def balancing_fixes_extremes(runs: Runs) -> Judgement:
    covs = {policy: end_cov(runs[f"prototype/nearest/{policy}"]) for policy in _BALANCED}
    return Judgement(
        {f"cov at the end with {policy}": cov for policy, cov in covs.items()},
        tuple(Check(f"a cov below 0.2 at the end with {policy}", cov < 0.2) for policy, cov in covs.items()),
    )


@claim(
    "maximal-load-falls-by-half",
    "Balancing takes about half of the load off the most loaded broker.",
    "Figures 10 (1) and 11 (1)",
    *_NEAREST,
)
def maximal_load_falls_by_half(runs: Runs) -> Judgement:
    before = later_max(runs[_NEAREST[0]])
    left = {policy: later_max(runs[f"prototype/nearest/{policy}"]) / max(1.0, before) for policy in _BALANCED}
    return Judgement(
        {f"left with {policy}": share for policy, share in left.items()},
        # "Roughly", say the slides of their simulation: to a tenth. To take more off confirms it.
        tuple(Check(f"at most 60 % to be left with {policy}", share <= 0.6) for policy, share in left.items()),
    )


@claim(
    "measured-loads-agree",
    "What brokers fetch and send in fact is balanced too, and is what the model of loads says.",
    "4, and Figures 8 to 11",
    *_NEAREST,
)
def measured_loads_agree(runs: Runs) -> Judgement:
    """The paper's figures are of moving averages by its model; bytes are counted beside it."""
    off = cov_of(measured_loads(runs[_NEAREST[0]]))
    covs = {policy: cov_of(measured_loads(runs[f"prototype/nearest/{policy}"])) for policy in _BALANCED}
    ratios = [measured / model for name in _NEAREST for measured, model in measured_beside_model(runs[name])]
    return Judgement(
        {
            "measured cov without balancing": off,
            **{f"measured cov with {policy}": cov for policy, cov in covs.items()},
            "least measured over modelled load of a broker": min(ratios, default=0.0),
            "most": max(ratios, default=0.0),
        },
        (
            *(Check(f"half of the measured cov with {policy}", cov <= off / 2) for policy, cov in covs.items()),
            # The model counts payloads; envelopes, repeats and what people missed while away come on top.
            Check(
                "measured loads of 0.75 to 1.5 of the modelled",
                bool(ratios) and 0.75 <= min(ratios) <= max(ratios) <= 1.5,
            ),
        ),
    )


#: Those of the simulated runs' claims that are about the prototype alone.
_PROTOTYPES = tuple(one for one in SIMULATED if all(name.startswith("prototype/") for name in one.needs))
CLAIMS: tuple[Claim, ...] = (
    nearest_is_extremely_skewed,
    balancing_fixes_extremes,
    maximal_load_falls_by_half,
    measured_loads_agree,
    *_PROTOTYPES,
)


def find_all(live: Mapping[str, LiveRun]) -> list[Finding]:
    """Those whose runs are all there."""
    runs = {name: one.run for name, one in live.items()}
    found = [one.find(runs) for one in CLAIMS if all(name in runs for name in one.needs)]
    found.append(_of_all(_workload, live, "set-up"))
    ours = [_nothing_is_lost, _nothing_overruns]
    if any(one.movers_received_s and one.others_received_s for one in live.values()):
        ours.append(_moving_is_not_noticed)
    return found + [_of_all(judge, live) for judge in ours]


_THEIR_WORKLOAD = (
    "The workload is the paper's: 400 people with about 2,200 subscriptions that share about 600, 10,000 reports in"
    " half an hour, and everybody's location every second."
)


def _workload(live: Sequence[LiveRun]) -> tuple[str, str, Judgement]:
    first = live[0]
    totals, scenario = first.run.totals, first.conditions.scenario
    location_s = first.conditions.locations_every_s * first.conditions.speed_up
    return (
        "workload-is-the-papers",
        _THEIR_WORKLOAD,
        Judgement(
            {
                "people": scenario.people,
                "subscriptions": totals.frontend_subscriptions,
                "shared ones at the cluster": totals.backend_subscriptions,
                "reports in half an hour": scenario.reports * 1800 / scenario.duration_s,
                "seconds between locations, by the city's clock": location_s,
            },
            (
                Check("400 people", scenario.people == 400),
                Check("2,200 subscriptions within a tenth", abs(totals.frontend_subscriptions - 2200) <= 220),
                Check("600 to be shared, within a tenth", abs(totals.backend_subscriptions - 600) <= 60),
                Check("a location every second", location_s <= 1),
            ),
        ),
    )


def _nothing_is_lost(live: Sequence[LiveRun]) -> tuple[str, str, Judgement]:
    expected = sum(one.audit.expected for one in live)
    wrong = sum(sum(one.audit.to_json().values()) - one.audit.expected for one in live)
    refused = sum(one.published - one.accepted for one in live)
    moved = sum(one.run.totals.migrations for one in live)
    return (
        "nothing-is-lost",
        "Nobody misses a notification or gets one twice, late or of somebody else, however many are moved.",
        Judgement(
            {"notifications": expected, "lost, doubled, out of order or misdirected": wrong, "migrations": moved},
            (Check("none of them wrong", not wrong), Check("every record to be accepted", not refused)),
        ),
    )


def _nothing_overruns(live: Sequence[LiveRun]) -> tuple[str, str, Judgement]:
    overruns = sum(one.overruns for one in live)
    return (
        "the-machine-keeps-up",
        "The machine holds the speed: channels' runs fit into their periods.",
        Judgement(
            {"runs that outlasted their period": overruns, "times the speed of life": live[0].conditions.speed_up},
            (Check("no overrun", not overruns),),
        ),
    )


def _moving_is_not_noticed(live: Sequence[LiveRun]) -> tuple[str, str, Judgement]:
    """The paper moves people to shorten delays, and does not show them. People of the same runs are compared, since
    runs differ: those who were moved, from then on, and those who were not, since the first was."""
    some = [(one.movers_received_s, one.others_received_s) for one in live]
    pairs = [(movers["p99"], others["p99"]) for movers, others in some if movers and others]
    moved, still = (fmean(column) for column in zip(*pairs, strict=True))
    return (
        "moving-is-not-noticed",
        "Being moved does not make notifications slower.",
        Judgement(
            {
                "people who were moved": sum(one.movers for one in live),
                "seconds that 99 % take at most to those who were moved": moved,
                "to those who were not": still,
            },
            # What people at different brokers of one run differ by anyway.
            (Check("at most a quarter more, or 100 ms", moved <= max(still * 1.25, still + 0.1)),),
        ),
    )


def _of_all(
    judge: Callable[[Sequence[LiveRun]], tuple[str, str, Judgement]], live: Mapping[str, LiveRun], kind: Kind = "ours"
) -> Finding:
    id_, says, judgement = judge(list(live.values()))
    source = OURS if kind == "ours" else "6.1.2"
    return Claim(id_, says, source, tuple(live), lambda _: judgement, kind).find({})
