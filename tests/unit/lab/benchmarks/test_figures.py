"""What the benchmarks make of what they measured."""

from __future__ import annotations

import time

import pytest

from tocsin.lab.benchmarks.end_to_end import account
from tocsin.lab.benchmarks.fanout import Round, summary
from tocsin.lab.benchmarks.fanout_peers import Nats
from tocsin.lab.benchmarks.load_wire import Kept
from tocsin.lab.benchmarks.measuring import at_pace


def test_the_median_round_counts() -> None:
    """One disturbed round of either side does not change the ratios."""
    ours = [Round(1000, 1.0, 2), Round(1000, 10.0, 2), Round(1000, 0.5, 2)]
    nats = [Round(1000, 2.0, 2), Round(1000, 2.0, 2), Round(1000, 20.0, 2)]
    figures = summary({"tocsin": ours, "nats": nats, "mqtt": [Round(1000, 4.0, 2)]})
    assert figures["deliveries_per_cpu_s"] == 1000
    assert figures["nats_deliveries_per_cpu_s"] == 500
    assert figures["mosquitto_deliveries_per_cpu_s"] == 250
    assert figures["ratio_to_nats"] == 2.0
    assert figures["ratio_to_mosquitto"] == 4.0


def test_without_a_peer_there_is_no_ratio() -> None:
    """A peer that is not installed leaves null, not a made-up figure."""
    figures = summary({"tocsin": [Round(1000, 1.0, 2)]})
    assert figures["ratio_to_nats"] is None
    assert figures["ratio_to_mosquitto"] is None
    assert figures["nats_deliveries_per_cpu_s"] is None


def test_a_missing_program_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer says that its program is not there, rather than failing later."""
    monkeypatch.setattr(Nats, "program", "no-such-program")
    assert Nats.path() is None


def test_every_record_is_accounted_for() -> None:
    """Lost, doubled and misdirected are told apart; only records after the warm-up count for latency."""
    published = ["a", "b", "a"]
    held = {"one": "a", "two": "b"}
    right = [Kept("one", 0, 1_000, 2_000), Kept("two", 1, 5_000, 8_000), Kept("one", 2, 6_000, 7_000)]
    fine = account(published, held, right, from_us=5_000)
    assert (fine.lost, fine.doubled, fine.misdirected) == (0, 0, 0)
    assert fine.latencies_ms == [3.0, 1.0]
    wrong = account(published, held, [right[0], right[0], Kept("two", 2, 6_000, 7_000)], from_us=0)
    assert (wrong.lost, wrong.doubled, wrong.misdirected) == (2, 1, 1)


def test_the_pace_is_kept() -> None:
    """What comes late does not delay what follows."""
    begin = time.perf_counter()
    due = []
    for number in at_pace(100, 6):
        if number == 1:
            time.sleep(0.02)
        due.append(time.perf_counter() - begin)
    assert all(at >= number / 100 for number, at in enumerate(due))
    assert due[-1] < 0.2
