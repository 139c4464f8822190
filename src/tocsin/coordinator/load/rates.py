"""How many bytes per second each backend subscription brings: a moving average over a window of time (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import InvalidValue
from tocsin.protocol.subscription_keys import KeyText

_FIRST_ROOM = 1024
#: Bytes per second, as long as nothing has come for anybody: little beside any real rate.
NOTHING_KNOWN = 1.0


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

    The window should be a multiple of the channels' periods: then their rates do not ripple.

    A subscription's rate is its own average over the window, 0 if nothing has come for it. Less than a window says
    little about it, so during its first window the rate is a mixture: its own average counts by the share of the window
    for which it has been held, and the mean of all held subscriptions, silent ones included, counts for the rest. If
    that mean is 0, it is taken for 1 byte per second.

    The mean fades within a window because most subscriptions of a city are quiet: if each of them kept it until its
    first result, together they would outweigh those that have results. The rate does not begin at 0 because then a
    newcomer would add nothing, and all newcomers of a window would be placed at the least loaded broker.

    `lasting_rates.LastingRates` estimates what lasts of these averages.
    """

    def __init__(self, window_s: float = 60.0, bucket_s: float = 5.0) -> None:
        if not 0 < bucket_s <= window_s:
            raise InvalidValue(f"a bucket of {bucket_s} s does not fit in a window of {window_s} s")
        self._bucket_s = bucket_s
        self._buckets = max(1, round(window_s / bucket_s))
        #: Subscriptions that something came for within the window, or since.
        self._number_of: dict[KeyText, int] = {}
        self._free: list[int] = []
        self._bytes: NDArray[np.float64] = np.zeros((self._buckets, _FIRST_ROOM))
        self._pending: NDArray[np.float64] = np.zeros(_FIRST_ROOM)
        #: How many are held, and since which bucket those that have not been held for a whole window, oldest first.
        self._held = 0
        self._young: dict[KeyText, int] = {}
        #: Without those whose rate is 0.
        self._rate_of: dict[KeyText, float] = {}
        self._bucket: int | None = None
        self._estimate = NOTHING_KNOWN
        self.version = 0
        #: How many windows are over that were compared with what had been expected.
        self.windows = 0

    def __len__(self) -> int:
        """How many subscriptions something came for."""
        return len(self._number_of)

    @property
    def window_s(self) -> float:
        return self._buckets * self._bucket_s

    @property
    def horizon_s(self) -> float:
        """The time that the rates are for. The next window need not be like the last one; nothing more is known."""
        return self.window_s

    def forecast(self, held: Mapping[KeyText, int], sent: Mapping[KeyText, int]) -> tuple[float, float] | None:  # noqa: ARG002
        """What the last window was expected to bring a broker that fetches `held` and sends `sent`, and what it
        brought; None from rates that expect nothing."""
        return None

    def of(self, subscription: KeyText) -> float:
        return self._rate_of.get(subscription, 0.0)

    def sum_of(self, subscriptions: Iterable[KeyText]) -> float:
        rate_of = self._rate_of
        return sum([rate_of.get(one, 0.0) for one in subscriptions])

    def weighed(self, counts: Mapping[KeyText, int]) -> float:
        """The sum of the rates, each times its count."""
        rate_of = self._rate_of
        return sum([count * rate_of.get(one, 0.0) for one, count in counts.items()])

    def hold(self, subscription: KeyText) -> None:
        """A broker holds the subscription, which none held before. Call `forget` when none holds it any more."""
        self._held += 1
        self._young[subscription] = self._bucket or 0
        self._rate_of[subscription] = self._estimate

    def observe(self, subscription: KeyText, size_bytes: float) -> None:
        """So many bytes have come for the subscription since the last `advance`."""
        number = self._number_of.get(subscription)
        if number is None:
            number = self._take(subscription)
        self._pending[number] += size_bytes

    def forget(self, subscription: KeyText) -> None:
        """No broker holds the subscription any more."""
        self._held -= 1
        self._young.pop(subscription, None)
        if subscription in self._number_of:
            self._release(subscription)
        if self._rate_of.pop(subscription, None) is not None:
            self.version += 1

    def advance(self, now_s: float) -> bool:
        """Add the observations if a bucket is over; returns whether one is. Call it at least once per bucket."""
        bucket = int(now_s // self._bucket_s)
        if self._bucket is None:
            self._begin(bucket)
        before = self._bucket or 0
        passed = bucket - before
        if passed <= 0:
            return False
        # The observations are spread evenly over the buckets that are over; these replace the oldest.
        for step in range(1, min(passed, self._buckets) + 1):
            self._bytes[(bucket - step) % self._buckets] = self._pending / passed
        self._pending[:] = 0
        self._bucket = bucket
        self._average(before, bucket)
        self.version += 1
        return True

    def _begin(self, bucket: int) -> None:
        self._bucket = bucket
        self._young = dict.fromkeys(self._young, bucket)

    def _average(self, before: int, bucket: int) -> None:  # noqa: ARG002 - lasting rates need to know
        known = np.fromiter(self._number_of.values(), np.int64, len(self._number_of))
        rates = self._bytes.sum(axis=0)[known] / self.window_s
        pairs = list(zip(self._number_of, rates.tolist(), strict=True))
        self._rate_of = {key: rate for key, rate in pairs if rate > 0}
        # A rate of 0 needs no room. A broker may also report a subscription that it holds no longer.
        for key, rate in pairs:
            if rate <= 0:
                self._free.append(self._number_of.pop(key))
        self._estimate = float(rates.sum()) / max(1, self._held, len(self._rate_of)) or NOTHING_KNOWN
        self._mix(bucket)

    def _mix(self, bucket: int) -> None:
        """Give those that are new their estimates."""
        grown_up = []
        for key, since in self._young.items():
            share = (bucket - since) / self._buckets
            if share >= 1:
                grown_up.append(key)
            else:
                self._rate_of[key] = share * self._rate_of.get(key, 0.0) + (1 - share) * self._estimate
        for key in grown_up:
            del self._young[key]

    def _take(self, subscription: KeyText) -> int:
        number = self._free.pop() if self._free else len(self._number_of)
        if number >= len(self._pending):
            self._make_room(2 * len(self._pending))
        self._number_of[subscription] = number
        return number

    def _make_room(self, room: int) -> None:
        more = room - len(self._pending)
        self._bytes = np.concatenate([self._bytes, np.zeros((self._buckets, more))], axis=1)
        self._pending = np.concatenate([self._pending, np.zeros(more)])

    def _release(self, subscription: KeyText) -> int:
        """Returns the number that it had."""
        number = self._number_of.pop(subscription)
        self._bytes[:, number] = self._pending[number] = 0
        self._free.append(number)
        return number
