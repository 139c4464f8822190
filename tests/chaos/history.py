"""What happened in a run, and what must not have happened (pure).

A history holds what publishers were told, what the tables held in the end and what readers of results saw. `check`
compares them and lists violations. A publish whose answer never came is *unknown*, never failed: its records may
be there once or not at all. Attempts under one idempotency key are one set of records, however many there were.

Results are held against the tables, not against the publishes: whatever became of an unknown publish, each of
its records that is stored must have its results, once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

Row = Mapping[str, Any]


class Outcome(StrEnum):
    OK = "ok"
    #: Told "no", or never sent: nothing of it may be there.
    REFUSED = "refused"
    #: No answer came: a timeout, a dropped connection, an error inside the server.
    UNKNOWN = "unknown"


class Kind(StrEnum):
    """What can be wrong."""

    LOST_RECORD = "lost record"
    DOUBLED_RECORD = "doubled record"
    PHANTOM_RECORD = "phantom record"
    ALTERED_RECORD = "altered record"
    #: A part of one request's records is there, and the rest is not.
    TORN_REQUEST = "torn request"
    #: A keyed row is older than one acknowledged later.
    STALE_RECORD = "stale record"
    LOST_DEAD_LETTER = "lost dead letter"
    DOUBLED_DEAD_LETTER = "doubled dead letter"
    PHANTOM_DEAD_LETTER = "phantom dead letter"
    CONTRADICTING_RECEIPT = "contradicting receipt"
    LOST_RESULT = "lost result"
    DOUBLED_RESULT = "doubled result"
    PHANTOM_RESULT = "phantom result"
    #: The records it speaks of are right, what it says of them is not.
    ALTERED_RESULT = "altered result"
    MISDELIVERED_RESULT = "misdelivered result"
    UNORDERED_RESULTS = "unordered results"
    MIXED_EPOCHS = "mixed epochs"
    #: Two readers saw different things at one position.
    DIFFERING_READERS = "differing readers"
    STOPPED_CHANNEL = "stopped channel"
    #: The process did not do as it should: it ended by itself, or did not when it had to.
    MISBEHAVED_PROCESS = "misbehaved process"


class Violation(NamedTuple):
    kind: Kind
    what: str


@dataclass(frozen=True, slots=True)
class RecordSet:
    """Records of one request; `bad` are lines that don't fit the schema and must become dead letters."""

    name: str
    dataset: str
    records: tuple[Row, ...]
    bad: tuple[str, ...] = ()

    @property
    def count(self) -> int:
        return len(self.records) + len(self.bad)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request for a set, and what the publisher knows of it."""

    set: str
    outcome: Outcome
    receipt: str = ""
    #: How many records the answer speaks of.
    count: int | None = None


@dataclass(frozen=True, slots=True)
class ReceiptAnswer:
    """What the cluster said of a committed request, at once or when asked later."""

    receipt: str
    accepted: int
    rejected: int


@dataclass(frozen=True, slots=True)
class Subscription:
    id: int
    channel: str
    parameters: Row
    epoch: int


@dataclass(frozen=True, slots=True)
class Result:
    subscription: int
    channel: str
    epoch: int
    sequence: int
    payload: Row


@dataclass(frozen=True, slots=True)
class Stored:
    """A dataset as its tables hold it: rows in commit order, and the text of each dead letter."""

    rows: Sequence[Row]
    dead_letters: Sequence[str] = ()


class Channel(Protocol):
    """A channel as one would work it out by hand, for one subscription and one record at a time."""

    @property
    def name(self) -> str: ...

    def matches(self, record: Row, parameters: Row) -> bool:
        """Whether a record of the active dataset is for a subscription."""
        ...

    def records_of(self, payload: Row) -> list[str]:
        """The ids of the records that a result speaks of."""
        ...

    def agrees(self, payload: Row, records: Sequence[Row], parameters: Row) -> bool:
        """Whether a result says of these records what it should."""
        ...


@dataclass(slots=True)
class History:
    #: The active dataset, whose `id` is never used twice, and the keyed ones with their key.
    active: str
    keyed: dict[str, str]
    channels: dict[str, Channel]
    sets: dict[str, RecordSet] = field(default_factory=dict)
    attempts: list[Attempt] = field(default_factory=list)
    receipts: list[ReceiptAnswer] = field(default_factory=list)
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    #: What each reader read, in order.
    readers: dict[str, list[Result]] = field(default_factory=dict)
    stored: dict[str, Stored] = field(default_factory=dict)
    #: Records published when all was calm again, and the highest sequence of results before that.
    last_wave: frozenset[str] = frozenset()
    calm_since: int = 0
    #: Seen while it ran.
    noticed: list[Violation] = field(default_factory=list)

    def outcomes(self) -> dict[str, Outcome]:
        """What became of each set, all its attempts together."""
        tried: dict[str, set[Outcome]] = defaultdict(set)
        for attempt in self.attempts:
            tried[attempt.set].add(attempt.outcome)
        order = (Outcome.OK, Outcome.UNKNOWN, Outcome.REFUSED)
        return {name: next((one for one in order if one in tried[name]), Outcome.REFUSED) for name in self.sets}


def check(history: History) -> list[Violation]:
    """Everything that is wrong with a finished history."""
    return [
        *history.noticed,
        *_check_active(history),
        *(violation for name, key in history.keyed.items() for violation in _check_keyed(history, name, key)),
        *(violation for name in history.stored for violation in _check_dead_letters(history, name)),
        *_check_receipts(history),
        *_check_results(history),
        *_check_order(history),
        *_check_readers_agree(history),
        *_check_channels_alive(history),
    ]


def expected_results(history: History) -> dict[int, Counter[str]]:
    """Subscription → id of each record it must hear of → how many rows have that id (one, if all is well)."""
    rows = history.stored[history.active].rows
    by_channel: dict[str, list[Subscription]] = defaultdict(list)
    for subscription in history.subscriptions.values():
        by_channel[subscription.channel].append(subscription)
    expected: dict[int, Counter[str]] = {one: Counter() for one in history.subscriptions}
    for name, subscriptions in by_channel.items():
        matches = history.channels[name].matches
        for subscription in subscriptions:
            parameters, mine = subscription.parameters, expected[subscription.id]
            mine.update(row["id"] for row in rows if matches(row, parameters))
    return expected


# ── Records ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_active(history: History) -> Iterator[Violation]:
    rows = history.stored[history.active].rows
    times = Counter(row["id"] for row in rows)
    content = {row["id"]: row for row in rows}
    outcomes = history.outcomes()
    known: set[str] = set()
    for one in _sets_of(history, history.active):
        outcome = outcomes[one.name]
        found = 0
        for record in one.records:
            name = record["id"]
            known.add(name)
            found += times[name] > 0
            if times[name] > 1:
                yield Violation(Kind.DOUBLED_RECORD, f"{name} of {one.name} ({outcome}) is there {times[name]} times")
            if times[name] and outcome is Outcome.REFUSED:
                yield Violation(Kind.PHANTOM_RECORD, f"{name} of {one.name} was refused and is there")
            if not times[name] and outcome is Outcome.OK:
                yield Violation(Kind.LOST_RECORD, f"{name} of {one.name} was acknowledged and is not there")
            if times[name] and dict(content[name]) != dict(record):
                yield Violation(Kind.ALTERED_RECORD, f"{name} of {one.name} is {content[name]}, and was {record}")
        if outcome is Outcome.UNKNOWN and 0 < found < len(one.records):
            yield Violation(Kind.TORN_REQUEST, f"{found} of {len(one.records)} records of {one.name} are there")
    for name in times.keys() - known:
        yield Violation(Kind.PHANTOM_RECORD, f"{name} was never published and is there")


def _check_keyed(history: History, dataset: str, key: str) -> Iterator[Violation]:
    """The row of each key must be the last one acknowledged, or an unknown one published after it. The publishes of
    one key must have been one after the other, in the order of `history.sets`."""
    current = {row[key]: dict(row) for row in history.stored[dataset].rows}
    outcomes = history.outcomes()
    published: dict[str, list[tuple[Outcome, dict[str, Any]]]] = defaultdict(list)
    for one in _sets_of(history, dataset):
        for record in one.records:
            published[record[key]].append((outcomes[one.name], dict(record)))
    for name, versions in published.items():
        last_known = max((at for at, (outcome, _) in enumerate(versions) if outcome is Outcome.OK), default=-1)
        allowed = [record for outcome, record in versions[max(last_known, 0) :] if outcome is not Outcome.REFUSED]
        row = current.get(name)
        if row is None:
            if last_known >= 0:
                yield Violation(Kind.LOST_RECORD, f"{dataset} {name} was acknowledged and has no row")
        elif row not in allowed:
            earlier = (Outcome.OK, row) in versions or (Outcome.UNKNOWN, row) in versions
            kind = Kind.STALE_RECORD if earlier else Kind.PHANTOM_RECORD
            yield Violation(kind, f"{dataset} {name} is {row}; it could be one of {allowed}")
    for name in current.keys() - published.keys():
        yield Violation(Kind.PHANTOM_RECORD, f"{dataset} {name} was never published and has a row")


def _check_dead_letters(history: History, dataset: str) -> Iterator[Violation]:
    times = Counter(history.stored[dataset].dead_letters)
    outcomes = history.outcomes()
    known: set[str] = set()
    for one in _sets_of(history, dataset):
        for raw in one.bad:
            known.add(raw)
            if times[raw] > 1:
                yield Violation(Kind.DOUBLED_DEAD_LETTER, f"{raw} of {one.name} is there {times[raw]} times")
            if not times[raw] and outcomes[one.name] is Outcome.OK:
                yield Violation(Kind.LOST_DEAD_LETTER, f"{raw} of {one.name} was acknowledged and is not there")
            if times[raw] and outcomes[one.name] is Outcome.REFUSED:
                yield Violation(Kind.PHANTOM_DEAD_LETTER, f"{raw} of {one.name} was refused and is there")
    for raw in times.keys() - known:
        yield Violation(Kind.PHANTOM_DEAD_LETTER, f"{raw} was never published, or not as a bad record")


def _sets_of(history: History, dataset: str) -> Iterator[RecordSet]:
    return (one for one in history.sets.values() if one.dataset == dataset)


def _check_receipts(history: History) -> Iterator[Violation]:
    set_of: dict[str, RecordSet] = {}
    receipt_of: dict[str, str] = {}
    for attempt in history.attempts:
        if attempt.outcome is not Outcome.OK:
            continue
        one = history.sets[attempt.set]
        first = receipt_of.setdefault(one.name, attempt.receipt)
        if attempt.receipt != first:
            yield _receipt(f"{one.name} was given {first} and then {attempt.receipt}")
        owner = set_of.setdefault(attempt.receipt, one)
        if owner is not one:
            yield _receipt(f"{attempt.receipt} was given for {owner.name} and for {one.name}")
        if attempt.count is not None and attempt.count != one.count:
            yield _receipt(f"{attempt.receipt} speaks of {attempt.count} records; {one.name} has {one.count}")
    for answer in history.receipts:
        asked = set_of.get(answer.receipt)
        if asked is None:
            yield _receipt(f"{answer.receipt} was answered for and never given")
        elif (answer.accepted, answer.rejected) != (len(asked.records), len(asked.bad)):
            said = f"{answer.accepted} accepted and {answer.rejected} rejected"
            yield _receipt(
                f"{answer.receipt}: {said}; {asked.name} has {len(asked.records)} good, {len(asked.bad)} bad"
            )


def _receipt(what: str) -> Violation:
    return Violation(Kind.CONTRADICTING_RECEIPT, what)


# ── Results ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _check_results(history: History) -> Iterator[Violation]:
    expected = expected_results(history)
    rows = {row["id"]: row for row in history.stored[history.active].rows}
    for reader, results in history.readers.items():
        heard: dict[int, Counter[str]] = {one: Counter() for one in expected}
        for result in results:
            yield from _check_result(history, reader, result, rows, heard)
        for subscription, wanted in expected.items():
            yield from _compare(reader, history.subscriptions[subscription], wanted, heard[subscription])


def _check_result(
    history: History, reader: str, result: Result, rows: Mapping[str, Row], heard: dict[int, Counter[str]]
) -> Iterator[Violation]:
    name = f"{reader}: {result.channel} {result.epoch}-{result.sequence}"
    subscription = history.subscriptions.get(result.subscription)
    if subscription is None or subscription.channel != result.channel:
        yield Violation(Kind.MISDELIVERED_RESULT, f"{name}: nobody asked {result.channel} as {result.subscription}")
        return
    channel = history.channels[result.channel]
    names = channel.records_of(result.payload)
    unknown = [name for name in names if name not in rows]
    for name in unknown:
        yield Violation(Kind.PHANTOM_RESULT, f"{name}: speaks of {name}, which is not there")
    foreign = [name for name in names if name in rows and not channel.matches(rows[name], subscription.parameters)]
    for name in foreign:
        who = f"{subscription.id} {dict(subscription.parameters)}"
        yield Violation(Kind.MISDELIVERED_RESULT, f"{name}: {name} is not for {who}")
    if unknown or foreign:
        return
    heard[subscription.id].update(names)
    if not channel.agrees(result.payload, [rows[name] for name in names], subscription.parameters):
        yield Violation(Kind.ALTERED_RESULT, f"{name}: says {result.payload}")


def _compare(
    reader: str, subscription: Subscription, wanted: Mapping[str, int], heard: Mapping[str, int]
) -> Iterator[Violation]:
    who = f"{reader}: {subscription.channel} {subscription.id} {dict(subscription.parameters)}"
    for name, times in wanted.items():
        if heard.get(name, 0) < times:
            yield Violation(Kind.LOST_RESULT, f"{who} was not told of {name}")
        elif heard[name] > times:
            yield Violation(Kind.DOUBLED_RESULT, f"{who} was told of {name} {heard[name]} times")


def _check_order(history: History) -> Iterator[Violation]:
    for reader, results in history.readers.items():
        last: dict[int, int] = {}
        for result in results:
            subscription = history.subscriptions.get(result.subscription)
            if subscription is not None and result.epoch != subscription.epoch:
                what = f"{reader}: {result.subscription} began in epoch {subscription.epoch}, now {result.epoch}"
                yield Violation(Kind.MIXED_EPOCHS, what)
            before = last.get(result.subscription, -1)
            if result.sequence <= before:
                what = f"{reader}: {result.subscription} had {before}, and then {result.sequence}"
                yield Violation(Kind.UNORDERED_RESULTS, what)
            last[result.subscription] = result.sequence


def _check_readers_agree(history: History) -> Iterator[Violation]:
    names = list(history.readers)
    seen = [{(one.subscription, one.sequence): one.payload for one in history.readers[name]} for name in names]
    for name, other in zip(names[1:], seen[1:], strict=True):
        for position in sorted(seen[0].keys() | other.keys()):
            if seen[0].get(position) != other.get(position):
                what = f"at {position} {names[0]} saw {seen[0].get(position)} and {name} saw {other.get(position)}"
                yield Violation(Kind.DIFFERING_READERS, what)


def _check_channels_alive(history: History) -> Iterator[Violation]:
    rows = [row for row in history.stored[history.active].rows if row["id"] in history.last_wave]
    alive = {
        result.channel
        for results in history.readers.values()
        for result in results
        if result.sequence > history.calm_since
    }
    for name, channel in history.channels.items():
        parameters = [one.parameters for one in history.subscriptions.values() if one.channel == name]
        if name not in alive and any(channel.matches(row, one) for one in parameters for row in rows):
            yield Violation(Kind.STOPPED_CHANNEL, f"{name} had no result for records of the last wave")


def summary(violations: Iterable[Violation]) -> dict[str, int]:
    """How many of each kind."""
    return dict(Counter(str(violation.kind) for violation in violations))
