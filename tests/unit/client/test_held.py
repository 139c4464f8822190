"""How far a client got with one subscription, and what it makes of what brokers say about that."""

from __future__ import annotations

from tocsin.client.held import Held
from tocsin.model.position import Position


def test_a_history_that_was_rewound_counts_even_if_it_goes_back() -> None:
    """What comes after the position that the broker names is new, whatever was got before; the application is told."""
    held = Held(1, "C", {})
    held.carry_on(Position(7, 100), recovered=True)
    assert held.take(Position(7, 300))
    assert not held.carry_on(Position(7, 200), recovered=False)  # It was got long ago.
    assert not held.take(Position(7, 250))
    assert held.carry_on(Position(7, 200), recovered=False, rewound=True)
    assert not held.carry_on(Position(7, 200), recovered=False, rewound=True)
    assert held.take(Position(7, 250))
    assert held.after == "7-200"


def test_a_history_is_rewound_once_whoever_says_it() -> None:
    """During a move the other broker, which was asked with the position from before, tells it too: what has come since
    is not new again."""
    held = Held(1, "C", {})
    held.carry_on(Position(7, 300), recovered=True)
    assert held.carry_on(Position(7, 5000), recovered=False, rewound=True)
    assert held.take(Position(7, 5001))
    assert not held.carry_on(Position(7, 5000), recovered=False, rewound=True)
    assert not held.take(Position(7, 5001))
    assert held.carry_on(Position(7, 9000), recovered=False, rewound=True)
