"""The load: what exists, what is published, and what each channel should say of it, worked out the naive way."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.history import Channel, History, RecordSet, Row

TOPICS = tuple(f"topic-{number:02d}" for number in range(60))
TEAMS = tuple(f"team-{number:02d}" for number in range(20))
LEVELS = (1, 2, 3)
#: Members whose row never changes after set-up: what a join with them gives is determined.
MEMBERS = {f"member-{number:03d}": TEAMS[number % len(TEAMS)] for number in range(80)}
#: Members whose row changes all the time, in a team that no record is for. Each publisher has its own.
RESTLESS_TEAM = "nobody"

EVENTS, PEOPLE = "Events", "Members"
FEEDS = {EVENTS: "events", PEOPLE: "members"}

STATEMENTS = """
CREATE ACTIVE DATASET Events (id STRING, topic STRING, team STRING, level INT, amount BIGINT, PRIMARY KEY (id));
CREATE KEYED DATASET Members (member STRING, team STRING, version INT, PRIMARY KEY (member));
CREATE FEED events INTO Events FROM HTTP;
CREATE FEED members INTO Members FROM HTTP;
CREATE CONTINUOUS CHANNEL OfTopic (topic STRING) AS
  SELECT e.id, e.topic, e.amount FROM Events e WHERE is_new(e) AND e.topic = :topic;
CREATE CONTINUOUS CHANNEL ForMember (member STRING) AS
  SELECT e.id, m.member, m.team FROM Events e JOIN Members m ON m.member = :member
  WHERE is_new(e) AND e.team = m.team;
CREATE REPETITIVE CHANNEL OfTeam (team STRING, level INT) PERIOD 1 SECONDS AS
  SELECT e.id, e.team, e.level FROM Events e WHERE is_new(e) AND e.team = :team AND e.level = :level;
CREATE REPETITIVE CHANNEL TopicTotals (topic STRING) PERIOD 1 SECONDS AS
  SELECT e.topic, count(*) AS records, sum(e.amount) AS total, collect_list(e.id) AS ids
  FROM Events e WHERE is_new(e) AND e.topic = :topic GROUP BY e.topic;
CREATE REPETITIVE CHANNEL OnceOfTopic (topic STRING) PERIOD 1 SECONDS ONCE PER (e.id) AS
  SELECT e.id, e.level FROM Events e WHERE e.topic = :topic;
