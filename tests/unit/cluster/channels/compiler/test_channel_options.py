"""Times that ALTER CHANNEL sets."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.channel_options import OPTIONS


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30 seconds", 30.0),
        ("1 DAY", 86_400.0),
        (" 1.5   Hours ", 5400.0),
        ("60 second", 60.0),
        ("3660 days", 3660 * 86_400.0),
    ],
)
def test_a_number_and_a_unit_are_a_time(text: str, seconds: float) -> None:
    """In any case, with as many spaces as people like."""
    option = OPTIONS["RETENTION" if seconds >= 60 else "PERIOD"]
    assert option.seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "hours", "2 weeks", "two hours", "-1 hours", "1 hour ago", "inf hours"])
def test_anything_else_is_refused_in_words(text: str) -> None:
    """The message says what is allowed; the reader of statements puts the option's name before it."""
    with pytest.raises(ValueError, match=r"needs a number and a unit|must lie between 1 minute and 3660 days"):
        OPTIONS["RETENTION"].seconds(text)
