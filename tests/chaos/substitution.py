"""How a bug is planted."""

from __future__ import annotations

from typing import Any


def substitute(owner: Any, name: str, bad: Any) -> None:
    """Put something bad in the place of what is there. A bug in what is not there any more would never be found."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner} has no {name}: plant this bug where it is done now")
    setattr(owner, name, bad)
