"""What the plain HTTP clients share: one connection pool, and refusals as `ServerError`."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import httpx

from tocsin.client.trust import usual_trust
from tocsin.errors import TocsinError


class ServerError(TocsinError):
    """The server refused a request. `status`, `code` and `temporary` are its own words."""

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(str(error.get("pointed") or error.get("message") or f"status {status}"))
        self.status = status
        self.error = dict(error)
        self.retry_after_s = float(error.get("retry_after_s", 1.0))

    @property
    def is_temporary(self) -> bool:
        return bool(self.error.get("temporary"))


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
            try:
                error = response.json()["error"]
            except (ValueError, KeyError):
                error = {"message": response.text[:500]}
            raise ServerError(response.status_code, error)
        return response
