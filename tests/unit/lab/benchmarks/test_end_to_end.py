"""The account of records that the end-to-end benchmark gives."""

from __future__ import annotations

from tocsin.lab.benchmarks.end_to_end import account
from tocsin.lab.benchmarks.load_wire import Kept


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
