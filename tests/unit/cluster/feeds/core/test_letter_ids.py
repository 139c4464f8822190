"""The names of dead letters, and of their pages."""

from __future__ import annotations

import pytest

from tocsin.cluster.feeds.core.letter_ids import LetterCursor, LetterId
from tocsin.errors import InvalidValue


@pytest.mark.parametrize("text", ["", "7", "1:2:3", "1:2:3:-4", "1:2:3:4:5", "a:1:1:1", f"{1 << 63}:1:1:1", "1:1:1:٣"])
def test_a_cursor_is_one_that_a_page_had(text: str) -> None:
    """Anything else is refused, by name."""
    with pytest.raises(InvalidValue, match="is not the `next` of a page"):
        LetterCursor.parse(text)


@pytest.mark.parametrize("text", ["", "7", "7:", "7:-1", "x:1", f"{1 << 63}:1", f"1:{1 << 31}", "--1:1", "1:2\n"])
def test_a_letter_is_called_by_position_and_line(text: str) -> None:
    """And what is no such name is refused with how one looks."""
    with pytest.raises(InvalidValue, match="expected POSITION:LINE"):
        LetterId.parse(text)
    assert LetterId.parse("-17:3") == LetterId(-17, 3)
    assert str(LetterId(-17, 3)) == "-17:3"
