"""A session's life: what its table allows, and what a session says that was told the impossible."""

from __future__ import annotations

import pytest

from tocsin.broker.core.session_table import (
    Knowledge,
    Ownership,
    Presence,
    SessionFact,
    SessionState,
    first_state,
    next_state,
)
from tocsin.broker.core.sessions import Session
from tocsin.model.story import InvalidTransition, Story

_FIRST = [first_state(is_owned=owned, is_confirmed=confirmed) for owned in (True, False) for confirmed in (True, False)]


def test_every_state_can_be_reached_and_left() -> None:
    """From the states that a session begins in, each state of each region comes up, and only an end is for ever."""
    reached: set[SessionState] = set()
    left = list(_FIRST)
    while left:
        state = left.pop()
        if state not in reached:
            reached.add(state)
            after = [one for fact in SessionFact if (one := next_state(state, fact)) is not None]
            assert bool(after) == (state.ownership is not Ownership.ENDED)
            left += after
    assert {one for state in reached for one in state} == {*Presence, *Knowledge, *Ownership}


def test_a_claim_is_confirmed_before_anything_is_reported() -> None:
    """Whatever a session was, right after a claim it is not to be reported: the former owner may know more."""
    for state in _FIRST:
        claimed = next_state(state, SessionFact.CLAIMED)
        assert claimed is not None
        assert claimed.is_owned
        assert not claimed.is_confirmed


def test_what_can_not_be_is_raised_with_the_story() -> None:
    """The error names the session, its state and the fact, and tells what happened to this session, no other."""
    story = Story()
    ann, ben = (Session(one, story, first_state(is_owned=False, is_confirmed=True)) for one in ("ann/a", "ben/b"))
    story.now_s = 2.0
    for session in (ann, ben):
        session.learn(SessionFact.CONNECTED)
    with pytest.raises(InvalidTransition) as raised:
        ann.learn(SessionFact.CONNECTED)
    assert str(raised.value).splitlines() == [
        "session ann/a is arriving, confirmed, unclaimed and can't be connected; its last events:",
        "  2.000 s ann/a: connected: arriving, confirmed, unclaimed",
    ]


def test_a_session_that_has_ended_learns_nothing() -> None:
    """Whoever still holds on to it makes a mistake."""
    ended = next_state(_FIRST[0], SessionFact.ENDED)
    assert ended is not None
    assert [next_state(ended, fact) for fact in SessionFact] == [None] * len(SessionFact)


def test_a_story_is_bounded() -> None:
    """The oldest entries go, whomever they are about."""
    story = Story(most_entries=2)
    for what in ("one", "two", "three"):
        story.note("ann", what)
    assert story.of("ann") == ["0.000 s ann: two", "0.000 s ann: three"]
