"""What a subscriber and the coordinator agree on: names, and the answer that sends a subscriber to a broker.

Plain values: the SDK imports this module, and pydantic is not among what it needs. The coordinator's OpenAPI
description is made from them all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Of users, devices and brokers.
NAME_PATTERN = r"^[A-Za-z0-9_.@~-]{1,64}$"


@dataclass(frozen=True, slots=True)
class Placement:
    """The broker to connect to."""

    broker: str
    url: str


def is_name(text: str) -> bool:
    """Whether this can name a user, a device or a broker."""
    return re.fullmatch(NAME_PATTERN, text) is not None
