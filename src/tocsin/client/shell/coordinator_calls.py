"""A subscriber's calls to the coordinator, for tokens and a broker. Errors are raised as Tocsin's own."""

from __future__ import annotations

import ssl
from typing import Any

import httpx
import msgspec

from tocsin.client.shell.http import usual_trust
from tocsin.coordinates.located import Located
from tocsin.errors import AlreadyExists, error_in, error_of
from tocsin.protocol.subscribers import Placement
from tocsin.runtime.http_transport import AsyncTransport

_TIMEOUT_S = 10.0


class CoordinatorCalls:
    """Raises httpx.TransportError if nobody answers."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        transport = AsyncTransport(verify=tls or usual_trust())
        self._http = httpx.AsyncClient(base_url=url, timeout=_TIMEOUT_S, transport=transport)

    async def close(self) -> None:
        await self._http.aclose()

    async def token(self, user: str, password: str, *, register: bool = False) -> str:
        """A token for a user; with `register`, an unknown user is registered first."""
        body = {"name": user, "password": password}
        if register:
            try:
                return str((await self._post("/v1/users", body))["token"])
            except AlreadyExists:
                pass
        return str((await self._post("/v1/tokens", body))["token"])

    async def place(
        self,
        token: str,
        device: str,
        location: tuple[float, float] | None,
        avoid: tuple[str, ...],
        located: Located | None = None,
    ) -> Placement:
        body: dict[str, Any] = {"avoid": list(avoid)[:100]}
        body |= {"device": device} if device else {}
        body |= {"location": list(location)} if location is not None else {}
        body |= {"located": msgspec.to_builtins(located)} if located is not None else {}
        return msgspec.convert(await self._post("/v1/placements", body, token), Placement)

    async def _post(self, path: str, body: dict[str, Any], token: str = "") -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        response = await self._http.post(path, json=body, headers=headers)
        if response.is_success:
            return response.json()
        error = error_in(response.content, response.status_code)
        if "code" not in error:
            error["message"] = f"{response.request.url} answered {response.status_code}: {error['message'][:200]}"
        raise error_of(error, response.status_code)
