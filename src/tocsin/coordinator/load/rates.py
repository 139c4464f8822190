"""How many bytes per second each backend subscription brings: a moving average over a window of time (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import InvalidValue
from tocsin.protocol.subscription_keys import KeyText

_FIRST_ROOM = 1024


class Reporters:
    """Several brokers fetch and report the same results; for each subscription, only one broker's reports count.

    It is the broker that reported first, until it has not reported for `patience_s`: by then the others have reported
    the same results too, and the next report is about new ones.
    """

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._heard: dict[KeyText, tuple[str, float]] = {}

    def is_listened_to(self, broker: str, subscription: KeyText, now_s: float) -> bool:
        reporter, heard_s = self._heard.get(subscription, ("", -math.inf))
        if reporter != broker and now_s - heard_s < self._patience_s:
            return False
        self._heard[subscription] = (broker, now_s)
        return True

    def forget(self, now_s: float, after_s: float) -> None:
        """Forget subscriptions that no broker has reported for `after_s`."""
        for subscription in [one for one, (_, heard_s) in self._heard.items() if now_s - heard_s > after_s]:
            del self._heard[subscription]


class Rates:
    """Adds observations bucket by bucket; `version` changes whenever a rate may have changed.

    The window should be a multiple of the channels' periods: then their rates do not ripple. Less than a window says
    nothing about a subscription that has results now and then. Until it has been observed for a whole window, its rate
    is the average of the others, or 1 if there are no others.
    """

    def __init__(self, window_s: float = 60.0, bucket_s: float = 5.0) -> None:
        if not 0 < bucket_s <= window_s:
            raise InvalidValue(f"a bucket of {bucket_s} s does not fit in a window of {window_s} s")
        self._bucket_s = bucket_s
        self._buckets = max(1, round(window_s / bucket_s))
        self._number_of: dict[KeyText, int] = {}
        self._free: list[int] = []
        self._bytes: NDArray[np.float64] = np.zeros((self._buckets, _FIRST_ROOM))
        self._pending: NDArray[np.float64] = np.zeros(_FIRST_ROOM)
        self._ages: NDArray[np.int64] = np.zeros(_FIRST_ROOM, np.int64)
        self._rate_of: dict[KeyText, float] = {}
        self._bucket: int | None = None
        self._usual = 1.0
        self.version = 0

    def __len__(self) -> int:
        return len(self._number_of)

    def of(self, subscription: KeyText) -> float:
        return self._rate_of.get(subscription, self._usual)

    def sum_of(self, subscriptions: Iterable[KeyText]) -> float:
        rate_of, usual = self._rate_of, self._usual
        return sum([rate_of.get(one, usual) for one in subscriptions])

    def weighed(self, counts: Mapping[KeyText, int]) -> float:
        """The sum of the rates, each times its count."""
        rate_of, usual = self._rate_of, self._usual
        return sum([count * rate_of.get(one, usual) for one, count in counts.items()])

    def observe(self, subscription: KeyText, size_bytes: float) -> None:
        """So many bytes have come for the subscription since the last `advance`."""
        number = self._number_of.get(subscription)
        if number is None:
            number = self._take(subscription)
        self._pending[number] += size_bytes

    def forget(self, subscription: KeyText) -> None:
        if (number := self._number_of.pop(subscription, None)) is not None:
            self._bytes[:, number] = self._pending[number] = self._ages[number] = 0
            self._free.append(number)
            if self._rate_of.pop(subscription, None) is not None:
                self.version += 1

    def advance(self, now_s: float) -> bool:
        """Add the observations if a bucket is over; returns whether one is. Call it at least once per bucket."""
        bucket = int(now_s // self._bucket_s)
        if self._bucket is None:
            self._bucket = bucket
        passed = bucket - self._bucket
        if passed <= 0:
            return False
        # The observations are spread evenly over the buckets that are over; these replace the oldest.
        for step in range(1, min(passed, self._buckets) + 1):
            self._bytes[(bucket - step) % self._buckets] = self._pending / passed
        self._pending[:] = 0
        self._bucket = bucket
        known = np.fromiter(self._number_of.values(), np.int64, len(self._number_of))
        self._ages[known] = np.minimum(self._ages[known] + passed, self._buckets)
        is_sure = self._ages[known] == self._buckets
        rates = self._bytes.sum(axis=0)[known] / (self._buckets * self._bucket_s)
        pairs = zip(self._number_of, rates.tolist(), is_sure.tolist(), strict=True)
        self._rate_of = {key: rate for key, rate, sure in pairs if sure}
        if self._rate_of:
            self._usual = float(rates[is_sure].mean()) or self._usual
        self.version += 1
        return True

    def _take(self, subscription: KeyText) -> int:
        number = self._free.pop() if self._free else len(self._number_of)
        if number >= len(self._pending):
            room = len(self._pending)
            self._bytes = np.concatenate([self._bytes, np.zeros((self._buckets, room))], axis=1)
            self._pending = np.concatenate([self._pending, np.zeros(room)])
            self._ages = np.concatenate([self._ages, np.zeros(room, np.int64)])
        self._number_of[subscription] = number
        return number
