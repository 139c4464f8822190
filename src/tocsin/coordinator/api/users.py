"""Routes for users: registration, tokens, revocation."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from tocsin.coordinator.accounts.users import Issued
from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, IsOperator, NameInPath, Node
from tocsin.coordinator.registry.events import UserRemoved
from tocsin.errors import Forbidden, Unauthorised
from tocsin.protocol.coordination import Name
from tocsin.protocol.subscribers import NAME_PATTERN
from tocsin.runtime.http import ERRORS, reply

router = APIRouter(prefix="/v1", responses=ERRORS, tags=["users"])


class Registration(BaseModel):
    name: Name
    password: str | None = Field(
        None,
        min_length=8,
        max_length=1000,
        description="Only operators may leave it out, for users that another system authenticates",
    )
    permission: str = Field("", max_length=255, description="Permission class; for operators to give")


class Credentials(BaseModel):
    name: Name
    password: str = Field(max_length=1000)


class TokenAnswer(BaseModel):
    user: str
    token: str
    expires_at_us: int = Field(description="µs since 1970")


class UserAnswer(BaseModel):
    name: str
    permission: str
    created_at_us: int
    void_before_us: int = Field(description="Tokens issued before are void; 0: none is")


class UsersAnswer(BaseModel):
    users: list[UserAnswer]


class RevokedAnswer(BaseModel):
    user: str
    void_before_us: int


class RemovedUser(BaseModel):
    user: str


class Person(BaseModel):
    name: str = Field(
        min_length=1, max_length=1000, description="The name as it stands in data; it need not be a user's"
    )
    by: str = Field("operator", min_length=1, max_length=64, description="The operator's name, for the audit log")
    wait_s: float = Field(10.0, ge=0, le=60, description="How long to wait for brokers; a heartbeat or two is enough")


class ForgottenAnswer(BaseModel):
    user: bool = Field(description="Whether there was a user of that name")
    sessions: int
    brokers: list[str] = Field(description="Brokers that have removed the person")
    away: list[str] = Field(description="Brokers that do not answer: they remove the person when they are back")


@router.post("/users", status_code=201, response_model=TokenAnswer)
async def register(body: Registration, request: Request, node: Node, is_operator: IsOperator) -> Response:
    """Register a user, and return a token. Open to all if `open_registration` is set, else for operators."""
    if not is_operator and not node.settings.open_registration:
        raise Unauthorised("only operators register users here; ask one of them")
    if not is_operator and body.permission:
        raise Forbidden("a permission class is given by operators")
    if not is_operator and body.password is None:
        raise Forbidden("choose a password; only operators register users without one")
    return _issued(await node.users.register(body.name, body.password, body.permission, _address(request)), 201)


@router.post("/tokens", response_model=TokenAnswer)
async def log_in(body: Credentials, request: Request, node: Node) -> Response:
    """A new token for name and password. After ten failures within a minute, attempts from that address are refused."""
    return _issued(await node.users.log_in(body.name, body.password, _address(request)), 200)


@router.post("/users/{name}/tokens", response_model=TokenAnswer, dependencies=OPERATOR_ONLY)
async def issue(name: NameInPath, node: Node) -> Response:
    """A new token for a user whom the operator vouches for, such as an application that has logged them in itself."""
    return _issued(await node.users.issue(name), 200)


@router.get("/users", response_model=UsersAnswer, dependencies=OPERATOR_ONLY)
async def list_users(
    node: Node,
    after: Annotated[str, Query(pattern=f"^$|{NAME_PATTERN}", description="Only users whose names come later")] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
) -> Response:
    """The users, by name, a page at a time."""
    users = await node.users.users(after, limit)
    return reply(
        {
            "users": [
                {
                    "name": one.name,
                    "permission": one.permission,
                    "created_at_us": one.created_at_us,
                    "void_before_us": node.users.void_before_us(one.name),
                }
                for one in users
            ]
        }
    )


@router.delete("/users/{name}", response_model=RemovedUser, dependencies=OPERATOR_ONLY)
async def remove_user(name: NameInPath, node: Node) -> Response:
    """Remove a user. Their tokens become void, and their subscriptions are forgotten."""
    await node.users.remove(name)
    await node.happened(UserRemoved(name))
    return reply({"user": name})


@router.post("/users/{name}/revoke", response_model=RevokedAnswer, dependencies=OPERATOR_ONLY)
async def revoke(name: NameInPath, node: Node) -> Response:
    """Make all tokens of a user that were issued up to now void. Brokers learn of it with their next heartbeat."""
    return reply({"user": name, "void_before_us": await node.users.revoke(name)})


@router.post("/forget", response_model=ForgottenAnswer, dependencies=OPERATOR_ONLY)
async def forget(body: Person, node: Node) -> Response:
    """Forget a person: the user, if there is one, and all data that names them, here and at every broker. Returns when
    that is done. It is no error if there was nothing to forget."""
    return reply(await node.forget(body.name, body.by, body.wait_s))


def _address(request: Request) -> str:
    return request.client.host if request.client else ""


def _issued(issued: Issued, status: int) -> Response:
    # No cache on the way may keep a token.
    return reply(issued, status, {"Cache-Control": "no-store"})
