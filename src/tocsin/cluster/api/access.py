"""Who may call what at the cluster. What is listed for no other role is for operators alone."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tocsin.cluster.api.faces import AnyCluster
from tocsin.errors import Forbidden, InvalidValue, TocsinError, Unauthorised
from tocsin.protocol.incarnations import IDENTITY_HEADER
from tocsin.runtime.http import reply_error
from tocsin.runtime.routes import Routes
from tocsin.settings import ClusterSettings


class Role(StrEnum):
    """OPERATOR may do everything, BROKER what brokers do, under its own name."""

    OPERATOR = "operator"
    BROKER = "broker"


#: For probes: whoever reaches the port.
OPEN_ROUTES = Routes([("GET", "/healthz")])
BROKER_ROUTES = Routes(
    [
        ("PUT", "/v1/brokers/{broker}"),
        ("GET", "/v1/brokers/{broker}/subscriptions"),
        ("POST", "/v1/brokers/{broker}/subscriptions"),
        ("POST", "/v1/brokers/{broker}/unsubscribe"),
        ("GET", "/v1/brokers/{broker}/results"),
        ("POST", "/v1/results"),
    ]
)

RECORDS = "/v1/feeds/%s/records"

_ROLE = "tocsin.role"


@dataclass(frozen=True, slots=True)
class Access:
    """Decides by what a request shows and asks for."""

    api_token: str
    broker_token: str = ""
    #: The one feed that brokers publish to.
    places_feed: str = ""

    @staticmethod
    def of(settings: ClusterSettings) -> Access:
        """Raises InvalidValue for tokens that can't be told apart."""
        if settings.broker_token and settings.broker_token == settings.api_token:
            raise InvalidValue("setting broker_token: it must differ from api_token, else every broker is an operator")
        return Access(settings.api_token, settings.broker_token, settings.places_feed)

    def role(self, token: bytes) -> Role | None:
        if not self.api_token or hmac.compare_digest(token, self.api_token.encode()):
            return Role.OPERATOR
        if self.broker_token and hmac.compare_digest(token, self.broker_token.encode()):
            return Role.BROKER
        return None

    def admit(self, token: bytes, method: str, path: str) -> Role | None:
        """Who asks; None for what is open to all. Raises Unauthorised or Forbidden."""
        if OPEN_ROUTES.cover(method, path):
            return None
        role = self.role(token)
        if role is None:
            raise Unauthorised("give the API token as a bearer token")
        if role is Role.BROKER and not self._is_for_brokers(method, path):
            raise Forbidden(f"the brokers' token is for what brokers do; {method} {path} is for operators")
        return role

    def _is_for_brokers(self, method: str, path: str) -> bool:
        if BROKER_ROUTES.cover(method, path):
            return True
        # Feeds are called the same in whatever case.
        return bool(self.places_feed) and (method, path.lower()) == ("POST", RECORDS % self.places_feed.lower())


class CheckAccess:
    """Refuses, before anything of a request is read, what who asks may not do."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scheme, _, token = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            try:
                shown = token.strip() if scheme.lower() == b"bearer" else b""
                scope[_ROLE] = self._access.admit(shown, scope["method"], scope["path"])
            except TocsinError as exc:
                headers = {"WWW-Authenticate": "Bearer"} if isinstance(exc, Unauthorised) else {}
                await reply_error(exc, headers)(scope, receive, send)
                return
        await self._app(scope, receive, send)


def role_of(request: Request) -> Role:
    """Who asks for something that is not open to all."""
    role = request.scope[_ROLE]
    assert isinstance(role, Role)
    return role


GivenRole = Annotated[Role, Depends(role_of)]


def own_name_only(
    broker: str,
    cluster: AnyCluster,
    role: GivenRole,
    identity: Annotated[str, Header(alias=IDENTITY_HEADER, description="The secret of the broker's data folder")] = "",
) -> None:
    """All brokers show the same token, so each shows besides that the name is its own."""
    if role is Role.BROKER:
        cluster.incarnations.check_identity(broker, identity)


OwnName = Depends(own_name_only)
