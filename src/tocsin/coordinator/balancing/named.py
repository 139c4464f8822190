"""A policy by its name (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tocsin.errors import InvalidValue

_Policy = TypeVar("_Policy")


def named(kind: str, name: str, policies: Mapping[str, _Policy]) -> _Policy:
    """Raises InvalidValue, with those there are, if there is none of that name."""
    if (found := policies.get(name)) is None:
        raise InvalidValue(f"no {kind} policy called {name!r}; there are: {', '.join(sorted(policies))}")
    return found
