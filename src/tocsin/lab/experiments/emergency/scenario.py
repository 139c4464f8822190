"""What happens in the city, by its clock: who is there, and who does what when.

Interactions are drawn from the seed, or read from a file with one JSON object on each line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal

import msgspec

from tocsin.errors import InvalidValue
from tocsin.lab.experiments.emergency.schema import CHANNELS
from tocsin.lab.experiments.emergency.workload import EmergencyWorkload, Interest
from tocsin.protocol.calls import write_call

Action = Literal["login", "logout", "subscribe", "unsubscribe"]


@dataclass(frozen=True, slots=True)
class CityScenario:
    """As in the papers' prototype. Times are in seconds of the city's clock; pairs are the least and the most."""

    seed: int = 1
    duration_s: float = 1800.0
    people: int = 400
    brokers: int = 5
    reports: int = 10_000
    shelters: int = 200
    login_s: tuple[float, float] = (0.0, 240.0)
    subscribe_s: tuple[float, float] = (240.0, 480.0)
    channels: tuple[int, int] = (1, 5)
    subscriptions: tuple[int, int] = (1, 3)
    #: The share of people who log out once for a while, and of those who exchange one subscription for another.
    away: float = 0.1
    away_s: tuple[float, float] = (60.0, 300.0)
    changing: float = 0.1

    def lasting(self, minutes: float, **changes: Any) -> CityScenario:
        """The same for so long, with as many reports each second."""
        duration_s = minutes * 60
        reports = round(self.reports * duration_s / self.duration_s)
        return replace(self, duration_s=duration_s, reports=reports, **changes)


class Interaction(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Somebody does something. A channel with its parameters is for subscribing and unsubscribing."""

    at_s: float
    user: str
    action: Action
    channel: str = ""
    parameters: dict[str, str | float] = {}


def draw_interactions(scenario: CityScenario, workload: EmergencyWorkload) -> list[Interaction]:
    """In the order of time. Everybody logs in, then subscribes to all at one moment; some come and go, or change.

    >>> from tocsin.lab.experiments.emergency.city import City
    >>> told = draw_interactions(CityScenario(people=3), EmergencyWorkload(City.generate(1), users=3))
    >>> [one.action for one in told[:3]]
    ['login', 'login', 'login']
    """
    rng = Random(f"{scenario.seed}/interactions")
    drawn = [one for user in workload.user_ids for one in _life(scenario, workload, user, rng)]
    return sorted(drawn, key=lambda one: one.at_s)


def _life(scenario: CityScenario, workload: EmergencyWorkload, user: str, rng: Random) -> Iterator[Interaction]:
    yield Interaction(rng.uniform(*scenario.login_s), user, "login")
    at_s = rng.uniform(*scenario.subscribe_s)
    wanted: dict[str, Interest] = {}
    for channel in rng.sample(list(CHANNELS), rng.randint(*scenario.channels)):
        for _ in range(rng.randint(*scenario.subscriptions)):
            interest = workload.interest(channel, rng)
            wanted[_call(interest)] = interest  # one may draw the same twice
    for interest in wanted.values():
        yield Interaction(at_s, user, "subscribe", interest.channel, interest.parameters)
    is_away, changes = rng.random() < scenario.away, rng.random() < scenario.changing
    # Within the time that is left, so that everybody is back in time to be told what they missed.
    span_s = scenario.duration_s - at_s
    leaves_s, away_s = at_s + span_s * rng.uniform(0.3, 0.5), min(rng.uniform(*scenario.away_s), span_s * 0.3)
    if changes:
        given_up, channel = rng.choice(list(wanted.values())), rng.choice(list(CHANNELS))
        taken_up = workload.interest(channel, rng)
        if _call(taken_up) not in wanted:
            changed_s = at_s + span_s * rng.uniform(0.1, 0.25)
            yield Interaction(changed_s, user, "unsubscribe", given_up.channel, given_up.parameters)
            yield Interaction(changed_s, user, "subscribe", taken_up.channel, taken_up.parameters)
    if is_away:
        yield Interaction(leaves_s, user, "logout")
        yield Interaction(leaves_s + away_s, user, "login")


def read_interactions(path: Path, workload: EmergencyWorkload) -> list[Interaction]:
    """Raises InvalidValue with the line at fault."""
    decoder = msgspec.json.Decoder(Interaction)
    found = []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as exc:
        raise InvalidValue(f"{path} can't be read: {exc.strerror}") from exc
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                found.append(decoder.decode(line))
            except msgspec.MsgspecError as exc:
                raise InvalidValue(f"{path}, line {number}: not an interaction: {exc}") from exc
    check_interactions(found, workload.user_ids)
    return found


def write_interactions(path: Path, interactions: Iterable[Interaction]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in interactions))


def check_interactions(interactions: Sequence[Interaction], users: Iterable[str]) -> None:
    """Raises InvalidValue if somebody does what they can't do then."""
    known, here, held = set(users), set[str](), set[tuple[str, str]]()
    last_s = 0.0
    for number, one in enumerate(interactions, 1):
        fault = _fault(one, known, here, held, last_s)
        if fault:
            raise InvalidValue(f"interaction {number}, {one.user} at {one.at_s:g} s: {fault}")
        last_s = one.at_s
        match one.action:
            case "login":
                here.add(one.user)
            case "logout":
                here.remove(one.user)
            case "subscribe":
                held.add((one.user, _call(one)))
            case "unsubscribe":
                held.remove((one.user, _call(one)))


def _fault(one: Interaction, known: set[str], here: set[str], held: set[tuple[str, str]], last_s: float) -> str:
    if one.user not in known:
        return f"there is no such person; there are {len(known)}, from {min(known)} to {max(known)}"
    if not last_s <= one.at_s < float("inf"):
        return f"times have to be in order; the one before is at {last_s:g} s"
    if one.action == "login":
        return "is logged in already" if one.user in here else ""
    if one.user not in here:
        return f"{one.action} without being logged in"
    if one.action == "logout":
        return ""
    if one.channel not in CHANNELS:
        return f"no channel called {one.channel!r}; there are: {', '.join(CHANNELS)}"
    if set(one.parameters) != set(CHANNELS[one.channel]):
        return f"{one.channel} takes the parameters {', '.join(CHANNELS[one.channel])}"
    is_held = (one.user, _call(one)) in held
    if is_held == (one.action == "subscribe"):
        return "subscribed to that already" if is_held else "not subscribed to that"
    return ""


def _call(one: Interest | Interaction) -> str:
    return write_call(one.channel, one.parameters)
