"""Trials of channels: the coordinator's process subscribes with the SDK, and relays notifications to the page.

The page gets Server-Sent Events: `subscribed` once, then `notification`s, and `failed` if the trial can't go on. A
trial ends when the page goes away.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from tocsin.client import Subscriber
from tocsin.client.subscriptions import Subscription
from tocsin.coordinator.node import CoordinatorNode
from tocsin.coordinator.registry.events import PlacementAsked
from tocsin.coordinator.registry.instructions import AnswerPlacement
from tocsin.errors import AlreadyExists, NotFound, TocsinError, Unavailable
from tocsin.model.catalogue import ParameterValue

USER = "dashboard"
#: Trials at a time, over all pages.
MAX_AT_ONCE = 8
_PATIENCE_S = 10.0
#: Proxies between page and coordinator should not close a quiet connection.
_QUIET_AFTER_S = 10.0
_UNSUBSCRIBE_S = 2.0


class Trials:
    def __init__(self, node: CoordinatorNode) -> None:
        self._node = node
        self._count = 0

    async def begin(self, channel: str, parameters: Mapping[str, ParameterValue]) -> Relay:
        """Subscribe; raises the error of the broker or the cluster if they refuse."""
        if self._count >= MAX_AT_ONCE:
            raise Unavailable(f"{MAX_AT_ONCE} trials of channels run already; end one first", retry_after_s=5)
        self._count += 1
        stack = AsyncExitStack()
        stack.callback(self._ended)
        try:
            now_s = self._node.now_s()
            placed = (await self._node.ask(PlacementAsked(now_s, USER), AnswerPlacement)).placed
            subscriber = Subscriber(
                broker=placed.url,
                token=await self._token(),
                connect_timeout_s=_PATIENCE_S,
                subscribe_timeout_s=_PATIENCE_S,
                queue_count=100,
            )
            await stack.enter_async_context(subscriber)
            subscription = await subscriber.subscribe(channel, parameters)
        except BaseException:
            await stack.aclose()
            raise
        return Relay(stack, subscriber, subscription)

    def _ended(self) -> None:
        self._count -= 1

    async def _token(self) -> str:
        users = self._node.users
        try:
            return (await users.issue(USER)).token
        except NotFound:
            with suppress(AlreadyExists):
                return (await users.register(USER, None, "")).token
            return (await users.issue(USER)).token


class Relay(StreamingResponse):
    """Ends the subscription however the answer ends."""

    def __init__(self, stack: AsyncExitStack, subscriber: Subscriber, subscription: Subscription) -> None:
        super().__init__(
            _events(subscriber, subscription),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
        self._stack = stack
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # Nobody needs the backend subscription any more. If the broker can't be reached, it ends after a minute.
            with suppress(TocsinError, TimeoutError):
                await asyncio.wait_for(self._subscription.unsubscribe(), _UNSUBSCRIBE_S)
            await self._stack.aclose()


async def _events(subscriber: Subscriber, subscription: Subscription) -> AsyncIterator[bytes]:
    yield _event("subscribed", {"subscription": str(subscription), "broker": subscriber.broker})
    waiting: asyncio.Task[Any] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(subscription))
            done, _ = await asyncio.wait([waiting], timeout=_QUIET_AFTER_S)
            if not done:
                yield b": still there\n\n"
                continue
            notification, waiting = waiting.result(), None
            yield _event(
                "notification",
                {
                    "position": notification.position,
                    "committed_at_s": notification.committed_at.timestamp(),
                    "broker": subscriber.broker,
                    "kind": notification.kind,
                    "payload": msgspec.Raw(notification.raw_payload),
                },
            )
    except StopAsyncIteration:
        return
    except TocsinError as exc:
        yield _event("failed", exc.to_wire()["error"])
    finally:
        if waiting is not None:
            waiting.cancel()


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + msgspec.json.encode(data) + b"\n\n"
