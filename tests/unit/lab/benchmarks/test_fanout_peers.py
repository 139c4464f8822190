"""The servers that the fan-out benchmark compares with."""

from __future__ import annotations

import pytest

from tocsin.lab.benchmarks.fanout_peers import Nats


def test_a_missing_program_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer says that its program is not there, rather than failing later."""
    monkeypatch.setattr(Nats, "program", "no-such-program")
    assert Nats.path() is None
