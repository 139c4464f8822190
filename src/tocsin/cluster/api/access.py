"""Which role may call which route of the cluster. Routes that list no other role are for operators only."""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from fastapi import Depends, Header, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tocsin.cluster.api.dependencies import AnyCluster
from tocsin.cluster.datasets.grants import Grants
from tocsin.errors import Forbidden, InvalidValue, TocsinError, Unauthorised
from tocsin.protocol.incarnations import IDENTITY_HEADER
from tocsin.runtime.http import reply_error
from tocsin.runtime.routes import Routes
from tocsin.settings import ClusterSettings


class Role(StrEnum):
    """OPERATOR may do everything, BROKER what brokers do, under its own name; PUBLISHER publishes to its feeds."""

    OPERATOR = "operator"
    BROKER = "broker"
    PUBLISHER = "publisher"


#: For probes: open to everybody who reaches the port.
OPEN_ROUTES = Routes([("GET", "/healthz")])
BROKER_ROUTES = Routes(
    [
        ("PUT", "/v1/brokers/{broker}"),
        ("GET", "/v1/brokers/{broker}/subscriptions"),
        ("POST", "/v1/brokers/{broker}/subscriptions"),
        ("POST", "/v1/brokers/{broker}/unsubscribe"),
        ("POST", "/v1/brokers/{broker}/snapshots"),
        ("GET", "/v1/brokers/{broker}/results"),
        ("POST", "/v1/results"),
    ]
)

#: Only for granted feeds.
PUBLISHER_ROUTES = Routes([("POST", "/v1/feeds/{feed}/records")])
RECORDS = "/v1/feeds/%s/records"

_ROLE = "tocsin.role"


@dataclass(frozen=True, slots=True)
class Access:
    """Decides by a request's token, method and path."""

    api_token: str
    broker_token: str = ""
    #: The one feed that brokers publish to.
    locations_feed: str = ""
    #: Publishers and their grants, once the catalogue is open.
    grants: Grants | None = None

    @staticmethod
    def of(settings: ClusterSettings, grants: Grants | None = None) -> Access:
        """Raises InvalidValue for tokens that can't be told apart."""
        if settings.broker_token and settings.broker_token == settings.api_token:
            raise InvalidValue("setting broker_token: it must differ from api_token, else every broker is an operator")
        return Access(settings.api_token, settings.broker_token, settings.locations_feed, grants)

    def role(self, token: bytes) -> Role | None:
        if not self.api_token or hmac.compare_digest(token, self.api_token.encode()):
            return Role.OPERATOR
        if self.broker_token and hmac.compare_digest(token, self.broker_token.encode()):
            return Role.BROKER
        if self.grants is not None and self.grants.publisher_of(token) is not None:
            return Role.PUBLISHER
        return None

    def admit(self, token: bytes, method: str, path: str) -> Role | None:
        """The caller's role; None for routes that are open to all. Raises Unauthorised or Forbidden."""
        if OPEN_ROUTES.cover(method, path):
            return None
        role = self.role(token)
        if role is None:
            raise Unauthorised("give the API token as a bearer token")
        if role is Role.BROKER and not self._is_for_brokers(method, path):
            raise Forbidden(f"the brokers' token is for brokers' requests; {method} {path} is for operators")
        if role is Role.PUBLISHER:
            self._check_feed(token, method, path)
        return role

    def _check_feed(self, token: bytes, method: str, path: str) -> None:
        """Raises Forbidden unless a publisher publishes to a feed that is granted to it."""
        if not PUBLISHER_ROUTES.cover(method, path):
            raise Forbidden(f"a publisher's token is for publishing; {method} {path} is for operators")
        feed = path.split("/")[3]
        publisher = self.grants.publisher_of(token) if self.grants is not None else None
        if self.grants is None or publisher is None or not self.grants.may_publish(publisher, feed):
            raise Forbidden(f"feed {feed} is not granted to this publisher")

    def _is_for_brokers(self, method: str, path: str) -> bool:
        if BROKER_ROUTES.cover(method, path):
            return True
        # Names of feeds are case-insensitive.
        return bool(self.locations_feed) and (method, path.lower()) == ("POST", RECORDS % self.locations_feed.lower())


class CheckAccess:
    """Refuses requests that the caller may not make, before reading anything of their bodies."""

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
    """The caller's role, on a route that is not open to all."""
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
    """All brokers show the same token, so each also proves that the name is its own."""
    if role is Role.BROKER:
        cluster.incarnations.check_identity(broker, identity)


OwnName = Depends(own_name_only)
