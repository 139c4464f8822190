"""Server-Sent Events for pages of other origins: browsers ask first whether they may send a token along.

Nothing else of the broker is for other people's pages. Browsers don't ask about WebSockets, whose handshake checks the
origin.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from tocsin.broker.api import EVENTS_PATH

#: Beside headers that browsers send unasked: the token, `Last-Event-ID`, and those that event-stream libraries add.
_HEADERS = ("Authorization", "Last-Event-ID", "Cache-Control")
#: Browsers need not ask again for this long; Chromium forgets the answer after two hours at most.
_VALID_S = 600


class CrossOriginEvents:
    """`origins` are compared exactly; there is no way to say "all"."""

    def __init__(self, app: ASGIApp, origins: Iterable[str]) -> None:
        self._app = app
        self._with_answers = CORSMiddleware(
            app,
            allow_origins=[one for one in origins if one != "*"],
            allow_methods=["GET"],
            allow_headers=_HEADERS,
            max_age=_VALID_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_concerned = scope["type"] == "http" and scope["path"] == EVENTS_PATH
        await (self._with_answers if is_concerned else self._app)(scope, receive, send)
