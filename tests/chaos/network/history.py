"""What happened in a run of the whole network, and what must not have happened (pure).

A *tenure* is one subscriber's hold on a channel with a topic, from `subscribed` to `unsubscribe` or to the end; it goes
on over any number of *lives*, which are the times when the subscriber's program ran. `check` holds what each tenure was
handed against what was published and against what others were handed:

* Positions decide most: whatever anybody was handed at a position lies in the history of everybody who holds the same,
  so whoever has got something later must have got that too. No clock is needed for this.
* Times decide the rest: a tenure that lasted to the end must have got every acknowledged record whose publishing was
  begun after `subscribed`. Times are of one machine's monotonic clock.

A publish whose answer never came is *unknown*, never failed: its record may be there or not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

#: A record that others got this long before a tenure was given up must have arrived there too, if its subscriber was
#: there all the time: longer than anything that is killed stays away.
GRACE_S = 45.0


class Kind(StrEnum):
    """What can be wrong."""

    LOST = "lost"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    #: For another topic, another subscriber or another permission class, or after `unsubscribed`.
    MISDELIVERED = "misdelivered"
    #: Nobody published it.
    PHANTOM = "phantom"
    #: Of the right records, but what it says of them is wrong.
    ALTERED = "altered"
    #: Told though retention was not over.
    HISTORY_GONE = "history gone"
    #: A subscriber has no owner, or several, or another one than the broker it is at.
    OWNERSHIP = "ownership"
    #: Something was still missing when all had been up and quiet for long.
    NEVER_CALM = "never calm"
    #: A process or a subscriber's connection ended when it should not have.
    MISBEHAVED = "misbehaved"


class Violation(NamedTuple):
    kind: Kind
    what: str


class Position(NamedTuple):
    epoch: int
    sequence: int

    @staticmethod
    def parse(text: str) -> Position:
        epoch, sequence = text.split("-")
        return Position(int(epoch), int(sequence))


@dataclass(slots=True)
class Published:
    """One record. `is_acknowledged` is False while nothing is known."""

    id: str
    topic: str
    amount: int
    begun_s: float
    is_acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class Got:
    at_s: float
    position: Position
    payload: Mapping[str, Any]


@dataclass(slots=True)
class Life:
    """From `subscribed` at `begun_s` until the program ended; `brought` tells whether it brought its own position."""

    begun_s: float
    position: Position
    brought: bool
    ended_s: float | None = None
    got: list[Got] = field(default_factory=list)


@dataclass(slots=True)
class Tenure:
    subscriber: str
    permission: str
    channel: str
    topic: str
    lives: list[Life] = field(default_factory=list)
    #: When it was asked to end, and when that was confirmed.
    left_s: float | None = None
    unsubscribed_s: float | None = None
    #: The subscriber was switched off for good.
    is_stopped: bool = False
    gone: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.subscriber} {self.channel}({self.topic}) of {self.begin}"

    @property
    def begin(self) -> Position:
        return self.lives[0].position

    @property
    def lasts(self) -> bool:
        return self.left_s is None and not self.is_stopped

    def got(self) -> Iterator[Got]:
        return (one for life in self.lives for one in life.got)


@dataclass(slots=True)
class History:
    published: dict[str, Published] = field(default_factory=dict)
    tenures: list[Tenure] = field(default_factory=list)
    #: Messages on a connection for subscriptions that the broker never named there, or had ended.
    strays: list[str] = field(default_factory=list)
    #: Whether the run was carried out to its end. If it was not, much may have been under way.
    is_complete: bool = True
    #: See GRACE_S; longer where something is away for longer.
    grace_s: float = GRACE_S
    #: Seen while it ran.
    noticed: list[Violation] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What coordinator and brokers say when all is calm."""

    #: Subscriber → the broker it is connected to, for all that are.
    connected: Mapping[str, str]
    #: Subscriber → who keeps its session, by the coordinator's word.
    owners: Mapping[str, str]
    #: Broker → how many sessions it keeps, by its own word.
    sessions: Mapping[str, int]


