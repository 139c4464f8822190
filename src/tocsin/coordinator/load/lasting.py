"""Which part of a rate lasts, and which is a burst: learned from each channel's subscriptions together (pure).

A subscription's rate in one window is taken for the sum of three things:

    its channel's mean  +  what is its own and lasts  +  a burst

What lasts fades by the factor `kept` from one window to the next: somebody walks out of the busy part of a city. How
much there is of each, one subscription can't tell; those of a channel can. Their rates' deviations from the channel's
mean, multiplied with those of one window before and of two windows before, and averaged over all subscriptions, tell

    variance of all  =  variance of what lasts + variance of bursts
    one window on    =  kept  * variance of what lasts
    two windows on   =  kept² * variance of what lasts

because bursts of different windows have nothing to do with each other. With these, a Kalman filter for each
subscription says how much of a new window to believe: all of it in a channel whose rates are steady, next to nothing in
one that has only bursts; then the channel's mean is the estimate, as in James and Stein's rule.

Everything is in arrays by number: see `rates.Rates`, which knows the subscriptions' names.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Flags = NDArray[np.bool_]

#: By how much the weight of a window falls with each later one in what is learned about a channel: about ten windows
#: count. Fewer would make small channels' figures jump; more would keep yesterday's city.
_REMEMBERED = 0.9
#: A channel's mean moves by this part towards that of each window: most of a change is in it after three windows. It
#: concerns all subscriptions of the channel alike, so that it hardly matters to how even brokers are.
_MEAN_GAIN = 1 / 3
#: However slowly rates were found to change, a filter expects at least this much change: otherwise it would believe new
#: windows less and less, and never follow the one subscription whose rate changes for good.
_MOST_KEPT = 0.95
#: Estimates are means over so many windows to come, in which what is a subscription's own fades. Plans are made for
#: that time: with windows of a minute, it is as long as somebody who was moved rests.
HORIZON_WINDOWS = 5
#: One window alone can't tell bursts from what lasts. This part of a deviation is believed, until a second one can.
_BELIEVED_AT_FIRST = 0.5


class Lasting:
    """What lasts of rates. Call `learn` with the rates of each window, then read `estimates`."""

    def __init__(self) -> None:
        #: By subscription: what is its own and lasts, the variance of that, and its deviations in the last two windows.
        self._own: Floats = np.zeros(0)
        self._doubt: Floats = np.zeros(0)
        self._before: Floats = np.zeros((2, 0))
        #: By channel: mean, and sums and counts of products of deviations 0, 1 and 2 windows apart.
        self._mean: Floats = np.zeros(0)
        self._products: Floats = np.zeros((3, 0))
        self._counts: Floats = np.zeros((3, 0))

    def make_room(self, subscriptions: int, channels: int) -> None:
        """For at least so many. There is soon twice as much: channels come one by one."""
        if subscriptions > len(self._own):
            more = max(subscriptions, 2 * len(self._own)) - len(self._own)
            self._own = np.concatenate([self._own, np.zeros(more)])
            self._doubt = np.concatenate([self._doubt, np.full(more, np.nan)])
            self._before = np.concatenate([self._before, np.full((2, more), np.nan)], axis=1)
        if channels > len(self._mean):
            more = max(channels, 2 * len(self._mean)) - len(self._mean)
            self._mean = np.concatenate([self._mean, np.full(more, np.nan)])
            self._products = np.concatenate([self._products, np.zeros((3, more))], axis=1)
            self._counts = np.concatenate([self._counts, np.zeros((3, more))], axis=1)

    def forget(self, subscription: int) -> None:
        """The number will be another subscription's."""
        self._own[subscription] = 0.0
        self._doubt[subscription] = self._before[0, subscription] = self._before[1, subscription] = np.nan

    def forget_channel(self, channel: int) -> None:
        """The number will be another channel's."""
        self._mean[channel] = np.nan
        self._products[:, channel] = self._counts[:, channel] = 0.0

    @property
    def means(self) -> Floats:
        """By channel: the mean rate of its subscriptions; NaN until a window is over."""
        return self._mean

    def learn(self, numbers: Numbers, channels: Numbers, rates: Floats) -> None:
        """A window is over: the rates of these subscriptions in it, and the numbers of their channels."""
        if not len(numbers):
            return
        means = self._follow_means(channels, rates)
        deviations = rates - means[channels]
        self._add_products(numbers, channels, deviations)
        kept, lasting, bursts = (one[channels] for one in self._parts())
        doubt = self._doubt[numbers]
        expected = np.where(np.isnan(doubt), 0.0, kept * self._own[numbers])
        # Of one that is new, only what is usual in its channel is known.
        change = lasting * (1 - np.minimum(kept, _MOST_KEPT) ** 2)
        doubt = np.where(np.isnan(doubt), lasting, np.minimum(kept**2 * doubt, lasting) + change)
        believed = np.divide(doubt, doubt + bursts, out=np.ones_like(doubt), where=doubt + bursts > 0)
        is_first = self._counts[1, channels] == 0
        self._own[numbers] = np.where(
            is_first, _BELIEVED_AT_FIRST * deviations, expected + believed * (deviations - expected)
        )
        self._doubt[numbers] = np.where(is_first, np.nan, (1 - believed) * doubt)
        self._before[1, numbers] = self._before[0, numbers]
        self._before[0, numbers] = deviations

    def estimates(self, numbers: Numbers, channels: Numbers) -> Floats:
        """The rates to expect over the horizon, never below 0."""
        kept, _, _ = self._parts()
        left = (kept[:, None] ** np.arange(1, HORIZON_WINDOWS + 1)).mean(axis=1)
        expected: Floats = np.maximum(0.0, self._mean[channels] + left[channels] * self._own[numbers])
        return expected

    def _follow_means(self, channels: Numbers, rates: Floats) -> Floats:
        """Returns the means of this window; where nothing came about a channel, NaN."""
        count = np.bincount(channels, minlength=len(self._mean)).astype(np.float64)
        total = np.bincount(channels, rates, minlength=len(self._mean))
        means = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
        is_new = np.isnan(self._mean)
        self._mean = np.where(is_new, means, self._mean + np.where(count > 0, _MEAN_GAIN * (means - self._mean), 0.0))
        return means

    def _add_products(self, numbers: Numbers, channels: Numbers, deviations: Floats) -> None:
        self._products *= _REMEMBERED
        self._counts *= _REMEMBERED
        size = len(self._mean)
        for lag, earlier in enumerate((deviations, *self._before[:, numbers])):
            known = ~np.isnan(earlier)
            there = channels[known]
            self._products[lag] += np.bincount(there, deviations[known] * earlier[known], minlength=size)
            self._counts[lag] += np.bincount(there, minlength=size)

    def _parts(self) -> tuple[Floats, Floats, Floats]:
        """By channel: `kept`, the variance of what lasts, and that of bursts. What is not known yet is believed to
        last."""
        all_of_it, one_on, two_on = np.divide(
            self._products, self._counts, out=np.full_like(self._products, np.nan), where=self._counts > 0
        )
        all_of_it = np.nan_to_num(all_of_it)
        one_on = np.where(np.isnan(one_on), all_of_it, np.clip(one_on, 0.0, all_of_it))
        two_on = np.where(np.isnan(two_on), one_on, np.clip(two_on, 0.0, one_on))
        kept = np.divide(two_on, one_on, out=np.zeros_like(one_on), where=one_on > 0)
        kept = np.where(all_of_it > 0, kept, 1.0)
        lasting = np.divide(one_on, kept, out=np.zeros_like(one_on), where=kept > 0)
        lasting = np.minimum(lasting, all_of_it)
        return kept, lasting, all_of_it - lasting
