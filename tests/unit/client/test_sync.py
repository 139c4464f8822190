"""The subscriber without asyncio: the same promises, with plain loops."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial
from types import FrameType
from typing import Any

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


def test_tasks_are_freed_on_the_thread_of_the_loop(background: Background) -> None:
    """To free a task runs Python code of weak references. If Ctrl-C comes during it, in the main thread, Python drops
    it, and the program goes on."""
    freed: list[str] = []

    async def noted() -> None:
        task = asyncio.current_task()
        assert task is not None
        weakref.finalize(task, lambda: freed.append(threading.current_thread().name))

    with SyncSubscriber(broker=background.url, token="t") as me:
        for _ in range(20):
            me.run(noted)
    assert freed == ["tocsin-subscriber"] * 20


def test_an_interrupt_at_any_moment_comes_through(background: Background) -> None:
    """Wherever Ctrl-C comes while a notification is awaited, the program gets it, and closing ends."""
    step, interrupts = 0, 0
    while True:
        caught: list[bool] = []
        program = threading.Thread(target=_program, args=(background, step, caught), daemon=True)
        program.start()
        program.join(10)
        assert not program.is_alive(), f"interrupted at its instruction {step}, it does not end"
        if caught == [False]:
            break
        assert caught == [True], f"interrupted at its instruction {step}, it goes on"
        interrupts += 1
        step += _STRIDE
    assert interrupts * _STRIDE > 100


#: Instructions between two tries. A prime, so that all parts of loops are met.
_STRIDE = 3


def _program(background: Background, step: int, caught: list[bool]) -> None:
    """Takes a notification, and is interrupted at an instruction while it waits. Notes whether it was interrupted."""
    left = [step]

    def trace(frame: FrameType, event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode":
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
        return trace

    try:
        with SyncSubscriber(broker=background.url, token="t", device="desk") as me:
            me.subscribe("C")
            background.publish(1, {"n": 1})
            notifications = me.notifications()
            sys.settrace(trace)
            try:
                next(notifications)
            finally:
                sys.settrace(None)
        caught.append(False)
    except KeyboardInterrupt:
        caught.append(True)


def test_an_interrupt_that_does_not_wake_the_waiting_thread_ends_the_call() -> None:
    """As when it comes just before the wait begins. Another thread takes the signal here, so that the wait goes on."""
    me = SyncSubscriber()
    me._thread.start()
    interrupting = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    interrupting.start()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    begun_s = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            me.run(partial(asyncio.sleep, 10))
        assert time.monotonic() - begun_s < 5
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        interrupting.join()
        me._stop()