def check(history: History) -> list[Violation]:
    """Everything that is wrong with a finished history."""
    seen = _seen(history)
    return [
        *history.noticed,
        *(Violation(Kind.MISDELIVERED, one) for one in history.strays),
        *_check_classes(history),
        *_check_agreement(history),
        *(violation for tenure in history.tenures for violation in _check_tenure(history, tenure)),
        *_check_losses(history, seen),
    ]


def check_ownership(ownership: Ownership) -> list[Violation]:
    """Each subscriber has one owner, the broker it is at, and nobody keeps a session that is another's."""
    found = []
    for subscriber, broker in ownership.connected.items():
        owner = ownership.owners.get(subscriber, "nobody")
        if owner != broker:
            found.append(Violation(Kind.OWNERSHIP, f"{subscriber} is at {broker} and belongs to {owner}"))
    owned = Counter(ownership.owners.values())
    for broker in sorted(owned.keys() | ownership.sessions.keys()):
        if owned[broker] != ownership.sessions.get(broker, 0):
            what = f"{broker} keeps {ownership.sessions.get(broker, 0)} sessions, and {owned[broker]} belong to it"
            found.append(Violation(Kind.OWNERSHIP, what))
    return found


def records_of(payload: Mapping[str, Any]) -> list[str]:
    """The ids of the records that a notification speaks of: one, or those of a digest."""
    return list(payload["ids"]) if "ids" in payload else [str(payload.get("id"))]


def summary(violations: Iterable[Violation]) -> dict[str, int]:
    """How many of each kind."""
    return dict(Counter(str(violation.kind) for violation in violations))


# ── What was handed out ──────────────────────────────────────────────────────────────────────────────────────────────


def _check_tenure(history: History, tenure: Tenure) -> Iterator[Violation]:
    for message in tenure.gone:
        yield Violation(Kind.HISTORY_GONE, f"{tenure} was told: {message}")
    for life in tenure.lives:
        if not tenure.gone and life.position.epoch != tenure.begin.epoch:
            yield Violation(Kind.HISTORY_GONE, f"{tenure} began anew at {life.position} without a word")
    yield from _check_order(tenure)
    records: dict[str, Position] = {}
    for epoch, got in ((life.position.epoch, got) for life in tenure.lives for got in life.got):
        yield from _check_content(history, tenure, got)
        if not tenure.gone and got.position.epoch != epoch:
            yield Violation(Kind.MISDELIVERED, f"{tenure} got {got.position}, of another history")
        if tenure.unsubscribed_s is not None and got.at_s > tenure.unsubscribed_s:
            late_s = got.at_s - tenure.unsubscribed_s
            yield Violation(Kind.MISDELIVERED, f"{tenure} got {got.position} {late_s:.3f} s after `unsubscribed`")
        for record in records_of(got.payload):
            if records.setdefault(record, got.position) != got.position:
                what = f"{tenure} got {record} at {records[record]}, and at {got.position} again"
                yield Violation(Kind.DOUBLED, what)


def _check_order(tenure: Tenure) -> Iterator[Violation]:
    """Positions grow. A program that came back without its own position may be handed again what it had not
    acknowledged; everything else is handed out once."""
    last, seen = tenure.begin, set[Position]()
    for number, life in enumerate(tenure.lives):
        if number and not life.brought:
            last = life.position
        for got in life.got:
            # A new epoch is another history; whether that may be is looked at elsewhere.
            if got.position.epoch == last.epoch and got.position.sequence <= last.sequence:
                kind = Kind.DOUBLED if got.position in seen else Kind.REORDERED
                yield Violation(kind, f"{tenure} got {got.position} in life {number + 1}, having had {last}")
            else:
                last = got.position
            seen.add(got.position)


def _check_content(history: History, tenure: Tenure, got: Got) -> Iterator[Violation]:
    payload, where = got.payload, f"{tenure} got {got.position}"
    if payload.get("topic") != tenure.topic:
        yield Violation(Kind.MISDELIVERED, f"{where} of topic {payload.get('topic')}")
        return
    ids = records_of(payload)
    if unknown := [one for one in ids if one not in history.published]:
        yield Violation(Kind.PHANTOM, f"{where} that speaks of {unknown}, which nobody published")
        return
    records = [history.published[one] for one in ids]
    amount = payload["total"] if "ids" in payload else payload["amount"]
    is_complete = "ids" not in payload or payload["records"] == len(set(ids))
    if any(one.topic != tenure.topic for one in records):
        yield Violation(Kind.MISDELIVERED, f"{where} that speaks of records of another topic: {ids}")
    elif amount != sum(one.amount for one in records) or not is_complete:
        yield Violation(Kind.ALTERED, f"{where} that says {dict(payload)} of {ids}")


