"""The newest result of each subscription: who has missed nothing is known, and nobody is overlooked."""

from __future__ import annotations

import threading

import pyarrow as pa

from tocsin.cluster.results.latest import LatestResults


def rows(*pairs: tuple[int, int]) -> pa.Table:
    schema = pa.schema([("subscription", pa.int64()), ("sequence", pa.int64())])
    return pa.Table.from_pylist([{"subscription": one, "sequence": at} for one, at in pairs], schema)


def test_what_was_there_before_is_read_once_and_only_when_somebody_asks_so_far_back() -> None:
    """New positions cost nothing; the first old one reads what is kept, the next do not."""
    reads = []

    def read_kept() -> tuple[int, pa.Table]:
        reads.append(1)
        return 5, rows((1, 10), (2, 30))

    latest = LatestResults(40, read_kept)
    assert latest.behind({1: 40, 2: 41}) == {}
    assert not reads
    assert latest.behind({1: 10, 2: 29}) == {2: 29}
    assert latest.behind({1: 9, 2: 30}) == {1: 9}
    assert reads == [1]


def test_who_asks_for_what_is_no_longer_kept_is_behind() -> None:
    """Also a subscription without any result: it may have had some."""
    latest = LatestResults(40, lambda: (5, rows((1, 10))))
    assert latest.behind({1: 4, 2: 4, 3: 5}) == {1: 4, 2: 4}  # 3 had nothing since all is kept.
    latest.note(rows((2, 50)))
    latest.forget(45)
    assert latest.behind({1: 44, 2: 50, 3: 45}) == {1: 44}
    assert latest.behind({1: 45, 2: 45}) == {2: 45}


def test_what_is_noted_while_old_results_are_read_is_not_lost() -> None:
    """Committing does not wait for the reading, and the reading does not undo what was noted."""
    reading, noted = threading.Event(), threading.Event()

    def read_kept() -> tuple[int, pa.Table]:
        reading.set()
        assert noted.wait(10)
        return 0, rows((1, 10), (2, 10))

    latest = LatestResults(40, read_kept)
    answers: list[dict[int, int]] = []
    asking = threading.Thread(target=lambda: answers.append(latest.behind({1: 20, 2: 20})))
    asking.start()
    assert reading.wait(10)
    latest.note(rows((1, 50)))
    noted.set()
    asking.join(10)
    assert answers == [{1: 20}]
