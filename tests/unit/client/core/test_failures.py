"""What ends a connection for good, and with which error."""

from __future__ import annotations

import pytest

from tocsin.client.core import events as ev
from tocsin.client.core.failures import ConnectionEnded, Replaced
from unit.client.core.playing import failure, play_at


@pytest.mark.parametrize(("code", "error"), [(4100, Replaced), (4101, ConnectionEnded), (4102, ConnectionEnded)])
def test_does_not_come_back(code: int, error: type[Exception]) -> None:
    """Close codes from 4100 on."""
    play = play_at()
    assert isinstance(failure(play.tell(ev.Closed(1, code, "for a reason"))), error)
    assert play.after(100) == []
    assert play.session.wake_at_s() is None
