"""What a broker's links to the cluster and to the coordinator share: its credentials, and errors as Tocsin's own."""

from __future__ import annotations

from typing import Any

import httpx

from tocsin.errors import AlreadyExists, Superseded, Unavailable, error_in, error_of
from tocsin.protocol.incarnations import HEADER, IDENTITY_HEADER
from tocsin.protocol.paths import path_part
from tocsin.runtime.http_transport import AsyncTransport

#: With these refusals a broker may not have its name, or has it no longer. It has to end, for it would change another
#: broker's data.
ENDING = (AlreadyExists, Superseded)


class ServerLink:
    """The token says that it is a broker, the identity says which one. Without a token, neither is sent."""

    def __init__(self, server: str, broker: str, url: str, token: str, identity: str, timeout_s: float) -> None:
        self._server = server
        shown = {"Authorization": f"Bearer {token}", IDENTITY_HEADER: identity} if token else {}
        headers = [(name.encode(), value.encode()) for name, value in shown.items()]
        transport = AsyncTransport(trust_env=False)
        self._http = httpx.AsyncClient(
            base_url=url, headers=headers, timeout=timeout_s, transport=transport, trust_env=False
        )
        self._path = f"/v1/brokers/{path_part(broker)}"

    async def close(self) -> None:
        await self._http.aclose()

    def _registered(self, incarnation: int) -> None:
        """All later calls say which start of the broker makes them."""
        self._http.headers[HEADER] = str(incarnation)

    async def _request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Raises the error in an answer: Unavailable if a later attempt may succeed."""
        try:
            answer = await self._http.request(method, path, **request)
        except httpx.HTTPError as exc:
            raise Unavailable(f"{self._server} does not answer: {exc!r}", retry_after_s=1) from exc
        self._answered(answer)
        if answer.is_success:
            return answer
        error = error_of(error_in(answer.content, answer.status_code), answer.status_code)
        if not error.temporary and not answer.is_server_error:
            raise error
        raise Unavailable(f"{self._server}: {error.message}", retry_after_s=getattr(error, "retry_after_s", 1.0))

    def _answered(self, answer: httpx.Response) -> None:
        """The server has answered, with an error or not."""
