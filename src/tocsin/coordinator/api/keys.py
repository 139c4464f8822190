"""Routes for the keys that tokens are signed with."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from tocsin.coordinator.api.dependencies import OPERATOR_ONLY, Node
from tocsin.coordinator.registry.instructions import Audit
from tocsin.runtime.http import ERRORS, reply
from tocsin.runtime.tokens import key_id

router = APIRouter(prefix="/v1/keys", responses=ERRORS, tags=["keys"], dependencies=OPERATOR_ONLY)


class KeysAnswer(BaseModel):
    keys: list[str] = Field(description="Ids of the trusted keys; the one that signs comes first")


class RotationRequest(BaseModel):
    drop_old: bool = Field(
        False, description="The key has leaked: the new one signs at once, and all tokens from before are void"
    )
    by: str = Field("operator", min_length=1, max_length=64, description="The operator's name, for the audit log")


class RotationAnswer(BaseModel):
    key: str
    signs_from_us: int = Field(description="µs since 1970")
    old_until_us: int = Field(description="Until then, tokens of earlier keys are valid")


@router.get("", response_model=KeysAnswer)
async def list_keys(node: Node) -> Response:
    """The keys that tokens may be signed with."""
    return reply({"keys": [key_id(one) for one in node.keys.public_keys()]})


@router.post("/rotate", response_model=RotationAnswer)
async def rotate(body: RotationRequest, node: Node) -> Response:
    """Begin to sign with a new key. Brokers learn of it first; tokens of the old one stay valid until they expire."""
    done = await asyncio.to_thread(node.keys.drop_old if body.drop_old else node.keys.rotate)
    await node.audit(Audit(body.by, "key", done.key, {"drop_old": body.drop_old}))
    return reply(done)
