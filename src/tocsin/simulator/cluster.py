"""The simulated data cluster: the backend subscriptions, the brokers that hold them, and the results of each run.

Every run finds one result for each backend subscription, as large as its rate says; or, in a living city, as large as
the reports that it matches, and none if there are none. All are counted, held or not. The counts of a subscription
whose history has ended mean nothing: nobody can ask for earlier results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tocsin.protocol.messages import Subscribe
from tocsin.protocol.ports import BackendHold
from tocsin.protocol.subscription_keys import KeyText, SubscriptionKey, key_text
from tocsin.simulator.chance import stream
from tocsin.simulator.scenario import Fluctuation
from tocsin.simulator.workload import Workload

#: The least size of a notification: it names its subscription, channel, position and time.
_LEAST_RESULT_BYTES = 100
_PARAMETER = "value"


@dataclass(frozen=True, slots=True, eq=False)
class ChannelRun:
    """One result of each backend subscription from `first` up to, but not including, `last`, with their sizes. A size
    of 0 stands for no result."""

    first: int
    last: int
    sizes_bytes: NDArray[np.int64]


class Cluster:
    def __init__(self, workload: Workload, fluctuation: Fluctuation, seed: int) -> None:
        self._workload = workload
        self._factor = fluctuation.factor
        self._noise = [stream(seed, f"noise of {one.name}") for one in workload.channels]
        self._raised: NDArray[np.int64] = np.zeros(workload.backends, np.int64)
        self._next_step = 0
        #: One row for each broker.
        self.held: NDArray[np.bool_] = np.zeros((len(workload.brokers), workload.backends), np.bool_)
        #: The id of each backend subscription; 0 while nobody holds it. It begins anew under another one.
        self.ids: NDArray[np.int64] = np.zeros(workload.backends, np.int64)
        self.in_bytes: NDArray[np.int64] = np.zeros(len(workload.brokers), np.int64)
        #: Results so far, and their bytes.
        self.counts: NDArray[np.int64] = np.zeros(workload.backends, np.int64)
        self.bytes: NDArray[np.int64] = np.zeros(workload.backends, np.int64)
        #: The last result's sequence. It stays 0 when deliveries are summed: nobody looks at positions.
        self.sequence = 0
        self._last_id = 0
        #: Including those that have ended: messages on their way may still name them.
        self._backend_of_id: dict[int, int] = {}
        self.keys: list[SubscriptionKey] = []
        self.key_texts: list[KeyText] = []
        #: The first request for each backend subscription; the request is its number, from 1.
        self.subscribes: list[Subscribe] = []
        for channel, first in zip(workload.channels, workload.bounds, strict=False):
            for value in range(channel.subscriptions):
                parameters: dict[str, int | float | str | bool] = {_PARAMETER: value}
                self.keys.append(SubscriptionKey.of(channel.name, parameters, ""))
                self.key_texts.append(key_text(channel.name, parameters, ""))
                self.subscribes.append(Subscribe(channel.name, parameters, "", int(first) + value + 1))
        self._backend_of_key = {key: number for number, key in enumerate(self.keys)}
        self._key_of_text = dict(zip(self.key_texts, self.keys, strict=True))

    # Requests of brokers

    def acquire(self, broker: int, keys: Sequence[SubscriptionKey]) -> list[BackendHold]:
        held = []
        for key in keys:
            backend = self._backend_of_key[key]
            if not self.ids[backend]:
                self._last_id += 1
                self.ids[backend] = self._last_id
                self._backend_of_id[self._last_id] = backend
            self.held[broker, backend] = True
            held.append(self._held(backend))
        return held

    def release(self, broker: int, ids: Sequence[int]) -> None:
        """The histories of backend subscriptions that no broker holds any more end."""
        for one in ids:
            backend = self._backend_of_id[one]
            self.held[broker, backend] = False
            if not self.held[:, backend].any():
                self.ids[backend] = 0

    def held_by(self, broker: int) -> list[BackendHold]:
        return [self._held(int(backend)) for backend in np.flatnonzero(self.held[broker])]

    def key_of(self, text: KeyText) -> SubscriptionKey:
        return self._key_of_text[text]

    def backend_of(self, subscription: int) -> int:
        return self._backend_of_id[subscription]

    # Channels

    def run(self, channel: int, now_s: float, is_up: NDArray[np.bool_]) -> ChannelRun:
        """Evaluate a channel; brokers that are up fetch the results of their holds."""
        self._follow_rates(now_s)
        described, bounds = self._workload.channels[channel], self._workload.bounds
        first, last = int(bounds[channel]), int(bounds[channel + 1])
        part = slice(first, last)
        if described.reports is not None:
            matched = self._workload.city.matched_bytes(described.reports, now_s - described.period_s, now_s)
            sizes_bytes = np.where(matched > 0, np.maximum(matched, _LEAST_RESULT_BYTES), 0)
        else:
            sizes_bytes = self._sizes(channel, part)
        self.counts[part] += sizes_bytes > 0
        self.bytes[part] += sizes_bytes
        self.in_bytes += np.where(is_up, self.held[:, part] @ sizes_bytes, 0)
        return ChannelRun(first, last, sizes_bytes)

    def _sizes(self, channel: int, part: slice) -> NDArray[np.int64]:
        described = self._workload.channels[channel]
        assert described.rate is not None
        sizes = self._workload.rates_bytes_per_s[part] * described.period_s
        sizes = np.where(self._raised[part] > 0, sizes * self._factor, sizes)
        if described.rate.noise:
            sizes = sizes * np.maximum(0.0, 1 + described.rate.noise * self._noise[channel].normal(size=len(sizes)))
        return np.maximum(np.rint(sizes).astype(np.int64), _LEAST_RESULT_BYTES)

    def _follow_rates(self, now_s: float) -> None:
        steps = self._workload.rate_steps
        end = int(np.searchsorted(steps.times_s, now_s, side="right"))
        if end > self._next_step:
            np.add.at(self._raised, steps.backends[self._next_step : end], steps.steps[self._next_step : end])
            self._next_step = end

    def _held(self, backend: int) -> BackendHold:
        key = self.keys[backend]
        return BackendHold(
            int(self.ids[backend]), key.channel, self.subscribes[backend].parameters, key.permission, self.sequence
        )
