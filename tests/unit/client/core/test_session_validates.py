"""A client's session notices that what it knows does not agree, and tells how it came to that."""

from __future__ import annotations

import random

import pytest

from tocsin.client.core.events import Placed, Started
from tocsin.client.core.options import SessionOptions
from tocsin.client.core.session import Session
from tocsin.model.story import InvalidState, Story


def test_a_client_tells_of_its_links() -> None:
    """A session that waits for nothing would stay without a connection for ever."""
    session = Session(SessionOptions(token="t", has_coordinator=True), random.Random(1).random, Story())
    session.handle(Started(), 1.0)
    session.handle(Placed("b", "http://b"), 2.0)
    session._current = None
    with pytest.raises(InvalidState) as raised:
        session.validate()
    assert str(raised.value).splitlines() == [
        "it has no link, and no step is under way that brings one",
        "  2.000 s session: link 1 to http://b",
    ]
