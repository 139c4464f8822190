"""Every error that Tocsin raises on purpose, and its code on the wire.

::

    TocsinError
    ├── RequestError              the request can't be carried out; nothing changed
    │   ├── StatementError          a statement is wrong; points at the position in the text
    │   │   └── ForbiddenSql        a query uses something that no query may use
    │   ├── Unauthorised            no valid token was given
    │   ├── Forbidden               the token is valid but does not allow this
    │   │   └── NotGranted            the channel is not granted to the subscriber's permission class
    │   ├── NotFound                no such dataset, feed, channel, broker, subscription, user, receipt
    │   │   └── NotRegistered       a broker, or this start of it, is not known; it has to begin anew
    │   ├── AlreadyExists           the name is taken
    │   ├── InUse                   something else depends on it
    │   ├── Superseded              a broker of that name was started again; this one has to end
    │   ├── InvalidValue            a value is missing, of the wrong type or out of range
    │   │   ├── WrongEntries        some of many entries are wrong; says which
    │   │   └── FilledOtherwise     a broker has filled in other parameters than the channel has; says which it has
    │   ├── TooLarge                over a size limit
    │   ├── SubscriptionFailed      the channel can't be run for this subscription
    │   ├── Refused                 by another process, under a code that this version does not know
    │   └── HistoryGone             the requested results are past retention
    │       └── HistoryRewound        the position belongs to a history that is gone: older data were restored
    ├── Overloaded                temporary: come back after `retry_after_s`
    │   └── Unavailable             temporary too, but your request was not the cause: starting, or out of room
    └── ClusterFailure            our fault: storage or Spark failed

On the wire an error is `{"error": {"code", "message", "temporary", ...details}}`; for a script, also `script`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ScriptProgress:
    """Which statement of a script failed, and what earlier ones did. All count from 1."""

    statement: int
    statements: int
    #: The line of the script at which the statement begins.
    line: int
    #: The answer of each earlier statement. No later statement was carried out.
    done: tuple[str, ...]


#: This much of a line is shown around a mistake: with the indent and two ellipses it fits into 80 columns.
_SHOWN_CHARS = 74


class TocsinError(Exception):
    """The root of the tree."""

    # Fixed for each class, except for the one that stands for an unknown error of another process.
    code: str = "error"
    http_status: int = 500
    temporary: bool = False
    #: Set if one of several statements failed.
    script: ScriptProgress | None = None

    @property
    def message(self) -> str:
        return str(self)

    def details(self) -> dict[str, Any]:
        """The fields on the wire beside code and message."""
        return {}

    @classmethod
    def from_details(cls, message: str, _details: Mapping[str, Any]) -> TocsinError:
        """The error that came over the wire with these details."""
        return cls(message)

    def to_wire(self) -> dict[str, Any]:
        body = {"code": self.code, "message": self.message, "temporary": self.temporary, **self.details()}
        if self.script is not None:
            body["script"] = asdict(self.script)
        return {"error": body}


class RequestError(TocsinError):
    code = "bad_request"
    http_status = 400


class StatementError(RequestError):
    """A statement is wrong. `line` and `column` count from 1; 0 means that the position is unknown. `about` names the
    parameter that is wrong, if it is not a position in the query."""

    code = "statement"

    def __init__(self, message: str, *, text: str = "", line: int = 0, column: int = 0, about: str = "") -> None:
        super().__init__(message)
        self.about = about
        self.text = text
        self.line = line
        self.column = column

    def pointed(self) -> str:
        """The message with the line of the statement that is wrong and a caret under the position.

        >>> print(StatementError("unknown column z", text="SELECT z", line=1, column=8).pointed())
        line 1, column 8: unknown column z
          SELECT z
                 ^
        """
        lines = self.text.splitlines()
        if not 1 <= self.line <= len(lines):
            return self.message
        source, at = lines[self.line - 1].replace("\t", " "), self.column - 1
        if len(source) > _SHOWN_CHARS:
            # A line that wraps would move the caret away from its position.
            start = max(0, min(at - _SHOWN_CHARS // 2, len(source) - _SHOWN_CHARS))
            head, tail = "…" if start else "", "…" if start + _SHOWN_CHARS < len(source) else ""
            source, at = f"{head}{source[start : start + _SHOWN_CHARS]}{tail}", at - start + len(head)
        return f"line {self.line}, column {self.column}: {self.message}\n  {source}\n  {' ' * at}^"

    def details(self) -> dict[str, Any]:
        if not self.line:
            return {}
        return {"line": self.line, "column": self.column, "pointed": self.pointed()}


class ForbiddenSql(StatementError):
    code = "forbidden_sql"


class Unauthorised(RequestError):
    code = "unauthorised"
    http_status = 401


class Forbidden(RequestError):
    code = "forbidden"
    http_status = 403


class NotGranted(Forbidden):
    """The channel is not granted to the subscriber's permission class."""

    code = "not_granted"


