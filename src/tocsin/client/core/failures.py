"""What can go wrong for a subscriber, told so that one knows what to do.

What a broker or the coordinator refuses comes as the error that Tocsin has for its code, such as `NotFound`. Beside::

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
    """The broker won't have this subscriber back: trying again would not help."""

    code = "connection_ended"


class Replaced(ConnectionEnded):
    code = "replaced"


class TokenRefused(ConnectionEnded):
    code = "unauthorised"


class NotConnected(ConnectionEnded):
    code = "not_connected"
    temporary = True


def ended(close_code: int, reason: str) -> ConnectionEnded:
    """What a broker means by closing with a code from 4100 on."""
    if close_code == CLOSE_REPLACED:
        return Replaced(f"{reason}; another program connected as the same user and device: give each its own `device`")
    return ConnectionEnded(f"the broker ended the connection for good: {reason}")
