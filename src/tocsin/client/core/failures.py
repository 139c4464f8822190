"""What can go wrong for a subscriber, told so that one knows what to do.

What a broker or the coordinator refuses comes as the error that Tocsin has for its code, such as `NotFound`. Beside::

    TocsinError
    ├── Refused                   under a code that this version does not know
    └── ConnectionEnded           this subscriber's connection is over for good
        ├── Replaced                another program connected as the same user and device
        ├── TokenRefused            the token is no longer good, and there is no password to get another
        └── NotConnected            nobody could be reached in time
"""

from __future__ import annotations

from tocsin.errors import (
    AlreadyExists,
    ClusterFailure,
    Forbidden,
    HistoryGone,
    HistoryRewound,
    InUse,
    InvalidValue,
    NotFound,
    NotGranted,
    Overloaded,
    StatementError,
    SubscriptionFailed,
    TocsinError,
    TooLarge,
    Unauthorised,
    Unavailable,
)
from tocsin.protocol.messages import CLOSE_REPLACED


class Refused(TocsinError):
    """`refused_as` is the code that it came under."""

    code = "refused"

    def __init__(self, message: str, refused_as: str) -> None:
        super().__init__(message)
        self.refused_as = refused_as


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


_BY_CODE: dict[str, type[TocsinError]] = {
    kind.code: kind
    for kind in (
        AlreadyExists,
        ClusterFailure,
        Forbidden,
        InUse,
        InvalidValue,
        NotFound,
        NotGranted,
        StatementError,
        SubscriptionFailed,
        TooLarge,
        Unauthorised,
    )
}
_LATER: dict[str, type[Overloaded]] = {kind.code: kind for kind in (Overloaded, Unavailable)}


def error_of(code: str, message: str, *, temporary: bool = False, retry_after_s: float = 0) -> TocsinError:
    """The error that travelled under `code`.

    >>> error_of("not_found", "no channel Floods")
    NotFound('no channel Floods')
    """
    if code in _LATER:
        return _LATER[code](message, retry_after_s=retry_after_s)
    if code in _BY_CODE:
        return _BY_CODE[code](message)
    if code == HistoryGone.code:
        return HistoryGone(message, earliest="")
    if code == HistoryRewound.code:
        return HistoryRewound(message, earliest="")
    return Overloaded(message, retry_after_s=retry_after_s) if temporary else Refused(message, code)


def ended(close_code: int, reason: str) -> ConnectionEnded:
    """What a broker means by closing with a code from 4100 on."""
    if close_code == CLOSE_REPLACED:
        return Replaced(f"{reason}; another program connected as the same user and device: give each its own `device`")
    return ConnectionEnded(f"the broker ended the connection for good: {reason}")
