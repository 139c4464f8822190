"""What exists, what is published and who holds what; all of it decided by a seed."""

from __future__ import annotations

import random
from typing import Any

CHANNELS = ("OfTopic", "Digest")
#: Held by many, so that brokers share them.
POPULAR = tuple(f"topic-{number:02d}" for number in range(30))
#: Held by one or two: their backend subscriptions come and go with their holders.
RARE = tuple(f"rare-{number:02d}" for number in range(40))
#: Users have many devices: hashing a password for each subscriber would take longer than the run.
USERS = 10
PERMISSIONS = ("", "confidential")
PASSWORD = "a chaotic password"
DIGEST_EVERY_S = 2

STATEMENTS = f"""
CREATE ACTIVE DATASET Events (id STRING, topic STRING, amount BIGINT, PRIMARY KEY (id));
CREATE FEED events INTO Events FROM HTTP;
CREATE CONTINUOUS CHANNEL OfTopic (topic STRING) AS
  SELECT e.id, e.topic, e.amount FROM Events e WHERE is_new(e) AND e.topic = :topic;
CREATE REPETITIVE CHANNEL Digest (topic STRING) PERIOD {DIGEST_EVERY_S} SECONDS AS
  SELECT e.topic, count(*) AS records, sum(e.amount) AS total, collect_list(e.id) AS ids
  FROM Events e WHERE is_new(e) AND e.topic = :topic GROUP BY e.topic;
"""


def user_name(number: int) -> str:
    return f"user-{number % USERS}"


def permission_of(number: int) -> str:
    """Of the user's, and so of all the user's devices."""
    return PERMISSIONS[number % USERS % len(PERMISSIONS)]


def last_of(topic: str) -> str:
    """The id of a topic's record that comes after all others."""
    return f"last-{topic}"


def topics_of(run: str) -> list[str]:
    """Several runs may share a cluster; their topics are their own."""
    return [f"{run}/{topic}" for topic in POPULAR + RARE]


def one_hold(run: str, chance: random.Random) -> tuple[str, str]:
    """A channel and a topic for somebody to subscribe to."""
    topic = chance.choice(RARE) if chance.random() < 0.25 else chance.choice(POPULAR)
    return chance.choices(CHANNELS, (3, 1))[0], f"{run}/{topic}"


class Author:
    """Makes up the requests of one publisher."""

    def __init__(self, run: str, name: str, seed: str) -> None:
        self._run = run
        self._name = f"{run}-{name}"
        self._chance = random.Random(f"{seed}/{name}")
        self._number = 0

    def next_records(self) -> tuple[str, list[dict[str, Any]]]:
        """A name for the request, and its records."""
        self._number += 1
        name = f"{self._name}-{self._number}"
        size = self._chance.choices((self._chance.randint(1, 3), self._chance.randint(8, 20)), (9, 1))[0]
        topics = [self._chance.choice(POPULAR if self._chance.random() < 0.7 else RARE) for _ in range(size)]
        return name, [self.record(f"{name}-{at}", f"{self._run}/{topic}") for at, topic in enumerate(topics)]

    def record(self, name: str, topic: str) -> dict[str, Any]:
        return {"id": name, "topic": topic, "amount": self._chance.randrange(1 << 40)}