class NotFound(RequestError):
    code = "not_found"
    http_status = 404


class NotRegistered(NotFound):
    """The calling broker is not known here, whatever its request: it has to register, and to begin anew."""

    code = "not_registered"


class AlreadyExists(RequestError):
    code = "already_exists"
    http_status = 409


class InUse(RequestError):
    code = "in_use"
    http_status = 409


class Superseded(RequestError):
    code = "superseded"
    http_status = 409


class InvalidValue(RequestError):
    code = "invalid_value"
    http_status = 422


class WrongEntries(InvalidValue):
    """Some of many entries are wrong, so nothing was done; `wrong` says which, counted from 0, and why."""

    code = "wrong_entries"

    def __init__(self, message: str, wrong: Mapping[int, TocsinError] | None = None) -> None:
        super().__init__(message)
        self.wrong = dict(wrong or {})

    def details(self) -> dict[str, Any]:
        listed = self.wrong.items()
        entries = [{"index": at, **error.to_wire()["error"]} for at, error in listed]
        return {"wrong": [{name: entry[name] for name in entry if name != "temporary"} for entry in entries]}

    @classmethod
    def from_details(cls, message: str, details: Mapping[str, Any]) -> TocsinError:
        return cls(message, {int(one["index"]): error_of(one) for one in details.get("wrong", ())})


class FilledOtherwise(InvalidValue):
    """The server fills in other parameters of the channel than the broker knew: `filled`, with what."""

    code = "filled_otherwise"

    def __init__(self, message: str, filled: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.filled = dict(filled or {})

    def details(self) -> dict[str, Any]:
        return {"filled": self.filled}

    @classmethod
    def from_details(cls, message: str, details: Mapping[str, Any]) -> TocsinError:
        return cls(message, details.get("filled"))


class TooLarge(RequestError):
    code = "too_large"
    http_status = 413


class SubscriptionFailed(RequestError):
    """The channel can't be run with these parameter values; the message says why. It is tried anew after all holders
    have released the subscription."""

    code = "subscription_failed"
    http_status = 409


class Refused(RequestError):
    """`refused_as` is the error's code on the wire."""

    code = "refused"

    def __init__(self, message: str, refused_as: str = "") -> None:
        super().__init__(message)
        self.refused_as = refused_as


class HistoryGone(RequestError):
    """Retention has removed the results before `earliest`, or the subscription began anew."""

    code = "history_gone"
    http_status = 410

    def __init__(self, message: str, *, earliest: str) -> None:
        super().__init__(message)
        self.earliest = earliest

    def details(self) -> dict[str, Any]:
        return {"earliest": self.earliest}

    @classmethod
    def from_details(cls, message: str, details: Mapping[str, Any]) -> TocsinError:
        return cls(message, earliest=str(details.get("earliest", "")))


class HistoryRewound(HistoryGone):
    """The cluster was started from older data, and the position belongs to later data; go on from `earliest`."""

    code = "history_rewound"


class Overloaded(TocsinError):
    code = "overloaded"
    http_status = 429
    temporary = True

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s

    def details(self) -> dict[str, Any]:
        return {"retry_after_s": self.retry_after_s}

    @classmethod
    def from_details(cls, message: str, details: Mapping[str, Any]) -> TocsinError:
        return cls(message, retry_after_s=float(details.get("retry_after_s", 1)))


class Unavailable(Overloaded):
    code = "unavailable"
    http_status = 503


class ClusterFailure(TocsinError):
    code = "cluster_failure"
    http_status = 500


_BY_CODE: dict[str, type[TocsinError]] = {
    kind.code: kind for kind in list(vars().values()) if isinstance(kind, type) and issubclass(kind, TocsinError)
}
#: The meaning of a status without a code.
_BY_STATUS = {kind.http_status: kind for kind in (Unauthorised, NotFound, HistoryGone, InvalidValue)}
#: Proxies' answers while the server is away.
_AWAY = frozenset({502, 503, 504})


def error_of(error: Mapping[str, Any], status: int = 0) -> TocsinError:
    """The error from its wire form: code, message and details.

    >>> error_of({"code": "not_found", "message": "no channel Floods"})
    NotFound('no channel Floods')
    """
    code, message = str(error.get("code", "")), str(error.get("pointed") or error.get("message") or f"status {status}")
    if (kind := _BY_CODE.get(code) or _BY_STATUS.get(status)) is not None:
        return kind.from_details(message, error)
    if error.get("temporary") or status >= 500 or status == Overloaded.http_status:
        return (Unavailable if status else Overloaded).from_details(message, error)
    return Refused(message, code)


def error_in(content: bytes, status: int) -> dict[str, Any]:
    """The error in an answer. If a proxy answered instead of the server, only the status is known."""
    try:
        return dict(json.loads(content)["error"])
    except (ValueError, KeyError, TypeError):
        return {"message": content[:500].decode(errors="replace"), "temporary": status in _AWAY}
