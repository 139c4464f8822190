"""Errors that a subscriber can get.

A refusal by a broker or the coordinator is raised as Tocsin's error for its code, such as `NotFound`. Others are::

    TocsinError
    └── ConnectionEnded           this subscriber's connection is over for good
        ├── Replaced                another program connected as the same user and device
        ├── TokenRefused            the token is no longer good, and there is no password to get another
        └── NotConnected            nobody could be reached in time
"""

from __future__ import annotations

from tocsin.errors import TocsinError
from tocsin.protocol.messages import CLOSE_REPLACED


class ConnectionEnded(TocsinError):
    """The broker won't take this subscriber back: trying again would not help."""

    code = "connection_ended"


class Replaced(ConnectionEnded):
    code = "replaced"


class TokenRefused(ConnectionEnded):
    code = "unauthorised"


class NotConnected(ConnectionEnded):
    code = "not_connected"
    temporary = True


def ended(close_code: int, reason: str) -> ConnectionEnded:
    """The error for a close code from 4100 on."""
    if close_code == CLOSE_REPLACED:
        return Replaced(f"{reason}; another program connected as the same user and device: give each its own `device`")
    return ConnectionEnded(f"the broker ended the connection for good: {reason}")
