"""The subscriber without asyncio: the same promises, with plain loops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tocsin.client import NotConnected, SyncSubscriber
from tocsin.errors import NotFound
from tocsin.protocol import messages
from unit.client.scripted import Results, ScriptedBroker, scripted

pytestmark = pytest.mark.shell


class Background:
    """A broker on another thread's loop."""

    def __init__(self) -> None:
        self.results = Results()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._scripted = scripted(self.results)
        self.broker: ScriptedBroker = self._run(self._scripted.__aenter__())
        self.url = self.broker.url

    def _run(self, work):  # type: ignore[no-untyped-def]
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def publish(self, number: int, *payloads: dict[str, int]) -> None:
        self._loop.call_soon_threadsafe(self.results.publish, number, *payloads)

    def drop(self) -> None:
        self._run(self.broker.live.close(messages.CLOSE_SLOW))

    def stop(self) -> None:
        self._run(self._scripted.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def background() -> Iterator[Background]:
    background = Background()
    yield background
    background.stop()


def test_for_loops(background: Background) -> None:
    """Subscribe, iterate, lose the connection, go on, leave."""
    with SyncSubscriber(broker=background.url, token="t", device="desk") as me:
        assert (me.name, me.broker, me.kept) == ("ann/desk", "b1", [])
        subscription = me.subscribe("C", n=5)
        assert (subscription.channel, subscription.parameters) == ("C", {"n": 5})
        background.publish(1, {"n": 1}, {"n": 2}, {"n": 3})
        seen = []
        for notification in subscription:
            seen.append(notification.payload["n"])
            assert notification.position == subscription.position
            if len(seen) == 2:
                background.drop()
            if len(seen) == 3:
                break
        assert seen == [1, 2, 3]
        background.publish(1, {"n": 4})
        for notification in me.notifications():
            assert (notification.payload, notification.channel) == ({"n": 4}, "C")
            notification.ack()
            break
        subscription.unsubscribe()
        assert list(subscription) == []


def test_errors_come_through(background: Background) -> None:
    """As from the asyncio API; and nothing is left running."""
    background.broker.objection = lambda message: messages.Error("not_found", "no channel C", request=message.request)
    with SyncSubscriber(broker=background.url, token="t") as me, pytest.raises(NotFound):
        me.subscribe("C")
    with pytest.raises(NotConnected):
        SyncSubscriber(broker="http://127.0.0.1:1", token="t", connect_timeout_s=0.2).__enter__()
    assert not [thread for thread in threading.enumerate() if thread.name == "tocsin-subscriber"]
