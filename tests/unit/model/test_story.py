"""The latest events of a machine."""

from __future__ import annotations

import pytest

from tocsin.model.story import InvalidState, Story


def test_only_the_latest_events_are_remembered() -> None:
    """A story takes no more memory however long a machine runs."""
    story = Story(most_entries=2)
    for second in range(5):
        story.now_s = second
        story.note("ann", f"event {second}")
    assert story.of("ann") == ["3.000 s ann: event 3", "4.000 s ann: event 4"]


def test_an_invalid_state_tells_the_stories_of_those_concerned() -> None:
    """All violations are named, with the events of their names and of no others; without any, nothing is raised."""
    story = Story()
    for name in ("ann", "bob", "cid"):
        story.note(name, "connected")
    story.raise_if_any([])
    with pytest.raises(InvalidState) as raised:
        story.raise_if_any([("ann", "is nowhere"), ("cid", "is twice here")])
    assert str(raised.value).splitlines() == [
        "ann: is nowhere; cid: is twice here",
        "  0.000 s ann: connected",
        "  0.000 s cid: connected",
    ]
