"""Shared by all HTTP APIs: JSON answers, errors in one form, and limits of body sizes."""

from __future__ import annotations

import math
import re
import secrets
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any

import msgspec
from fastapi import FastAPI, Header, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin import __version__
from tocsin.errors import InvalidValue, NotFound, Overloaded, TocsinError, TooLarge, Unauthorised
from tocsin.runtime.validation import in_words

#: The incarnation of the broker that calls.
IncarnationHeader = Annotated[
    int, Header(alias="Tocsin-Incarnation", ge=0, lt=1 << 63, description="As the broker's registration answered")
]


class ErrorDetail(BaseModel):
    code: str
    message: str
    temporary: bool


class ErrorBody(BaseModel):
    """The form of every error. Some carry more: `retry_after_s`, `line` and `column`, `earliest`."""

    error: ErrorDetail


#: The answers that any route may give beside its own, for OpenAPI.
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorBody, "description": description}
    for status, description in {
        400: "The statement or request is wrong",
        401: "The bearer token is missing or wrong",
        403: "The token is valid and does not allow this",
        404: "It does not exist",
        405: "The route exists for other methods; see Allow",
        409: "It exists already, or something else depends on it",
        410: "The results asked for are past retention, or the position is of a history that is gone",
        413: "Over a size limit",
        422: "A value is missing, of the wrong type or out of range",
        429: "More is pending than can be committed; come back after Retry-After seconds",
        503: "Starting, or out of room; come back after Retry-After seconds",
    }.items()
}


def reply(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def reply_error(error: TocsinError, headers: dict[str, str] | None = None) -> Response:
    wire = error.to_wire()
    # A quotation from a request may hold half a character, which JSON can't carry.
    body = {
        name: value.encode(errors="replace").decode() if isinstance(value, str) else value
        for name, value in wire["error"].items()
    }
    return reply({"error": body}, error.http_status, headers)


class LimitBodies:
    """Refuses bodies above `max_bytes` before they fill the memory, except for paths that match `except_path`, which
    have a limit of their own. `max_bytes` may be a function of the request."""

    def __init__(
        self, app: ASGIApp, max_bytes: int | Callable[[Scope], int], except_path: re.Pattern[str] | None = None
    ) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._except_path = except_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or (self._except_path and self._except_path.fullmatch(scope["path"])):
            await self._app(scope, receive, send)
            return
        max_bytes = self._max_bytes if isinstance(self._max_bytes, int) else self._max_bytes(scope)
        error = TooLarge(f"the body has more than {max_bytes} bytes, the most that is taken in this request")
        declared = dict(scope["headers"]).get(b"content-length", b"")
        if declared.isdigit() and int(declared) > max_bytes:
            await reply_error(error)(scope, receive, send)
            return
        size = 0

        async def receive_within_limit() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > max_bytes:
                raise HTTPException(error.http_status, str(error))
            return message

        await self._app(scope, receive_within_limit, send)


class NameRun:
    """Adds a header to every answer that names the process: it changes with each start, and with `version`."""

    def __init__(self, app: ASGIApp, header: str, version: Callable[[], int]) -> None:
        self._app = app
        self._name = header.lower().encode()
        self._process = secrets.token_hex(8)
        self._version = version

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", ()),
                    (self._name, f"{self._process}-{self._version()}".encode()),
                ]
            await send(message)

        await self._app(scope, receive, send_named if scope["type"] == "http" else send)


def new_api(title: str, description: str, lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]]) -> FastAPI:
    """An application without routes, whose errors all have one form."""
    # FastAPI's pages load scripts from other servers; the description itself is at /openapi.json.
    app = FastAPI(
        title=title, version=__version__, description=description, lifespan=lifespan, docs_url=None, redoc_url=None
    )
    _answer_errors(app)
    return app


def _answer_errors(app: FastAPI) -> None:
    """Give every error the form of `ErrorBody`."""

    def tocsin_error(_request: Request, exc: Exception) -> Response:
        assert isinstance(exc, TocsinError)
        headers = {}
        if isinstance(exc, Overloaded):
            headers["Retry-After"] = str(math.ceil(exc.retry_after_s))
        if isinstance(exc, Unauthorised):
            headers["WWW-Authenticate"] = "Bearer"
        return reply_error(exc, headers)

    def validation_error(_request: Request, exc: Exception) -> Response:
        assert isinstance(exc, RequestValidationError)
        return reply_error(InvalidValue(in_words(exc.errors()[0])))

    def http_error(request: Request, exc: Exception) -> Response:
        assert isinstance(exc, HTTPException)
        if exc.status_code == 404:
            return reply_error(NotFound(f"no route {request.url.path}; see /openapi.json"))
        error = {"code": "http", "message": str(exc.detail), "temporary": False}
        return reply({"error": error}, exc.status_code, dict(exc.headers or {}))

    app.add_exception_handler(TocsinError, tocsin_error)
    app.add_exception_handler(RequestValidationError, validation_error)
    app.add_exception_handler(HTTPException, http_error)