"""
#: Each run of OnceOfTopic finds all records of a topic so far, and only ONCE PER makes each of them one result.
ONCE_TOPICS = TOPICS[:5]


@dataclass(frozen=True, slots=True)
class PlainChannel:
    """One result for each record that matches."""

    name: str
    test: Callable[[Row, Row], bool]
    payload: Callable[[Row, Row], Row]

    def matches(self, record: Row, parameters: Row) -> bool:
        return self.test(record, parameters)

    def records_of(self, payload: Row) -> list[str]:
        return [str(payload.get("id"))]

    def agrees(self, payload: Row, records: Sequence[Row], parameters: Row) -> bool:
        return dict(payload) == dict(self.payload(records[0], parameters))


@dataclass(frozen=True, slots=True)
class TotalsChannel:
    """One result for each window in which records match; it names them."""

    name: str

    def matches(self, record: Row, parameters: Row) -> bool:
        return bool(record["topic"] == parameters["topic"])

    def records_of(self, payload: Row) -> list[str]:
        return list(payload.get("ids", ()))

    def agrees(self, payload: Row, records: Sequence[Row], parameters: Row) -> bool:
        total = sum(record["amount"] for record in records)
        return (payload["topic"], payload["records"], payload["total"]) == (parameters["topic"], len(records), total)


CHANNELS: dict[str, Channel] = {
    channel.name: channel
    for channel in (
        PlainChannel(
            "OfTopic",
            lambda record, asked: bool(record["topic"] == asked["topic"]),
            lambda record, asked: {"id": record["id"], "topic": asked["topic"], "amount": record["amount"]},
        ),
        PlainChannel(
            "ForMember",
            lambda record, asked: record["team"] == MEMBERS[asked["member"]],
            lambda record, asked: {"id": record["id"], "member": asked["member"], "team": record["team"]},
        ),
        PlainChannel(
            "OfTeam",
            lambda record, asked: record["team"] == asked["team"] and record["level"] == asked["level"],
            lambda record, asked: {"id": record["id"], "team": asked["team"], "level": asked["level"]},
        ),
        TotalsChannel("TopicTotals"),
        PlainChannel(
            "OnceOfTopic",
            lambda record, asked: bool(record["topic"] == asked["topic"]),
            lambda record, _asked: {"id": record["id"], "level": record["level"]},
        ),
    )
}

WANTED: list[dict[str, Any]] = [
    *({"channel": "OfTopic", "parameters": {"topic": topic}} for topic in TOPICS),
    *({"channel": "ForMember", "parameters": {"member": member}} for member in MEMBERS),
    *({"channel": "OfTeam", "parameters": {"team": team, "level": level}} for team in TEAMS for level in LEVELS),
    *({"channel": "TopicTotals", "parameters": {"topic": topic}} for topic in TOPICS),
    *({"channel": "OnceOfTopic", "parameters": {"topic": topic}} for topic in ONCE_TOPICS),
]


def new_history() -> History:
    return History(active=EVENTS, keyed={PEOPLE: "member"}, channels=dict(CHANNELS))


def settled_members() -> RecordSet:
    rows = tuple({"member": member, "team": team, "version": 0} for member, team in MEMBERS.items())
    return RecordSet("settled-members", PEOPLE, rows)


class Author:
    """Makes up the requests of one publisher: the same ones for the same seed."""

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self.chance = random.Random(f"{seed}/{name}")
        self._number = 0

    def next_set(self) -> RecordSet:
        self._number += 1
        name = f"{self.name}-{self._number}"
        if self.chance.random() < 0.15:
            versions = {f"restless-{self.name}-{self.chance.randrange(5)}" for _ in range(self.chance.randint(1, 3))}
            rows = ({"member": one, "team": RESTLESS_TEAM, "version": self._number} for one in sorted(versions))
            return RecordSet(name, PEOPLE, tuple(rows))
        size = self.chance.choices((self.chance.randint(1, 5), self.chance.randint(10, 40)), (85, 15))[0]
        records = tuple(self._record(f"{name}-{at}") for at in range(size))
        bad = tuple(self._bad(f"{name}-bad-{at}") for at in range(self.chance.choices((0, 1, 2), (85, 10, 5))[0]))
        return RecordSet(name, EVENTS, records, bad)

    def _record(self, name: str) -> Row:
        chance = self.chance
        return {
            "id": name,
            "topic": chance.choice(TOPICS),
            "team": chance.choice(TEAMS),
            "level": chance.choice(LEVELS),
            "amount": chance.randrange(1 << 40),
        }

    def _bad(self, name: str) -> str:
        return self.chance.choice(
            (
                json.dumps({"id": name, "level": "high"}),
                json.dumps({"topic": name, "level": 1}),
                f'{{"id": "{name}", "level": ',
                json.dumps([name]),
            )
        )


def last_wave(seed: str) -> list[RecordSet]:
    """Records for every subscription of every channel, for when all is calm."""
    author = Author("last", seed)
    rows = [
        {**author._record(f"last-{topic}-{team}"), "topic": topic, "team": team, "level": LEVELS[at % len(LEVELS)]}
        for at, (topic, team) in enumerate((topic, team) for topic in TOPICS[::3] for team in TEAMS)
    ]
    half = len(rows) // 2
    return [
        RecordSet("last-wave-1", EVENTS, tuple(rows[:half])),
        RecordSet("last-wave-2", EVENTS, tuple(rows[half:]), ('{"id": "last-wave-bad", ',)),
    ]


def body_of(one: RecordSet) -> bytes:
    """The set as NDJSON. Bad lines stand between good ones, where they could do most harm."""
    lines = [json.dumps(record) for record in one.records]
    for at, raw in enumerate(one.bad):
        lines.insert((at * 7 + 1) % (len(lines) + 1), raw)
    return "\n".join(lines).encode()
