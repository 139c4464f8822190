from __future__ import annotations

from tocsin.lab.experiments.emergency.warming import STEADY_RUNS, Steadiness


def _channel(name: str, runs: int, overruns: int = 0) -> dict[str, str | int]:
    return {"name": name, "runs": runs, "overruns": overruns}


def test_every_channel_has_to_keep_its_period() -> None:
    """The slowest is waited for."""
    steadiness = Steadiness()
    assert not steadiness.look([_channel("quick", 0), _channel("slow", 0)])
    assert not steadiness.look([_channel("quick", 9), _channel("slow", STEADY_RUNS - 1)])
    assert steadiness.look([_channel("quick", 9), _channel("slow", STEADY_RUNS)])


def test_an_overrun_begins_the_count_anew() -> None:
    """It is several runs in a row that count, not several in all."""
    steadiness = Steadiness()
    steadiness.look([_channel("C", 0)])
    assert not steadiness.look([_channel("C", STEADY_RUNS, overruns=1)])
    assert not steadiness.look([_channel("C", 2 * STEADY_RUNS - 1, overruns=1)])
    assert steadiness.look([_channel("C", 2 * STEADY_RUNS, overruns=1)])


def test_what_was_before_the_first_look_counts_for_nothing() -> None:
    """A channel that has been there for long is looked at like any other."""
    assert not Steadiness().look([_channel("C", 1_000)])
