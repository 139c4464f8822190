r"""LIKE patterns that filters may have: a text at the beginning, at the end, or anywhere (pure).

Others would need a search for each piece, and no index finds them. `\%`, `\_` and `\\` stand for the characters
themselves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_ALLOWED = "'abc%' (begins with), '%abc' (ends with) and '%abc%' (contains)"
_PATTERN = re.compile(r"(?P<before>%*)(?P<text>(?:[^%_\\]|\\[%_\\])*)(?P<after>%*)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)


class UnsupportedPattern(ValueError):
    """The message says what is wrong with a pattern, and what is allowed."""


@dataclass(frozen=True, slots=True)
class LikePattern:
    """Texts that have `text` in them: at their beginning, at their end, as a whole if both, or anywhere if neither."""

    text: str
    begins: bool
    ends: bool


def read_pattern(pattern: str) -> LikePattern:
    r"""
    >>> read_pattern("YH%")
    LikePattern(text='YH', begins=True, ends=False)
    >>> read_pattern(r"%100\%")
    LikePattern(text='100%', begins=False, ends=True)
    """
    found = _PATTERN.fullmatch(pattern)
    if found is None:
        if re.search(
            r"\\(?![%_\\])", _ESCAPED.sub(lambda escape: escape[0] if escape[1] not in "%_\\" else "", pattern)
        ):
            raise UnsupportedPattern(r"in a LIKE pattern, a backslash may stand before %, _ and \ only")
        if "_" in re.sub(r"\\.", "", pattern, flags=re.DOTALL):
            raise UnsupportedPattern(f"_ is not allowed in a filter's LIKE pattern: allowed are {_ALLOWED}")
        raise UnsupportedPattern(f"a filter's LIKE pattern may have % at its ends only: allowed are {_ALLOWED}")
    text = _ESCAPED.sub(r"\1", found["text"])
    if not text:
        # Only % signs: every text. Nothing at all: the empty text.
        return LikePattern("", begins=not pattern, ends=not pattern)
    return LikePattern(text, begins=not found["before"], ends=not found["after"])
