"""What is held at the cluster: released in time, and at a cost that does not grow with what lingers."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tocsin.broker.core import backend_holds as module
from tocsin.broker.core.backend_holds import Holdings
from tocsin.broker.core.instructions import Instruction, Release
from tocsin.broker.core.sessions import Backend
from tocsin.protocol.ports import BackendHold


def holding(count: int) -> tuple[Holdings, list[Instruction]]:
    out: list[Instruction] = []
    holdings = Holdings(out)
    for one in range(count):
        holdings.add(BackendHold(one, "C", {"n": one}, "", 0), next_pull=0)
    return holdings, out


def released(out: list[Instruction]) -> list[int]:
    return [one for instruction in out if isinstance(instruction, Release) for one in instruction.ids]


def test_an_event_looks_at_none_of_those_that_linger(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a broker of thousands has emptied, every event would otherwise cost what all of them cost."""
    looks = 0

    class Watched(Backend):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name == "release_at_s"
            return super().__getattribute__(name)

    monkeypatch.setattr(module, "Backend", Watched)
    holdings, out = holding(5_000)
    for backend in list(holdings.backends()):
        holdings.let_go(backend, 60.0)
    looks = 0
    for now_s in range(50):
        assert holdings.call(float(now_s)) == []
    assert looks <= 50
    assert len(holdings.call(60.0)) == 5_000
    assert released(out) == list(range(5_000))


def test_the_earliest_are_released_first() -> None:
    """Those that are due, in the order of time, and no others."""
    holdings, out = holding(100)
    times = list(range(100))
    random.Random(7).shuffle(times)
    for backend, at_s in zip(list(holdings.backends()), times, strict=True):
        holdings.let_go(backend, float(at_s))
    assert holdings.call(-1.0) == []
    holdings.call(49.0)
    assert released(out) == sorted(range(100), key=times.__getitem__)[:50]
    assert len(holdings) == 50


def test_what_is_wanted_again_is_not_released() -> None:
    """Nor is what was let go of again, before its new time has come."""
    holdings, out = holding(3)
    wanted, later, due = holdings.backends()
    for backend in (wanted, later, due):
        holdings.let_go(backend, 10.0)
    holdings.keep(wanted)
    holdings.keep(later)
    holdings.let_go(later, 20.0)
    assert holdings.call(10.0) == [due]
    holdings.released()
    assert holdings.call(19.0) == []
    assert holdings.call(20.0) == [later]
    assert released(out) == [2, 1]
    assert list(holdings.backends()) == [wanted]


def test_letting_go_again_and_again_stays_small() -> None:
    """Somebody who comes and goes without end costs no memory, and is released once."""
    holdings, out = holding(1)
    (backend,) = holdings.backends()
    for at in range(100_000):
        holdings.let_go(backend, 1e6 + at)
        holdings.keep(backend)
    holdings.let_go(backend, 2e6)
    holdings.let_go(backend, 2e6)
    assert len(holdings._releases) < 2_000
    assert holdings.call(3e6) == [backend]
    holdings.released()
    assert holdings.call(3e6) == []
    assert released(out) == [0]


def test_one_call_releases_no_more_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest goes with the next one."""
    monkeypatch.setattr(module, "_MAX_PER_CALL", 10)
    holdings, out = holding(25)
    for backend in list(holdings.backends()):
        holdings.let_go(backend, 1.0)
    sizes = []
    for _ in range(4):
        sizes.append(len(holdings.call(1.0)))
        holdings.released()
    assert sizes == [10, 10, 5, 0]
    assert released(out) == list(range(25))
