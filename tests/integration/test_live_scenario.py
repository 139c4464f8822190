"""The same scenario file through the simulator and through real processes: the coordinator decides the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.coordinator.plan import Plan
from tocsin.experiments.live import run_live
from tocsin.simulator.reading import load
from tocsin.simulator.world import simulate

_FILE = Path(__file__).parent / "scenarios" / "crowded.toml"


@pytest.mark.spark
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"seed": "314"}, id="shuffle"),
        pytest.param({"seed": "20", "balancing.shuffle": '""'}, id="migration"),
    ],
)
def test_the_same_decisions_as_in_the_simulator(changes: dict[str, str], tmp_path: Path) -> None:
    """Which stage, by which policy, and who goes where. The seeds are such that the last percent of a rate decides
    nothing: sizes on the wire differ by as much from run to run."""
    scenario = load(str(_FILE), changes)
    simulated: list[Plan] = []
    simulate(scenario, on_plan=simulated.append)
    live = run_live(scenario, tmp_path)
    decided = [
        (str(plan.stage), plan.policy, {(move.subscriber, move.source, move.destination) for move in plan.moves()})
        for plan in simulated
    ]
    assert decided, "a run in which nothing is decided proves nothing"
    assert [(plan.stage, plan.policy, set(plan.moves)) for plan in live.plans] == decided
    assert not any(plan.failed for plan in live.plans)
    assert live.notifications > 100
