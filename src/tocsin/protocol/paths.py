"""Names as parts of a path, as all clients write them (pure)."""

from __future__ import annotations

from urllib.parse import quote


def path_part(name: str) -> str:
    """A name as one part of a path, whatever its characters.

    A slash would begin another part, a question mark would end the path, and clients remove dots.

    >>> path_part("north/1?")
    'north%2F1%3F'
    >>> path_part("..")
    '%2E%2E'
    """
    return quote(name, safe="") if name.strip(".") else name.replace(".", "%2E")
