"""The broker's calls to the coordinator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from tocsin.broker.core.events import Ordered
from tocsin.broker.shell.server_links import ServerLink
from tocsin.errors import Unavailable
from tocsin.model.position import Position
from tocsin.protocol import coordination
from tocsin.protocol.ports import Kept, KeptSession
from tocsin.protocol.subscription_keys import SubscriptionKey

#: Everything goes on without the coordinator, so nobody waits for it for long.
_TIMEOUT_S = 5.0

_Answer = TypeVar("_Answer", bound=BaseModel)


class CoordinatorLink(ServerLink):
    def __init__(self, broker: str, url: str, token: str, identity: str = "") -> None:
        super().__init__("the coordinator", broker, url, token, identity, _TIMEOUT_S)

    async def register(self, registration: coordination.BrokerRegistration) -> coordination.BrokerWelcome:
        welcome = await self._call("PUT", self._path, coordination.BrokerWelcome, registration)
        self._registered(welcome.incarnation)
        return welcome

    async def report(self, heartbeat: coordination.Heartbeat) -> coordination.HeartbeatAnswer:
        return await self._call("POST", f"{self._path}/heartbeats", coordination.HeartbeatAnswer, heartbeat)

    async def claim(self, subscribers: Sequence[str]) -> tuple[dict[str, int], list[KeptSession]]:
        """Become the owner of these; returns their new generations, and the known sessions of most of them."""
        body = coordination.Subscribers(subscribers=list(subscribers))
        answer = await self._call("POST", f"{self._path}/claims", coordination.Claimed, body)
        return answer.generations, [from_wire(one) for one in answer.sessions]

    async def request_moves(self, subscribers: Sequence[str]) -> dict[str, tuple[str, str]]:
        """The brokers that these should go to, with their addresses."""
        body = coordination.Subscribers(subscribers=list(subscribers))
        answer = await self._call("POST", f"{self._path}/moves", coordination.MoveAnswer, body)
        return {subscriber: (one.broker, one.url) for subscriber, one in answer.placements.items()}

    async def sessions(self, subscribers: Sequence[str]) -> tuple[dict[str, KeptSession | None], list[str]]:
        """The known sessions of these, wherever they were, and the subscribers to ask about once more."""
        body = coordination.Subscribers(subscribers=list(subscribers))
        answer = await self._call("POST", f"{self._path}/sessions", coordination.SessionsAnswer, body)
        left_out = set(answer.left_out)
        if left_out.issuperset(subscribers):
            raise Unavailable(
                "the coordinator's answer has none of the subscribers that were asked for", retry_after_s=1
            )
        known = {one.subscriber: from_wire(one) for one in answer.sessions}
        return {one: known.get(one) for one in subscribers if one not in left_out}, sorted(left_out & set(subscribers))

    async def _call(self, method: str, path: str, kind: type[_Answer], body: BaseModel) -> _Answer:
        headers = {"Content-Type": "application/json"}
        answer = await self._request(method, path, content=body.model_dump_json(), headers=headers)
        try:
            return kind.model_validate_json(answer.content)
        except ValidationError as exc:
            raise Unavailable(f"the coordinator does not answer: {exc!r}", retry_after_s=1) from exc


def from_wire(session: coordination.Session) -> KeptSession:
    return KeptSession(
        session.subscriber,
        session.generation,
        [
            Kept(
                SubscriptionKey.of(one.channel, one.parameters, one.permission),
                Position.parse(one.position),
                one.where,
            )
            for one in session.subscriptions
        ],
    )


def to_wire(session: KeptSession, *, connected: bool) -> coordination.Session:
    return coordination.Session(
        subscriber=session.subscriber,
        generation=session.generation,
        connected=connected,
        subscriptions=[
            coordination.ReportedSubscription(
                channel=one.key.channel,
                parameters=one.key.parameter_values(),
                permission=one.key.permission,
                position=str(one.position),
                where=one.where,
            )
            for one in session.subscriptions
        ],
    )


def to_orders(answer: coordination.HeartbeatAnswer, now_s: float) -> Ordered:
    return Ordered(
        {
            one.subscriber: [
                SubscriptionKey.of(held.channel, held.parameters, held.permission) for held in one.subscriptions
            ]
            for one in answer.prepare
        },
        answer.adopt,
        {one.subscriber: (one.broker, one.url) for one in answer.move},
        now_s,
    )


def to_wire_pulled(key: SubscriptionKey, size_bytes: int) -> coordination.PulledSubscription:
    return coordination.PulledSubscription(
        channel=key.channel, parameters=key.parameter_values(), permission=key.permission, size_bytes=size_bytes
    )
