"""The texts that a filter compares with."""

from __future__ import annotations

from tocsin.filters.naming import strings_of


def test_all_strings_are_found() -> None:
    """In any quotes, with escapes, in lists and patterns; numbers, names and times of other columns do no harm."""
    text = "who = 'ann' OR `a b` IN (\"it''s\", 'o\\'neil') AND who LIKE '%zoe%' AND at > DATE '2026-01-01'"
    assert strings_of(text) == {"ann", "it''s", "o'neil", "zoe", "2026-01-01"}


def test_what_is_no_filter_names_nobody() -> None:
    """It can't have been accepted."""
    assert strings_of("'unfinished") == set()
    assert strings_of("") == set()
