"""What placement policies see of a broker."""

from __future__ import annotations

from tocsin.balancing.views import BrokerView, Load
from unit.coordinator.network import held


def test_what_a_newcomer_adds_depends_on_what_is_shared() -> None:
    keys = [one.key for one in held("fire", "flood")]
    view = BrokerView("a", capacity=2.0, load=Load(1, 5), held={keys[0]: 5})
    assert view.added(keys) == 3
    assert view.resulting_score(keys) == (6 + 3) / 2