def _check_classes(history: History) -> Iterator[Violation]:
    """One history belongs to one channel, topic and permission class; sharing it wider shows somebody what he may
    not see."""
    whose: dict[int, tuple[str, str, str]] = {}
    reported = set()
    for tenure in history.tenures:
        mine = (tenure.channel, tenure.topic, tenure.permission)
        for epoch in {life.position.epoch for life in tenure.lives} | {got.position.epoch for got in tenure.got()}:
            other = whose.setdefault(epoch, mine)
            if other != mine and (epoch, mine) not in reported:
                reported.add((epoch, mine))
                yield Violation(Kind.MISDELIVERED, f"{tenure} ({mine}) shares history {epoch} with {other}")


def _check_agreement(history: History) -> Iterator[Violation]:
    """Whoever got something at a position got the same."""
    first: dict[Position, tuple[Tenure, Mapping[str, Any]]] = {}
    for tenure in history.tenures:
        for got in tenure.got():
            other, payload = first.setdefault(got.position, (tenure, got.payload))
            if dict(payload) != dict(got.payload):
                yield Violation(Kind.ALTERED, f"at {got.position} {tenure} got {got.payload}, {other} {payload}")


# ── What was not ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _seen(history: History) -> dict[int, list[tuple[int, float]]]:
    """Epoch → all sequences that anybody got there, each with when the first one got it, in order."""
    times: dict[int, dict[int, float]] = defaultdict(dict)
    for tenure in history.tenures:
        for got in tenure.got():
            known = times[got.position.epoch]
            known[got.position.sequence] = min(got.at_s, known.get(got.position.sequence, got.at_s))
    return {epoch: sorted(sequences.items()) for epoch, sequences in times.items()}


def _check_losses(history: History, seen: Mapping[int, list[tuple[int, float]]]) -> Iterator[Violation]:
    by_topic: dict[str, list[Published]] = defaultdict(list)
    for record in history.published.values():
        by_topic[record.topic].append(record)
    for tenure in history.tenures:
        if tenure.gone or any(life.position.epoch != tenure.begin.epoch for life in tenure.lives):
            continue  # That is a violation by itself; what is missing follows from it.
        mine = {got.position.sequence for got in tenure.got() if got.position.epoch == tenure.begin.epoch}
        others = seen.get(tenure.begin.epoch, [])
        lasts = tenure.lasts and history.is_complete
        for sequence, at_s in others[bisect_right(others, tenure.begin.sequence, key=lambda one: one[0]) :]:
            if sequence in mine:
                continue
            why = (
                "and holds it to the end"
                if lasts
                else _why_entitled(tenure, sequence, at_s, max(mine, default=0), history.grace_s)
            )
            if why:
                yield Violation(Kind.LOST, f"{tenure} did not get {sequence}, which others got, {why}")
        if lasts:
            records = {record for got in tenure.got() for record in records_of(got.payload)}
            for record in by_topic[tenure.topic]:
                is_due = record.is_acknowledged and record.begun_s > tenure.lives[0].begun_s
                if is_due and record.id not in records:
                    late_s = record.begun_s - tenure.lives[0].begun_s
                    what = f"{tenure} did not get {record.id}, published {late_s:.1f} s after `subscribed`"
                    yield Violation(Kind.LOST, what)


def _why_entitled(tenure: Tenure, sequence: int, at_s: float, last: int, grace_s: float) -> str:
    """Why a tenure that ended must have got what another got; empty if it need not have."""
    if sequence < last:
        return f"though it got {last}"
    life = tenure.lives[-1]
    if tenure.left_s is not None and life.ended_s is None and max(at_s, life.begun_s) + grace_s < tenure.left_s:
        return f"{tenure.left_s - at_s:.1f} s before it was given up"
    return ""
