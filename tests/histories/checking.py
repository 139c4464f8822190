"""What must not be in a finished history: results that were lost, doubled, out of order, or somebody else's, and
subscriptions that are kept though their program has unsubscribed."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from histories.subscribers import Tenure
from histories.world import World


class Kind(StrEnum):
    LOST = "lost"
    DOUBLED = "doubled"
    REORDERED = "reordered"
    MISDELIVERED = "misdelivered"
    KEPT_FOR_NOTHING = "kept for nothing"
    HISTORY_GONE = "history gone"
    NEVER_CALM = "never calm"
    MISBEHAVED = "misbehaved"


class Violation(NamedTuple):
    kind: Kind
    what: str


def check(world: World, *, is_calm: bool) -> list[Violation]:
    found = [Violation(Kind.MISBEHAVED, one) for one in world.noticed]
    if not is_calm:
        missing = [str(one) for one in world.missing()]
        found.append(Violation(Kind.NEVER_CALM, f"after all was up for long, last records are missing: {missing}"))
    if is_calm:
        found += [
            Violation(Kind.KEPT_FOR_NOTHING, f"{tenure} is kept, though its program has unsubscribed from it")
            for tenure in world.kept_for_nothing()
        ]
    by_subscription: dict[int, list[tuple[int, int]]] = {}
    for one in world.cluster.results.all():
        by_subscription.setdefault(one.subscription, []).append((one.sequence, one.record))
    for device in world.devices:
        for tenure in device.tenures:
            found += _check_tenure(world, tenure, by_subscription)
    return found


def _check_tenure(
    world: World, tenure: Tenure, by_subscription: dict[int, list[tuple[int, int]]]
) -> Iterator[Violation]:
    if not tenure.lives:
        return
    begin = tenure.lives[0].begin
    if tenure.gaps or any(life.begin.epoch != begin.epoch for life in tenure.lives):
        yield Violation(Kind.HISTORY_GONE, f"{tenure}: its history ended, though its device never left")
        return
    key = world.cluster.registry.ever[begin.epoch]
    if key != tenure.key:
        yield Violation(Kind.MISDELIVERED, f"{tenure} holds {key}")
    yield from _check_order(world, tenure)
    seen = {position.sequence for life in tenure.lives for position, _ in life.got}
    lasts = not tenure.has_left
    for sequence, record in by_subscription.get(begin.epoch, []):
        is_due = sequence > begin.sequence and (lasts or sequence < max(seen, default=0))
        if is_due and sequence not in seen and tenure.must_get(record):
            yield Violation(Kind.LOST, f"{tenure} of {begin} did not get {sequence}, record {record}")
    if lasts:
        got = {record for life in tenure.lives for _, record in life.got}
        for record, topic in enumerate(world.cluster.records, 1):
            is_due = topic == tenure.topic and record > tenure.records_before and tenure.must_get(record)
            if is_due and record not in got:
                yield Violation(Kind.LOST, f"{tenure} did not get record {record}, published after `subscribed`")


def _check_order(world: World, tenure: Tenure) -> Iterator[Violation]:
    """Each record came once, at one position, and positions grew."""
    begin = tenure.lives[0].begin
    last = begin.sequence
    seen: set[int] = set()
    sequences: dict[int, int] = {}
    for number, life in enumerate(tenure.lives):
        if number and not life.brought:
            last = life.begin.sequence
        for position, record in life.got:
            if position.epoch != begin.epoch or not record or world.cluster.records[record - 1] != tenure.topic:
                yield Violation(Kind.MISDELIVERED, f"{tenure} got {position}, record {record}")
            elif not tenure.may_get(record):
                yield Violation(Kind.MISDELIVERED, f"{tenure} got {position}, record {record}, past its filter")
            elif position.sequence <= last:
                kind = Kind.DOUBLED if position.sequence in seen else Kind.REORDERED
                yield Violation(kind, f"{tenure} got {position} in life {number + 1}, having had {last}")
            elif sequences.setdefault(record, position.sequence) != position.sequence:
                yield Violation(Kind.DOUBLED, f"{tenure} got record {record} at {sequences[record]} and at {position}")
            else:
                last = position.sequence
            seen.add(position.sequence)
