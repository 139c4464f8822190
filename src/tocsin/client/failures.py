"""What can go wrong for a subscriber, told so that one knows what to do.

What a broker or the coordinator refuses comes as the error that Tocsin has for its code, such as `NotFound`. Beside::

    TocsinError
    ├── ServerError               a refusal under a code that this version does not know
    └── ConnectionEnded           this subscriber's connection is over for good
        ├── Replaced                another program connected as the same user and device
        ├── TokenRefused            the token is no longer good, and there is no password to get another
        └── NotConnected            nobody could be reached in time
"""

from __future__ import annotations

from tocsin.client.http import ServerError
from tocsin.errors import (
    AlreadyExists,
    ClusterFailure,
    Forbidden,
    HistoryGone,
    InUse,
    InvalidValue,
    NotFound,
    Overloaded,
    StatementError,
    TocsinError,
    TooLarge,
    Unauthorised,
    Unavailable,
)


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
        StatementError,
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
    told = {"code": code, "message": message, "temporary": temporary, "retry_after_s": retry_after_s}
    return ServerError(0, told)
