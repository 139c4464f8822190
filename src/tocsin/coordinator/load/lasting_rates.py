"""Rates that tell what lasts of what subscriptions bring, rather than what they brought in the last window (pure).

A near-me subscription brings nothing for minutes, then a burst. A plan that takes the last window's averages for rates
moves those who had a burst, and the next burst is somebody else's. `lasting.Lasting` learns, channel by channel, what
is to be expected; this module tells it what came, window by window.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tocsin.coordinator.load.lasting import HORIZON_WINDOWS, Lasting
from tocsin.coordinator.load.rates import NOTHING_KNOWN, Rates
from tocsin.protocol.subscription_keys import KeyText, channel_of

#: A subscription counts in a window's figures if it was held for this share of it. Less says little about it.
_LEAST_SHARE = 0.5
#: Nobody holds it.
_NOT_HELD = np.iinfo(np.int64).max


class LastingRates(Rates):
    """Estimates are new when a window is over; `windows` counts them. Until it has been part of a window, a
    subscription has the mean rate of its channel, or the mixture of `Rates` if the channel is new too."""

    def __init__(self, window_s: float = 60.0, bucket_s: float = 5.0) -> None:
        super().__init__(window_s, bucket_s)
        self._lasting = Lasting()
        self._channels = _Channels()
        self._mean_by_channel: dict[int, float] = {}
        room = len(self._pending)
        #: By number: the channel, since which bucket it is held, what the last window was expected to bring, what it
        #: brought, and what the next is expected to; NaN where that is not known.
        self._channel: NDArray[np.int64] = np.zeros(room, np.int64)
        self._since: NDArray[np.int64] = np.full(room, _NOT_HELD)
        self._expected: NDArray[np.float64] = np.full(room, np.nan)
        self._seen: NDArray[np.float64] = np.full(room, np.nan)
        self._current: NDArray[np.float64] = np.full(room, np.nan)

    @property
    def horizon_s(self) -> float:
        """The time that the estimates are for."""
        return HORIZON_WINDOWS * self.window_s

    def forecast(self, held: Mapping[KeyText, int], sent: Mapping[KeyText, int]) -> tuple[float, float]:
        """What was new in the window is in neither sum."""
        pairs = [(number, 1 + sent.get(key, 0)) for key in held if (number := self._number_of.get(key)) is not None]
        numbers, counts = np.array(pairs, np.int64).reshape(-1, 2).T
        expected, seen = self._expected[numbers], self._seen[numbers]
        known = ~(np.isnan(expected) | np.isnan(seen))
        return float(expected[known] @ counts[known]), float(seen[known] @ counts[known])

    def hold(self, subscription: KeyText) -> None:
        super().hold(subscription)
        number = self._number_of.get(subscription)
        if number is None:
            number = self._take(subscription)
        self._since[number] = self._bucket or 0
        self._rate_of[subscription] = self._mean_by_channel.get(int(self._channel[number]), self._estimate)

    def _begin(self, bucket: int) -> None:
        super()._begin(bucket)
        self._since[self._since != _NOT_HELD] = bucket

    def _average(self, before: int, bucket: int) -> None:
        sums = self._bytes.sum(axis=0)
        self._estimate = float(sums.sum()) / self.window_s / max(1, self._held) or NOTHING_KNOWN
        if bucket // self._buckets > before // self._buckets:
            self._learn(sums, bucket)
        numbers = np.fromiter(map(self._number_of.__getitem__, self._young), np.int64, len(self._young))
        shares = np.minimum(1.0, (bucket - self._since[numbers]) / self._buckets)
        mixed = shares * sums[numbers] / self.window_s + (1 - shares) * self._estimate
        means = self._lasting.means[self._channel[numbers]]
        self._rate_of.update(zip(self._young, np.where(np.isnan(means), mixed, means).tolist(), strict=True))

    def _learn(self, sums: NDArray[np.float64], bucket: int) -> None:
        """A window is over."""
        numbers = np.fromiter(self._number_of.values(), np.int64, len(self._number_of))
        since = self._since[numbers]
        ages = np.minimum(bucket - since, self._buckets)
        is_held, is_part = since != _NOT_HELD, ages >= _LEAST_SHARE * self._buckets
        part, channels = numbers[is_part], self._channel[numbers[is_part]]
        rates = sums[part] / (ages[is_part] * self._bucket_s)
        self._expected[:], self._seen[:] = self._current, np.nan
        self._seen[part] = rates
        self._lasting.learn(part, channels, rates)
        self._current[part] = self._lasting.estimates(part, channels)
        means = self._lasting.means
        self._mean_by_channel = {int(one): float(means[one]) for one in np.flatnonzero(~np.isnan(means))}
        self._rate_of = {}
        gone = []
        estimates = self._current[numbers].tolist()
        for key, estimate, held, learned in zip(
            self._number_of, estimates, is_held.tolist(), is_part.tolist(), strict=True
        ):
            if learned:
                self._young.pop(key, None)
                if estimate > 0:
                    self._rate_of[key] = estimate
            elif not held:
                gone.append(key)
        # Brokers report what they hold no longer. Whoever holds it again begins anew.
        for key in gone:
            self._release(key)
        self.windows += 1

    def _take(self, subscription: KeyText) -> int:
        number = super()._take(subscription)
        channel = self._channels.join(channel_of(subscription))
        self._channel[number] = channel
        self._lasting.make_room(len(self._pending), channel + 1)
        return number

    def _make_room(self, room: int) -> None:
        super()._make_room(room)
        more = room - len(self._channel)
        self._channel = np.concatenate([self._channel, np.zeros(more, np.int64)])
        self._since = np.concatenate([self._since, np.full(more, _NOT_HELD)])
        for name in ("_expected", "_seen", "_current"):
            setattr(self, name, np.concatenate([getattr(self, name), np.full(more, np.nan)]))

    def _release(self, subscription: KeyText) -> int:
        number = super()._release(subscription)
        self._since[number] = _NOT_HELD
        self._expected[number] = self._seen[number] = self._current[number] = np.nan
        self._lasting.forget(number)
        if (channel := self._channels.leave(int(self._channel[number]))) is not None:
            self._lasting.forget_channel(channel)
            self._mean_by_channel.pop(channel, None)
        return number


class _Channels:
    """Numbers channels that have subscriptions. The numbers of others are used again."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._names: list[str] = []
        self._members: list[int] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many numbers have been given."""
        return len(self._names)

    def join(self, channel: str) -> int:
        number = self._number_of.get(channel)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._names[number] = channel
            else:
                number = len(self._names)
                self._names.append(channel)
                self._members.append(0)
            self._number_of[channel] = number
        self._members[number] += 1
        return number

    def leave(self, number: int) -> int | None:
        """Returns the number if the channel has no subscription any more."""
        self._members[number] -= 1
        if self._members[number]:
            return None
        del self._number_of[self._names[number]]
        self._free.append(number)
        return number
