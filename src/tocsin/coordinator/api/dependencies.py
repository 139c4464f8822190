"""Dependencies that all routes of the coordinator share: the node behind them, and the caller's role."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.types import Scope

from tocsin.coordinator.node import CoordinatorNode
from tocsin.errors import Forbidden, Unauthorised
from tocsin.protocol.incarnations import IDENTITY_HEADER, check_identity
from tocsin.protocol.subscribers import NAME_PATTERN
from tocsin.runtime.tokens import Identity
from tocsin.settings import CoordinatorSettings

#: A heartbeat that reports a hundred thousand sessions takes some 20 MB; lists of subscribers are not much shorter.
_MAX_BROKER_BODY_BYTES = 64 << 20
_BROKER_CALLS = ("/heartbeats", "/sessions", "/claims", "/moves")
#: Nothing else that operators send is nearly as large.
_MAX_OPERATOR_BODY_BYTES = 1 << 20
#: Bodies are parsed before callers are authenticated, so strangers and users may send little. A name and a password of
#: full length, written as escapes, have 13 kB.
_MAX_PUBLIC_BODY_BYTES = 16 << 10

_LOOKING = ("GET", "HEAD")

_operator_scheme = HTTPBearer(
    auto_error=False,
    scheme_name="operator",
    description="api_token; viewer_token for reading; broker_token for brokers' requests. None if api_token is empty",
)
_user_scheme = HTTPBearer(
    auto_error=False, scheme_name="user", description="A user's token, as POST /v1/users and /v1/tokens give it out"
)

_Bearer = HTTPAuthorizationCredentials | None
NameInPath = Annotated[str, Path(pattern=NAME_PATTERN)]


# Dependencies of all routes are asynchronous, though they await nothing: FastAPI would run a plain function in a thread
# with every request.


async def node_of(request: Request) -> CoordinatorNode:
    node = request.app.state.node
    assert isinstance(node, CoordinatorNode)
    return node


Node = Annotated[CoordinatorNode, Depends(node_of)]


def max_body_bytes(settings: CoordinatorSettings) -> Callable[[Scope], int]:
    """How large a request may be, by route and caller."""

    def of(scope: Scope) -> int:
        scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
        role = _role(settings, given.strip() if scheme.lower() == b"bearer" else b"")
        if role in (Role.OPERATOR, Role.BROKER) and scope["path"].endswith(_BROKER_CALLS):
            return _MAX_BROKER_BODY_BYTES
        return _MAX_OPERATOR_BODY_BYTES if role is Role.OPERATOR else _MAX_PUBLIC_BODY_BYTES

    return of


class Role(StrEnum):
    """OPERATOR may do everything, VIEWER may read, BROKER may use the routes for brokers, under its own name."""

    OPERATOR = "operator"
    VIEWER = "viewer"
    BROKER = "broker"


async def role_of(node: Node, bearer: Annotated[_Bearer, Depends(_operator_scheme)]) -> Role | None:
    # Headers arrive decoded as Latin-1, whatever their encoding.
    return _role(node.settings, bearer.credentials.encode("latin-1", "replace") if bearer else b"")


def _role(settings: CoordinatorSettings, given: bytes) -> Role | None:
    if not settings.api_token:
        return Role.OPERATOR
    if hmac.compare_digest(given, settings.api_token.encode()):
        return Role.OPERATOR
    if settings.viewer_token and hmac.compare_digest(given, settings.viewer_token.encode()):
        return Role.VIEWER
    if settings.broker_token and hmac.compare_digest(given, settings.broker_token.encode()):
        return Role.BROKER
    return None


GivenRole = Annotated[Role | None, Depends(role_of)]


def is_operator(role: GivenRole) -> bool:
    return role is Role.OPERATOR


IsOperator = Annotated[bool, Depends(is_operator)]


async def operator_only(role: GivenRole, request: Request) -> Role:
    """For operators; viewers may read here."""
    if role is None:
        raise Unauthorised("give the coordinator's API token as a bearer token")
    if role is Role.BROKER:
        raise Forbidden(f"the brokers' token is for brokers' requests; {request.method} {request.url.path} is not")
    if role is Role.VIEWER and request.method not in _LOOKING:
        raise Forbidden(f"the viewer's token allows reading only; {request.method} is for operators")
    return role


OPERATOR_ONLY: list[Any] = [Depends(operator_only)]


async def broker_only(role: GivenRole, request: Request) -> Role:
    """For brokers, and for operators, who may do everything."""
    if role in (Role.OPERATOR, Role.BROKER):
        return role
    return await operator_only(role, request)


async def own_name_only(
    name: NameInPath,
    node: Node,
    role: Annotated[Role, Depends(broker_only)],
    identity: Annotated[str, Header(alias=IDENTITY_HEADER, description="The secret of the broker's data folder")] = "",
) -> None:
    """All brokers show the same token, so each also has to show that the name is its own."""
    if role is Role.BROKER:
        check_identity(name, node.state.broker(name, node.now_s()).record.holder, identity)


async def user_only(node: Node, bearer: Annotated[_Bearer, Depends(_user_scheme)]) -> Identity:
    if bearer is None:
        raise Unauthorised("give a user's token as a bearer token; POST /v1/tokens gives one out")
    return node.users.check(bearer.credentials)


User = Annotated[Identity, Depends(user_only)]
