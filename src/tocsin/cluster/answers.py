"""What a statement answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What a statement did, in words, and the rows it returns, if any."""

    message: str
    columns: tuple[str, ...] = ()
    rows: Sequence[Sequence[Any]] = field(default=())
    #: True when there were more rows than a SELECT may return.
    truncated: bool = False
