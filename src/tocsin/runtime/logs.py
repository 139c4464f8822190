"""Structured logs: one JSON object per line, or readable lines on a terminal. Secrets never get out.

All logs go to standard error: those of structlog, the standard library and uvicorn. The last step before a record is
rendered blanks out authorisation headers, tokens and passwords, and the users that a request's path names.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from tocsin.errors import InvalidValue

REDACTED = "[redacted]"

#: Keys whose values are always secret.
_SECRET_KEY = re.compile(r"authori[sz]ation|token|secret|passw|cookie|api[_-]?key|credential", re.IGNORECASE)

#: Secrets inside a text: a complete header, and tokens in a query string or in `key=value`.
_SECRET_TEXT = re.compile(
    r"(?P<keep>\b(?:bearer|basic)\s+|\b[\w-]*(?:token|secret|password|api[_-]?key)\b['\"]?\s*[=:]\s*['\"]?)[^\s'\",&;)}\]]+",
    re.IGNORECASE,
)

#: A password inside an address.
_SECRET_IN_ADDRESS = re.compile(r"(?P<keep>://[^\s/:@]*:)[^\s@]+(?=@)")

#: The user in a request's path: people have a right to be forgotten, and logs are kept for long.
_PERSON_IN_PATH = re.compile(r"(?P<keep>/v1/(?:users|subscribers)/)[^/\s?'\"]+")

#: Their INFO lines are of interest only to somebody who looks for a fault in them.
_CHATTY = ("py4j", "httpx", "httpcore", "asyncio", "pyspark", "urllib3")


def configure_logging(level: str = "info", *, json: bool | None = None, stream: TextIO | None = None) -> None:
    """Send all logs at `level` and above to `stream` (standard error), as JSON unless it is a terminal.

    Calling it again replaces the former set-up.
    """
    output = stream if stream is not None else sys.stderr
    as_json = not output.isatty() if json is None else json
    threshold = _threshold(level)

    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
        # As text from here on, so that secrets in tracebacks are found too. The pretty form prints local variables.
        structlog.processors.format_exc_info,
    ]
    renderer: Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=output.isatty())
    )

    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(output)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _drop_colours,
                redact_secrets,
                renderer,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(threshold)
    logging.captureWarnings(capture=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logger = logging.getLogger(name)
        logger.handlers = []
        logger.propagate = True
    # One line per request only on demand: a busy feed answers thousands a second.
    logging.getLogger("uvicorn.access").setLevel(max(threshold, logging.WARNING) if threshold > logging.DEBUG else 0)
    for name in _CHATTY:
        logging.getLogger(name).setLevel(max(threshold, logging.WARNING))


def redact_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """`event` with every secret blanked out, at any depth.

    >>> redact_secrets(None, "info", {"event": "sent", "headers": {"Authorization": "Bearer abc"}})
    {'event': 'sent', 'headers': {'Authorization': '[redacted]'}}
    >>> redact_secrets(None, "info", {"event": "GET /v1/status?token=abc HTTP/1.1"})
    {'event': 'GET /v1/status?token=[redacted] HTTP/1.1'}
    >>> redact_secrets(None, "info", {"event": "POST /v1/users/ann/revoke HTTP/1.1"})
    {'event': 'POST /v1/users/[redacted]/revoke HTTP/1.1'}
    >>> redact_secrets(None, "info", {"event": "at postgresql://ann:abc@host/name"})
    {'event': 'at postgresql://ann:[redacted]@host/name'}
    """
    return {key: REDACTED if _is_secret(key, value) else _redacted(value) for key, value in event.items()}


def _drop_colours(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Without uvicorn's second copy of its message, which has colours in it."""
    event.pop("color_message", None)
    return event


def _is_secret(key: object, value: object) -> bool:
    # Numbers and flags are kept: `tokens=3` counts something, and no secret of ours is one.
    return (
        isinstance(key, str | bytes)
        and isinstance(value, str | bytes)
        and bool(_SECRET_KEY.search(key if isinstance(key, str) else key.decode("latin-1")))
    )


def _redacted(value: Any) -> Any:
    match value:
        case str():
            for secret in (_SECRET_IN_ADDRESS, _SECRET_TEXT, _PERSON_IN_PATH):
                value = secret.sub(rf"\g<keep>{REDACTED}", value)
            return value
        case bytes():
            return _redacted(value.decode("utf-8", "replace"))
        case Mapping():
            return {key: REDACTED if _is_secret(key, inner) else _redacted(inner) for key, inner in value.items()}
        case tuple((str() | bytes() as key, inner)) if _is_secret(key, inner):
            # ASGI and httpx hold headers as pairs.
            return (_redacted(key), REDACTED)
        case list() | tuple() | set() | frozenset():
            return [_redacted(inner) for inner in value]
        case bool() | int() | float() | None:
            return value
        case _:
            return _redacted(str(value))


def _threshold(level: str) -> int:
    names = logging.getLevelNamesMapping()
    if level.upper() not in names:
        raise InvalidValue(f"no such log level: {level!r}; one of debug, info, warning, error, critical")
    return names[level.upper()]
