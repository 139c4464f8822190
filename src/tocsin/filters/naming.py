"""The texts that a filter compares with: whoever forgets a person looks for the name there too (pure)."""

from __future__ import annotations

from typing import Final

from tocsin.errors import StatementError
from tocsin.filters.tokens import Tokens, token_pattern
from tocsin.filters.words import MARKS, MAX_CHARACTERS

_TOKEN: Final = token_pattern(MARKS)


def strings_of(where: str) -> set[str]:
    """All strings of a filter, patterns of LIKE without their percent signs at the ends.

    >>> sorted(strings_of("who = 'ann' OR who LIKE 'bob%' AND n > 5"))
    ['ann', 'bob']
    """
    found = set()
    try:
        tokens = Tokens(where, _TOKEN, MAX_CHARACTERS, "a filter", "")
        while tokens.next().kind:
            token = tokens.take()
            if token.kind == "string":
                found.add(tokens.string(token).strip("%"))
    except StatementError:
        return set()  # Nobody has such a filter.
    return found
