"""Shared by subscribers and the coordinator: names, and the answer that sends a subscriber to a broker.

Plain values: the SDK imports this module and does not need pydantic. The coordinator's OpenAPI description is made from
them all the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: For the names of users, devices and brokers.
NAME_PATTERN = r"^[A-Za-z0-9_.@~-]{1,64}$"


@dataclass(frozen=True, slots=True)
class Placement:
    """The broker to connect to."""

    broker: str
    url: str


def is_name(text: str) -> bool:
    """Whether this can name a user, a device or a broker."""
    return re.fullmatch(NAME_PATTERN, text) is not None
