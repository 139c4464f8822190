"""The base of the plain HTTP clients: one connection pool, and refusals as `ServerError`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from functools import cache
from types import TracebackType
from typing import Any, Self

import httpx

from tocsin.errors import TocsinError, error_in


@cache
def usual_trust() -> ssl.SSLContext:
    """The certificates that are trusted by default: httpx's. Made once: it takes some 20 ms, and thousands of
    subscribers may live in one process."""
    return httpx.create_ssl_context()


class ServerError(TocsinError):
    """The server refused a request. `code` and `temporary` are the server's; `error` is its whole answer."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("pointed") or error.get("message") or f"status {status}"))
        self.status = self.http_status = status
        self.code = str(error.get("code") or TocsinError.code)
        self.temporary = bool(error.get("temporary"))
        self.error = dict(error)
        self.retry_after_s = float(error.get("retry_after_s", 1.0))

    @classmethod
    def of(cls, response: httpx.Response) -> Self:
        return cls(response.status_code, error_in(response.content, response.status_code))


class HttpClient:
    """One connection pool to one server."""

    def __init__(self, url: str, *, token: str, timeout_s: float) -> None:
        headers = [(b"Authorization", f"Bearer {token}".encode())] if token else []
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout_s, verify=usual_trust())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._send(method, path, **options).json()
        return answer

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        response = self._http.request(method, path, **options)
        if not response.is_success:
            raise ServerError.of(response)
        return response
