"""People whose names must not be kept, and who are recognised by a fingerprint of the name (pure)."""

from __future__ import annotations

import hashlib
from typing import Any, Final

#: No user's name begins like this: it can't contain a colon.
FINGERPRINT_MARK: Final = "sha256:"
#: Replaces a removed name.
FORGOTTEN: Final = "[forgotten]"


def fingerprint(name: str) -> str:
    """
    >>> fingerprint("ann")[:15]
    'sha256:49915e0d'
    """
    return FINGERPRINT_MARK + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()


def is_fingerprint(text: str) -> bool:
    return text.startswith(FINGERPRINT_MARK)


def without_name(value: Any, name: str) -> Any:
    """A JSON value, with `FORGOTTEN` for each text in it that is the name, or a subscriber of that user.

    >>> without_name({"by": "ann", "who": ["ann/phone", "anna/phone"], "ann": 1}, "ann")
    {'by': '[forgotten]', 'who': ['[forgotten]', 'anna/phone'], 'ann': 1}
    """
    match value:
        case str():
            return FORGOTTEN if value == name or value.startswith(f"{name}/") else value
        case dict():
            return {key: without_name(one, name) for key, one in value.items()}
        case list() | tuple():
            return [without_name(one, name) for one in value]
        case _:
            return value
