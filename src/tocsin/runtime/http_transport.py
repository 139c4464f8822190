"""The transport of asynchronous HTTP clients: if no answer comes, they get httpx.TransportError and nothing else."""

from __future__ import annotations

import httpx


class AsyncTransport(httpx.AsyncHTTPTransport):
    """Takes the same arguments as httpx's own."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            return await super().handle_async_request(request)
        except AttributeError as exc:
            # The server took the connection and reset it before the event loop came to look at it. uvloop has no
            # socket for it any more; anyio asks that socket for its address all the same. Nothing was sent yet.
            raise httpx.ConnectError("the connection was reset as it was opened", request=request) from exc
