"""The timer of repetitive channels: a thread that wakes when the next channel is due and runs it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import structlog

from tocsin.cluster.channels.core.schedule import Schedule
from tocsin.cluster.channels.executor import ChannelExecutor
from tocsin.cluster.metrics import Metrics
from tocsin.runtime.clock import Clock

log = structlog.get_logger(__name__)


class RepetitiveRuns:
    def __init__(self, executor: ChannelExecutor, clock: Clock, metrics: Metrics, *, concurrency: int) -> None:
        self._executor = executor
        self._clock = clock
        self._metrics = metrics
        self._schedule = Schedule()
        self._changed = threading.Condition()
        self._stopping = False
        self._pool = ThreadPoolExecutor(max_workers=concurrency, thread_name_prefix="repetitive")
        self._thread = threading.Thread(target=self._keep_time, name="repetitive-clock", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def put(self, channel: str, period_s: float) -> None:
        """The channel has this period from now on. A run under way ends as usual."""
        with self._changed:
            self._schedule.put(channel, period_s, self._clock.monotonic_s())
            self._changed.notify()

    def remove(self, channel: str) -> None:
        with self._changed:
            self._schedule.remove(channel)

    def run_once(self, channel: str) -> None:
        """Run a channel soon, whatever its kind and in addition to its schedule."""
        self._pool.submit(self._attempt, channel)

    def stop(self) -> None:
        """Begin no more runs, and wait for those under way."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown()

    def _keep_time(self) -> None:
        with self._changed:
            while not self._stopping:
                now_s = self._clock.monotonic_s()
                for channel in self._schedule.take_due(now_s):
                    self._pool.submit(self._run, channel)
                due_s = self._schedule.next_due_s()
                self._changed.wait(None if due_s is None else max(0.0, due_s - now_s))

    def _run(self, channel: str) -> None:
        state = self._executor.states.get(channel.lower())
        try:
            self._attempt(channel)
        finally:
            with self._changed:
                if self._schedule.finished(channel, self._clock.monotonic_s()) and state is not None:
                    state.overruns += 1
                    self._metrics.overruns.labels(channel).inc()
                self._changed.notify()

    def _attempt(self, channel: str) -> None:
        try:
            state = self._executor.states.get(channel.lower())
            if state is not None:
                self._executor.run([state], is_patient=True)
        except Exception as exc:
            log.error("channel run failed; its window will be tried again", channel=channel, exc_info=exc)
