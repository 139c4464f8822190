"""What every route of the coordinator shares: the node behind it, and who is asking."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, Path, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from tocsin.coordinator.node import CoordinatorNode
from tocsin.errors import Unauthorised
from tocsin.protocol.coordination import NAME_PATTERN
from tocsin.runtime.tokens import Identity

#: A heartbeat that reports a hundred thousand sessions takes some 20 MB; nothing else comes near.
MAX_BODY_BYTES = 64 << 20

_operator_scheme = HTTPBearer(
    auto_error=False, scheme_name="operator", description="The coordinator's api_token; open to all if none is set"
)
_user_scheme = HTTPBearer(
    auto_error=False, scheme_name="user", description="A user's token, as POST /v1/users and /v1/tokens give it out"
)

_Bearer = HTTPAuthorizationCredentials | None
NameInPath = Annotated[str, Path(pattern=NAME_PATTERN)]


def node_of(request: Request) -> CoordinatorNode:
    node = request.app.state.node
    assert isinstance(node, CoordinatorNode)
    return node


Node = Annotated[CoordinatorNode, Depends(node_of)]


def is_operator(node: Node, bearer: Annotated[_Bearer, Depends(_operator_scheme)]) -> bool:
    expected = node.settings.api_token
    if not expected:
        return True
    # Headers arrive as Latin-1, whatever they were.
    given = bearer.credentials.encode("latin-1", "replace") if bearer else b""
    return hmac.compare_digest(given, expected.encode())


IsOperator = Annotated[bool, Depends(is_operator)]


def operator_only(is_operator: IsOperator) -> None:
    if not is_operator:
        raise Unauthorised("give the coordinator's API token as a bearer token")


def user_only(node: Node, bearer: Annotated[_Bearer, Depends(_user_scheme)]) -> Identity:
    if bearer is None:
        raise Unauthorised("give a user's token as a bearer token; POST /v1/tokens gives one out")
    return node.users.check(bearer.credentials)


User = Annotated[Identity, Depends(user_only)]
