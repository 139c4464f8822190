"""What the demonstration counts, and whether the count is right (pure)."""

from __future__ import annotations

import itertools
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tocsin.experiments.emergency.schema import CHANNELS
from tocsin.experiments.emergency.workload import Record

#: A subscriber's subscription: the subscriber, and the subscription as people write it.
Place = tuple[str, str]


@dataclass(slots=True)
class ChannelTally:
    subscriptions: int = 0
    notifications: int = 0
    delays_s: list[float] = field(default_factory=list)
    examples: list[Record] = field(default_factory=list)


@dataclass(slots=True)
class Tally:
    """What was sent and what came back."""

    published: int = 0
    accepted: int = 0
    rejected: int = 0
    channels: dict[str, ChannelTally] = field(default_factory=lambda: {name: ChannelTally() for name in CHANNELS})
    #: When each report was sent, to tell how long its notifications took.
    sent_at: dict[str, float] = field(default_factory=dict)
    #: The sequences that each subscriber was handed, for each of its subscriptions.
    received: dict[Place, list[int]] = field(default_factory=dict)
    #: Subscribers at each broker, before and after one was taken down.
    brokers_before: Counter[str] = field(default_factory=Counter)
    brokers_after: Counter[str] = field(default_factory=Counter)
    moved: int = 0
    audit: Audit | None = None

    @property
    def notifications(self) -> int:
        return sum(channel.notifications for channel in self.channels.values())

    @property
    def succeeded(self) -> bool:
        return (
            self.accepted == self.published > 0
            and all(channel.notifications for channel in self.channels.values())
            and self.audit is not None
            and self.audit.is_clean
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "succeeded": self.succeeded,
            "records": {"published": self.published, "accepted": self.accepted, "rejected": self.rejected},
            "notifications": self.notifications,
            "audit": None if self.audit is None else self.audit.to_json(),
            "brokers": {"before": dict(self.brokers_before), "after": dict(self.brokers_after), "moved": self.moved},
            "channels": {
                name: {
                    "subscriptions": channel.subscriptions,
                    "notifications": channel.notifications,
                    "median_delay_s": round(statistics.median(channel.delays_s), 3) if channel.delays_s else None,
                    "examples": channel.examples,
                }
                for name, channel in self.channels.items()
            },
        }


@dataclass(frozen=True, slots=True)
class Audit:
    """What subscribers should have been handed, by the cluster's own results, against what they were."""

    expected: int
    lost: int
    doubled: int
    reordered: int
    misdelivered: int

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.misdelivered)

    def to_json(self) -> dict[str, int]:
        return {
            "expected": self.expected,
            "lost": self.lost,
            "doubled": self.doubled,
            "reordered": self.reordered,
            "misdelivered": self.misdelivered,
        }


def audit(received: Mapping[Place, Sequence[int]], results: Mapping[str, Sequence[int]]) -> Audit:
    """Compare what each subscriber was handed with all results of its subscription.

    >>> audit({("ann", "C(1)"): [4, 5, 5]}, {"C(1)": [4, 5, 6]}).to_json()
    {'expected': 3, 'lost': 1, 'doubled': 1, 'reordered': 0, 'misdelivered': 0}
    """
    expected = lost = doubled = reordered = misdelivered = 0
    for (_, subscription), sequences in received.items():
        wanted = set(results.get(subscription, ()))
        got = set(sequences)
        expected += len(wanted)
        lost += len(wanted - got)
        misdelivered += len(got - wanted)
        doubled += len(sequences) - len(got)
        reordered += sum(later < earlier for earlier, later in itertools.pairwise(sequences))
    return Audit(expected, lost, doubled, reordered, misdelivered)
