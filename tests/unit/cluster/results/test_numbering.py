"""Numbers that are reserved in the catalogue, over restarts and restored back-ups."""

from __future__ import annotations

import shutil
from pathlib import Path

from tocsin.cluster.database import open_catalogue
from tocsin.cluster.results.numbering import Numbering

_NOW_US = 1_800_000_000_000_000
_SECOND_US = 1_000_000
_COMMITS = 20


def _start(folder: Path, now_us: int, last: int = 0) -> list[int]:
    """What one process gives out that commits some results, beginning at `now_us`."""
    folder.mkdir(exist_ok=True)
    engine = open_catalogue(folder / "catalogue.sqlite")
    numbering = Numbering(engine, now_us)
    begin, _ = numbering.begin(last)
    given = list(range(begin + 1, begin + 1 + _COMMITS))
    for number in given:
        numbering.reserve(number)
    engine.dispose()
    return given


def test_two_lives_of_one_back_up_share_no_number(tmp_path: Path) -> None:
    """A back-up is made between two of many quick restarts, and restored a second after it was made: what was given out
    meanwhile is not given out again."""
    data, back_up = tmp_path / "data", tmp_path / "back-up"
    given: list[int] = []
    for restart in range(10):
        given += _start(data, _NOW_US + restart * _SECOND_US, max(given, default=0))
    shutil.copytree(data, back_up)
    lost = _start(data, _NOW_US + 10 * _SECOND_US, max(given))
    again = _start(back_up, _NOW_US + 11 * _SECOND_US, max(given))
    assert len(set(given)) == len(given)
    assert max(given) < min(lost) <= max(lost) < min(again)


def test_a_clock_that_went_back_reuses_nothing(tmp_path: Path) -> None:
    """Then what was reserved decides, not the clock."""
    data = tmp_path / "data"
    before = _start(data, _NOW_US)
    assert max(before) < min(_start(data, _NOW_US - 3600 * _SECOND_US, max(before)))
    # The last commits are gone with the disk's cache: the reservation was durable before them.
    assert max(before) < min(_start(data, _NOW_US - 7200 * _SECOND_US, before[0]))
