"""The same scenario file through the simulator and through real processes: the coordinator decides the same."""

from __future__ import annotations

from pathlib import Path

from integration.live import Live
from integration.live_scenario import run_live
from tocsin.coordinator.load.plan import Plan
from tocsin.simulator.reading import load
from tocsin.simulator.world import simulate

_FILE = Path(__file__).parent / "scenarios" / "crowded.toml"


def test_the_same_decisions_as_in_the_simulator(live: Live, tmp_path: Path) -> None:
    """Which stage, by which policy, and who goes where. The seed is such that a seventh of a broker's rates decides
    nothing, and no two subscribe to the same: on a busy machine a window holds more or fewer results, and brokers
    report at odd times."""
    scenario = load(str(_FILE))
    simulated: list[Plan] = []
    simulate(scenario, on_plan=simulated.append)
    seen = run_live(scenario, tmp_path, cluster_url=live.url)
    decided = [
        (str(plan.stage), plan.policy, {(move.subscriber, move.source, move.destination) for move in plan.moves()})
        for plan in simulated
    ]
    assert decided, "a run in which nothing is decided proves nothing"
    assert [(plan.stage, plan.policy, set(plan.moves)) for plan in seen.plans] == decided
    assert not any(plan.failed for plan in seen.plans)
    assert seen.notifications > 100
