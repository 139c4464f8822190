"""The coordinator's machine notices that what it knows does not agree, and tells how it came to that."""

from __future__ import annotations

import pytest

from tocsin.model.story import InvalidState
from unit.coordinator.network import Network


def test_a_coordinator_tells_whose_the_session_was() -> None:
    """A former owner that will never be told that it has lost a session."""
    network = Network()
    network.register("a", "b")
    network.claim("a", "ann/d")
    network.claim("b", "ann/d")
    network.state._sessions._to_lose["a"].clear()
    with pytest.raises(InvalidState) as raised:
        network.state.validate()
    assert str(raised.value).splitlines() == [
        "ann/d: a will not learn that it has lost it",
        "  1000.000 s ann/d: owner a, generation 1",
        "  1000.000 s ann/d: owner b, generation 2",
    ]
